"""CLOCK: every event gets its reference time and the error of it, once.

    ref_time = ts + offset of the source's clock;  true time in [ref_time - err, ref_time + err]

Where the offset comes from, best first: what a user declared; what rounds of time sync
say (`topology.clock.measured`); else the policy for sources that are not synced:

* `trust`: the source is taken at its word, offset 0 and error 0. A stamp more than
  `max_ahead` after the event's own arrival is dead, reason `ahead`.
* `estimate`: bounds from the arrivals (`topology.clock.one_way`).
* `reject`: the event is dead, reason `unsynced`.

What holds for all of them (docs/decisions/0006-clocks.md has the reasons):

* Which samples apply follows from arrivals: those that arrived `activation` before the
  latest arrival of the source so far. When the table was filled changes nothing.
* An event whose corrected time is `max_behind`, 292 years, before its arrival is dead, reason
  `behind`. The default is never. (What is as old as it says, a backfill, wants `trust`: by
  the arrivals alone it cannot be distinguished from a clock that is years behind.)
* Monotone within a source: a reference time below the one before is raised to it, and
  what was added goes into the error. An event that is late already is stamped as it
  is and raises nothing.
* No reference time lies further after its arrival than `broker_slack` where the offset was
  declared or measured, `jump_min` under `estimate`, `max_ahead` under `trust`. So a source
  whose offset was wrong recovers as soon as another one holds.
* Where the error of a declared or measured offset explains that the event seems to lie further
  ahead, it is put `broker_slack` after its arrival: what is possible of its interval ends there.
* An event contradicts the clock if even so it would have happened more than `broker_slack`
  after it arrived, if under `estimate` its reading is more than `jump_min` below the edge (of a
  clock that is left alone: below 0), or if its stamp has fallen by more than `jump_min` in
  the order of sequence. It is stamped by its own arrival, with the one-way error, or dead
  where the policy is `reject`. The `JUMP_VOTES`th in a row that agrees with the others makes
  it a jump of the clock: the declared offset in force, or else what was measured or estimated,
  is dropped, and the source is `broken` until it has synced again or another offset is
  declared. No other source is touched by any of this.
* An event of a clock that was mended which comes quicker than all before, and still not before
  its stamp, may be the end of a backlog of a clock that is right: its error reaches back to its
  stamp, and so do those of what follows for `SETTLE_NS`.
* `segment` counts up whenever the ground of the stamps is a new one (declared, measured, the
  policy; another declared offset or error, an estimate that moves by more than `PASSIVE_FLOOR_NS`):
  distances within a segment are as sure as the clock is, those across are not.

Cost: O(1) an event; a new cell each second of a source's time. Memory: one entry per
source, at most `max_sources`; past that the longest idle one is forgotten, and one that was silent
for `forget_after` when a new one comes, as in REORDER; counted in `forgotten`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from topology.clock.cell import CELL_BITS, STATES, WIDEST_NS
from topology.clock.drift_table import DriftTable, Place
from topology.clock.models import FOLDED, Rounds
from topology.clock.plain import stamp_followers
from topology.clock.settings import PASSIVE_FLOOR_NS, ClockConfig
from topology.clock.source_clock import SINCE_EVER, Clocks, SourceClock
from topology.model.event import BLOCKED, DATA, DEAD, UNBLOCKED, Event
from topology.model.kept import Shape, ShapeRefused
from topology.model.kept_operator import KeptOperator
from topology.model.operator import Figure, Figures, Plain, State, total
from topology.model.outcome import Step, dead_letter
from topology.model.tables import KeptState

CLOCK: Final = Shape("clock", 1)

AHEAD_DETAIL: Final = (
    "ts is {} ns after the arrival; set the source's clock, or headers.ts_unit of its stream, or"
    " raise clock.max_ahead"
)
MAX_LISTED: Final = 100

BEHIND_DETAIL: Final = (
    "its time is centuries before the arrival; set the source's clock or headers.ts_unit of its"
    " stream"
)
UNSYNCED_DETAIL: Final = (
    "nothing sure is known about the clock of the source; let it sync with the sync server,"
    " declare its offset, or write clock.unsynced: estimate"
)


FIGURES: Final[Mapping[str, Figure]] = {
    "sources": Figure("Sources known to CLOCK"),
    "synced": Figure("Sources whose clock was known at their last event"),
    "stale": Figure("Synced sources whose last good round of time sync is too old"),
    "unsynced": Figure(
        "Sources whose clock was unknown at their last event; the policy unsynced applied"
    ),
    "suspect": Figure("Sources whose newest rounds contradict the older ones"),
    "broken": Figure(
        "Sources whose events contradicted their clock and that have not synced since"
    ),
    "corrected_by_arrival": Figure(
        "Sources whose clock was corrected by arrival times alone (unsynced: estimate)"
    ),
    "corrected_by_arrival_ns": Figure("Largest correction of a clock by arrival times alone"),
    "contradicted": total("Events that contradicted the clock of their source"),
    "jumps": total("Clock jumps that events showed"),
    "forgotten": total("Sources forgotten at a bound or after forget_after"),
}


class Clock(KeptOperator):
    """`table` is what was reported about the clocks (None: nothing ever is). Nothing is held or
    delayed."""

    def __init__(self, config: ClockConfig, table: DriftTable | None = None) -> None:
        self._config = config
        self._rounds = self._rounds_of(config)
        self._table = table if table is not None and config.sync != "none" else DriftTable()
        self._clocks = Clocks(self._rounds, self._table, config.max_sources, config.forget_after_ns)
        self._moved = self._clocks.moved
        self._kept = KeptState("clock", CLOCK, [self._clocks, self._clocks.models])
        self._states = dict.fromkeys(STATES, 0)
        self._width_ns = max(PASSIVE_FLOOR_NS, config.mend_above_ns)
        """What an event may take, of a source whose clock is known to be wrong."""
        self.contradicted = 0
        self.jumps = 0

    def _rounds_of(self, config: ClockConfig) -> Rounds:
        return Rounds(config)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:  # noqa: C901, PLR0912, PLR0915
        # In one piece because it runs for every event.
        step = Step(now_ns)
        released = step.released
        clocks = self._clocks
        sources = clocks.rows
        jump_min_ns = self._config.jump_min_ns
        max_behind_ns = self._config.max_behind_ns
        takes_plain = self.takes_plain
        batch: list[Event] = events if isinstance(events, list) else list(events)
        at, end = 0, len(batch)
        while at < end:
            event = batch[at]
            at += 1
            kind = event.kind
            if kind != DATA and kind in (BLOCKED, UNBLOCKED, DEAD):
                released.append(event)
                continue
            arrival_ns = event.arrival_ns
            clock = sources.get(event.source)
            if clock is None:
                clock = self._new(event.source, arrival_ns)
            if not clock.dirty:
                clocks.mark(clock)
            if arrival_ns > clock.last_arrival_ns:
                clock.last_arrival_ns = arrival_ns
            if clock.last_arrival_ns >= clock.due_ns or clock.track.version != clock.track_version:
                clock.receive()
            ts_ns = event.ts_ns
            reading_ns = arrival_ns - ts_ns
            cell = clock.cell
            if not cell.start_ns <= ts_ns < cell.end_ns:
                cell = clock.enter(ts_ns, reading_ns)
                if cell.state != clock.state:
                    self._recount(clock, cell.state)
            if reading_ns < clock.least_reading_ns:
                if self._beyond(clock, event, step):
                    self._keep_monotone(clock, event)
                    released.append(event)
                continue
            if reading_ns < clock.notable_ns or ts_ns >= clock.bin_end_ns:
                cell = clock.note(ts_ns, reading_ns)
            if clock.watched and not event.late:
                if ts_ns >= clock.fallen_ns and clock.steady:
                    clock.fallen_ns = ts_ns - jump_min_ns
                elif self._wavers(clock, ts_ns, reading_ns):
                    cell = clock.enter(ts_ns, reading_ns)
            since_ns = ts_ns - cell.start_ns
            ref_time_ns = ts_ns + cell.offset_ns + (cell.offset_step_ns * since_ns >> CELL_BITS)
            if arrival_ns - ref_time_ns > max_behind_ns:
                self._refuse(event, step, "behind", BEHIND_DETAIL)
                continue
            event.ref_time_ns = ref_time_ns
            event.error_ns = cell.error_ns + (cell.error_step_ns * since_ns >> CELL_BITS)
            event.segment = clock.segment
            released.append(event)
            if ref_time_ns < clock.ref_time_ns:
                self._keep_monotone(clock, event)
            elif not event.late:
                clock.ref_time_ns = ref_time_ns
                if takes_plain and at < end and batch[at].source == event.source:
                    behind = stamp_followers(clock, batch, at, jump_min_ns, max_behind_ns)
                    released += batch[at:behind]
                    at = behind
        return step

    def _keep_monotone(self, clock: SourceClock, event: Event) -> None:
        if event.late:
            return
        below_ns = clock.ref_time_ns - event.ref_time_ns
        if below_ns > 0:
            event.ref_time_ns += below_ns
            event.error_ns = min(event.error_ns + below_ns, WIDEST_NS)
        clock.ref_time_ns = event.ref_time_ns

    def _wavers(self, clock: SourceClock, ts_ns: int, reading_ns: int) -> bool:
        """The event is in line, but those before it have left it, or its stamp has fallen.
        True if that makes it the last vote for a jump."""
        if clock.straying:
            clock.returns()
        if ts_ns >= clock.fallen_ns:
            clock.rose(ts_ns)
        elif clock.fell(ts_ns, reading_ns):
            self.jumps += 1
            return True
        return False

    def _beyond(self, clock: SourceClock, event: Event, step: Step) -> bool:
        """The event would lie too far after its arrival, or its source is refused. True if it
        is stamped all the same."""
        reading_ns = event.arrival_ns - event.ts_ns
        if reading_ns >= clock.refuted_ns:
            self._hold_back(clock, event)
            return True
        if clock.is_known or self._config.unsynced == "estimate":
            self.contradicted += 1
            if not event.late and clock.strays(event.ts_ns, reading_ns):
                self.jumps += 1
        if self._config.unsynced == "reject":
            self._refuse(event, step, "unsynced", UNSYNCED_DETAIL)
            return False
        if self._config.unsynced == "trust":
            if -reading_ns > self._config.max_ahead_ns:
                self._refuse(event, step, "ahead", AHEAD_DETAIL.format(-reading_ns))
                return False
            event.ref_time_ns = event.ts_ns
            event.error_ns = 0
        else:
            early_ns = PASSIVE_FLOOR_NS // 2
            event.ref_time_ns = event.arrival_ns - early_ns
            event.error_ns = self._width_ns - early_ns
            if event.ts_ns < event.ref_time_ns:  # the clock may be right, and those before late
                event.error_ns = max(event.error_ns, event.ref_time_ns - event.ts_ns)
        event.segment = clock.segment
        return True

    def _hold_back(self, clock: SourceClock, event: Event) -> None:
        """Its error explains that it seems to be later than it can be: what is possible of its
        interval ends `broker_slack` after its arrival, and there it is put."""
        cell, ts_ns = clock.cell, event.ts_ns
        event.ref_time_ns = event.arrival_ns + self._config.broker_slack_ns
        over_ns = ts_ns + cell.offset_at(ts_ns) - event.ref_time_ns
        event.error_ns = max(0, cell.error_at(ts_ns) - over_ns)
        if clock.straying and not event.late:
            clock.returns()
        event.segment = clock.segment

    def _recount(self, clock: SourceClock, state: str) -> None:
        if clock.state:
            self._states[clock.state] -= 1
        if state:
            self._states[state] += 1
        clock.state = state

    def _refuse(self, event: Event, step: Step, reason: str, detail: str) -> None:
        step.reports.append(dead_letter(event, event.at_ns, reason, detail))
        if not event.late:
            event.kind = DEAD  # it left in order: its number is not missing
            step.released.append(event)

    def _new(self, source: str, arrival_ns: int) -> SourceClock:
        clock = self._clocks.first_heard(source, arrival_ns)
        clock.begin()
        for absent in self._clocks.add(clock):
            self._table.leave(absent.source)
            self._recount(absent, "")
        return clock

    @property
    def hears(self) -> Rounds | None:
        """How it takes rounds from the table; None: it takes nothing."""
        return None if self._config.sync == "none" else self._rounds

    def received(self, source: str) -> Place | None:
        """The source's samples up to there have been taken; None: it is not known here."""
        clock = self._clocks.rows.get(source)
        return None if clock is None else clock.received

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Sources by the state that their last event met."""
        return {
            "sources": len(self._clocks.rows),
            **self._states,
            "corrected_by_arrival": self._moved.moved,
            "corrected_by_arrival_ns": self._moved.moved_ns,
            "contradicted": self.contradicted,
            "jumps": self.jumps,
            "forgotten": self._clocks.forgotten,
        }

    def explain(self) -> dict[str, Any]:
        """The sources whose time is least sure, at most `MAX_LISTED`. `policy`: what is done with
        those that have not synced."""
        worst = sorted(self._clocks.rows.values(), key=trouble, reverse=True)[:MAX_LISTED]
        clocks = [clock.explain() for clock in worst]
        return {**self.figures(), "policy": self._config.unsynced, "clocks": clocks}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """The clock of the source: no event stays here."""
        clock = self._clocks.rows.get(source)
        return None if clock is None else clock.explain()

    # -- state -------------------------------------------------------------------------------------

    def close(self) -> None:
        """It is used no more, and so needs the drift table no more."""
        for source in self._clocks.rows:
            self._table.leave(source)
        self._clocks.rows.clear()

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for source, clock in self._clocks.rows.items():
            if clock.model_dirty or clock.last_arrival_ns == SINCE_EVER:
                raise ShapeRefused(f"one of the two rows of {source} is missing")
            clock.resume()
            if clock.state:
                self._states[clock.state] += 1

    def _take_others(self, others: State) -> None:
        super()._take_others({name: None for name in others if not name.startswith(FOLDED)})


def trouble(clock: SourceClock) -> tuple[int, int, str]:
    return STATES.index(clock.state or STATES[0]), clock.cell.error_ns, clock.source
