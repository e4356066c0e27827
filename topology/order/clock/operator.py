"""CLOCK: computes the corrected timestamp of each event and its error, once.

    ref_time = ts + offset of the source's clock;  event time in [ref_time - err, ref_time + err]

The offset is the one that a user declared, or else the one measured by rounds of time sync
(`topology.order.clock.measured`). If there is neither, the policy `unsynced` applies:

* `trust`: the timestamp is accepted, with offset 0 and error 0. An event whose timestamp is more
  than `max_ahead` after its own arrival is a dead letter, reason `ahead`.
* `estimate`: the bounds come from the arrivals (`topology.order.clock.one_way`).
* `reject`: the event is a dead letter, reason `unsynced`.

These rules apply in all cases (docs/decisions/0006-clocks.md has the reasons):

* Arrivals decide which samples apply: those that arrived at least `activation` before the source's
  latest arrival. It does not matter when the drift table was filled.
* An event whose corrected timestamp is more than `max_behind` before its arrival is a dead letter,
  reason `behind`. The default is 292 years, which means never. (A backfill, whose old timestamps
  are right, needs `trust`. Arrivals alone cannot distinguish it from a clock that is years behind.)
* While the timestamps of a source rise, its corrected ones do not decrease. One that is smaller
  because the offset has fallen is raised to the one before it, and its error grows by the
  difference. So is that of an event whose timestamp is its arrival, because it has none of its
  own. A late event keeps its corrected timestamp, and does not raise those of later events.
* An event is *set back* if its timestamp, too, is below the newest of its source, in sequence. Its
  corrected timestamp is its own, because numbers give the order of sending, and timestamps say when
  things happened. A trusted timestamp has no error. Otherwise the error grows by twice the fall. So
  it reaches as far above the newest one as if the event had been raised, because the clock itself
  may have been set back. It does not grow for a fall of up to `max_set_back`. From then on each
  event with an error is a segment of its own, since the timestamps may come from several clocks.
* Before it is raised, a corrected timestamp exceeds the event's arrival by at most a limit. This is
  `broker_slack` for a declared or measured offset, `jump_min` + `PASSIVE_FLOOR_NS` under
  `estimate`, and `max_ahead` under `trust`. So a source whose offset was wrong recovers as soon as
  another offset applies.
* An event may seem to be further ahead only because of the error of a declared or measured offset.
  Then its corrected timestamp is `broker_slack` after its arrival. Its earliest possible time does
  not change.
* An event contradicts the clock if that error cannot explain it: it would have happened more than
  `broker_slack` after its arrival. Under `estimate`, it does if its reading, arrival - timestamp,
  is more than `jump_min` below the edge. For a clock that is not considered to be behind, an edge
  above 0 counts as 0. The corrected timestamp is then computed from the event's own arrival under
  `estimate`, and is `ts` under `trust`. Under `reject` the event is a dead letter.
* An event also contradicts the clock if its timestamp has fallen by more than `jump_min` in the
  order of sequence. It is corrected as usual, since the event may only have taken long. Such falls
  show a jump only after they have lasted for `SETTLE_NS`, or for as long as they are deep. They do
  not count within `max_set_back`, or within twice a fall after which timestamps once rose faster
  than arrivals.
* `JUMP_VOTES` consecutive events that contradict the clock and agree show that it has jumped. The
  declared offset that applied is dropped, or else the measured or estimated one. A source without
  a declared or measured offset is then `broken` until it has one again, if it had one before. No
  other source is affected.
* An event of a corrected clock may be quicker than all before it, but not arrive before its
  timestamp. Then the clock may be right, and the earlier events may have been a backlog. So the
  error of this event reaches back to its timestamp, and so do the errors of the events that follow
  for `SETTLE_NS`.
* `segment` rises whenever the basis of the corrected timestamps changes (declared, measured, the
  policy). It also rises at a jump, and where a run of contradicting events begins or ends. Finally,
  it rises when another offset or error is declared, and when an estimate moves by more than
  `PASSIVE_FLOOR_NS`. Differences of corrected timestamps within a segment are as certain as the
  clock, and those across segments are not.

Cost: O(1) per event, and a new cell for each second of a source's time. Memory: one entry per
source, at most `max_sources`. Beyond that the longest idle source is forgotten. A source that has
been silent for `forget_after` is forgotten when a new source appears, as in REORDER. `forgotten`
counts both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from topology.base.event import BLOCKED, DATA, DEAD, UNBLOCKED, Event
from topology.base.operator import Figure, Figures, Plain, State, total
from topology.base.outcome import Step, make_dead_letter
from topology.order.clock.cell import CELL_BITS, STATES, WIDEST_NS
from topology.order.clock.drift_table import DriftTable, Place
from topology.order.clock.models import FOLDED, Rounds
from topology.order.clock.plain import correct_plain_run
from topology.order.clock.settings import PASSIVE_FLOOR_NS, SINCE_EVER, ClockConfig
from topology.order.clock.source_clock import Clocks, SourceClock
from topology.state.saved import Shape, ShapeRefused
from topology.state.saved_operator import SavedOperator
from topology.state.tables import SavedState

CLOCK: Final = Shape("clock", 1)

AHEAD_DETAIL: Final = (
    "ts is {} ns after the arrival; set the source's clock, or the ts_unit of its stream, or"
    " raise clock.max_ahead"
)
MAX_LISTED: Final = 100

BEHIND_DETAIL: Final = (
    "its time is centuries before the arrival; set the source's clock or the ts_unit of its stream"
)
UNSYNCED_DETAIL: Final = (
    "the offset of the source's clock is unknown; let the source sync with a time server,"
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


class Clock(SavedOperator):
    """The operator that corrects the timestamps of events.

    `table` contains the clock reports of the sources; None means that there are never any. Events
    are never buffered or delayed.
    """

    def __init__(self, config: ClockConfig, table: DriftTable | None = None) -> None:
        self._config = config
        self._rounds = self._rounds_of(config)
        self._table = table if table is not None and config.sync != "none" else DriftTable()
        self._clocks = Clocks(self._rounds, self._table, config.max_sources, config.forget_after_ns)
        self._saved = SavedState("clock", CLOCK, [self._clocks, self._clocks.models])
        self._states = dict.fromkeys(STATES, 0)
        self._width_ns = max(PASSIVE_FLOOR_NS, config.mend_above_ns)
        """The longest delay that the quickest events of a wrong clock are assumed to have."""
        self.contradicted = 0
        self.jumps = 0

    def _rounds_of(self, config: ClockConfig) -> Rounds:
        return Rounds(config)

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:  # noqa: C901, PLR0912, PLR0915
        # This is one function, for speed, because it runs for every event.
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
                clock.take_reports()
            ts_ns = event.ts_ns
            reading_ns = arrival_ns - ts_ns
            cell = clock.cell
            if not cell.start_ns <= ts_ns < cell.end_ns:
                cell = clock.enter_cell(ts_ns, reading_ns)
                if cell.state != clock.state:
                    self._change_state(clock, cell.state)
            if reading_ns < clock.least_reading_ns:
                if self._handle_implausible(clock, event, step):
                    self._keep_ascending(clock, event)
                    released.append(event)
                continue
            if reading_ns < clock.notable_ns or ts_ns >= clock.bin_end_ns:
                cell = clock.note(ts_ns, reading_ns)
            if clock.watched and not event.late:
                if ts_ns >= clock.fallen_ns and clock.steady:
                    clock.fallen_ns = ts_ns - jump_min_ns
                elif self._update_jump_votes(clock, ts_ns, reading_ns):
                    cell = clock.enter_cell(ts_ns, reading_ns)
            since_ns = ts_ns - cell.start_ns
            ref_time_ns = ts_ns + cell.offset_ns + (cell.offset_step_ns * since_ns >> CELL_BITS)
            if arrival_ns - ref_time_ns > max_behind_ns:
                self._refuse(event, step, "behind", BEHIND_DETAIL)
                continue
            event.ref_time_ns = ref_time_ns
            event.error_ns = cell.error_ns + (cell.error_step_ns * since_ns >> CELL_BITS)
            event.segment = clock.segment
            released.append(event)
            if ref_time_ns < clock.ref_time_ns or clock.sets_back:
                self._keep_ascending(clock, event)
            elif not event.late:
                clock.ref_time_ns = ref_time_ns
                if ts_ns > clock.newest_ts_ns:
                    clock.newest_ts_ns = ts_ns
                if takes_plain and at < end and batch[at].source == event.source:
                    behind = correct_plain_run(clock, batch, at, jump_min_ns, max_behind_ns)
                    released += batch[at:behind]
                    at = behind
        return step

    def _keep_ascending(self, clock: SourceClock, event: Event) -> None:
        """Raise a corrected timestamp that only the offset has lowered, or record a set-back."""
        if event.late:
            return
        below_ns = clock.ref_time_ns - event.ref_time_ns
        if event.ts_ns >= clock.newest_ts_ns or not self._is_stamped(event):
            if not clock.straying:
                clock.newest_ts_ns = max(clock.newest_ts_ns, event.ts_ns)
            if below_ns > 0:
                event.ref_time_ns += below_ns
                event.error_ns = min(event.error_ns + below_ns, WIDEST_NS)
        elif below_ns > 0:
            config = self._config
            clock.sets_back = clock.is_known or config.unsynced != "trust"
            if clock.sets_back and below_ns > (config.max_set_back_ns or 0):
                event.error_ns = min(event.error_ns + 2 * below_ns, WIDEST_NS)
        if clock.sets_back:
            clock.segment += 1
            event.segment = clock.segment
        clock.ref_time_ns = max(clock.ref_time_ns, event.ref_time_ns)

    def _is_stamped(self, event: Event) -> bool:
        """Return whether the timestamp is the source's own, which an equal arrival disproves."""
        if self._config.has_arrivals:
            return event.ts_ns != event.arrival_ns
        return event.is_stamped

    def _update_jump_votes(self, clock: SourceClock, ts_ns: int, reading_ns: int) -> bool:
        """Update the votes for a jump after an event whose reading is possible.

        Return whether this event is the last vote that was needed.
        """
        if clock.straying:
            clock.record_agreement()
        if ts_ns >= clock.fallen_ns:
            clock.record_rise(ts_ns, reading_ns)
        elif clock.record_fall(ts_ns, reading_ns):
            self.jumps += 1
            return True
        return False

    def _handle_implausible(self, clock: SourceClock, event: Event, step: Step) -> bool:
        """Handle an event whose reading is too small, or whose source is unsynced under `reject`.

        If its reading is too small, the offset would put the event too far after its arrival.
        Return whether the event got another corrected timestamp; otherwise it is a dead letter.
        """
        reading_ns = event.arrival_ns - event.ts_ns
        if reading_ns >= clock.refuted_ns:
            self._clamp_to_arrival(clock, event)
            return True
        if clock.is_known or self._config.unsynced == "estimate":
            self.contradicted += 1
            if not event.late and clock.record_contradiction(event.ts_ns, reading_ns):
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
            # The clock may be right, and the earlier events delayed.
            if event.ts_ns < event.ref_time_ns:
                event.error_ns = max(event.error_ns, event.ref_time_ns - event.ts_ns)
        event.segment = clock.segment
        return True

    def _clamp_to_arrival(self, clock: SourceClock, event: Event) -> None:
        """Correct an event that is too far ahead of its arrival to the latest possible time.

        That time is `broker_slack` after its arrival. The earliest possible time does not change.
        """
        cell, ts_ns = clock.cell, event.ts_ns
        event.ref_time_ns = event.arrival_ns + self._config.broker_slack_ns
        over_ns = ts_ns + cell.offset_at(ts_ns) - event.ref_time_ns
        event.error_ns = max(0, cell.error_at(ts_ns) - over_ns)
        if clock.straying and not event.late:
            clock.record_agreement()
        event.segment = clock.segment

    def _change_state(self, clock: SourceClock, state: str) -> None:
        if clock.state:
            self._states[clock.state] -= 1
        if state:
            self._states[state] += 1
        clock.state = state

    def _refuse(self, event: Event, step: Step, reason: str, detail: str) -> None:
        step.reports.append(make_dead_letter(event, event.at_ns, reason, detail))
        if not event.late:
            # REORDER has emitted the event in order, so its sequence number is not missing.
            event.kind = DEAD
            step.released.append(event)

    def _new(self, source: str, arrival_ns: int) -> SourceClock:
        clock = self._clocks.make_source(source, arrival_ns)
        clock.begin()
        for absent in self._clocks.add(clock):
            self._table.release_track(absent.source)
            self._change_state(absent, "")
        return clock

    @property
    def used_rounds(self) -> Rounds | None:
        """The model and settings that turn rounds into a clock; None if rounds have no effect."""
        return None if self._config.sync == "none" else self._rounds

    def received(self, source: str) -> Place | None:
        """Return the `Place` of the source's last sample taken; None for an unknown source."""
        clock = self._clocks.rows.get(source)
        return None if clock is None else clock.received

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Return the figures. Sources are counted by their clock's state at their last event."""
        return {
            "sources": len(self._clocks.rows),
            **self._states,
            "corrected_by_arrival": self._clocks.moved.moved,
            "corrected_by_arrival_ns": self._clocks.moved.moved_ns,
            "contradicted": self.contradicted,
            "jumps": self.jumps,
            "forgotten": self._clocks.forgotten,
        }

    def explain(self) -> dict[str, Any]:
        """Return the figures, `policy`, and the sources whose time is least certain.

        `policy` is the setting `unsynced`. At most `MAX_LISTED` sources are listed.
        """
        worst = sorted(self._clocks.rows.values(), key=uncertainty_key_of, reverse=True)[
            :MAX_LISTED
        ]
        clocks = [clock.explain() for clock in worst]
        return {**self.figures(), "policy": self._config.unsynced, "clocks": clocks}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Any] | None:
        """Return the state of the source's clock, since no event stays in this operator."""
        clock = self._clocks.rows.get(source)
        return None if clock is None else clock.explain()

    # -- state -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the drift table, because the operator is no longer used."""
        for source in self._clocks.rows:
            self._table.release_track(source)
        self._clocks.rows.clear()

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        for source, clock in self._clocks.rows.items():
            if clock.model_dirty or clock.last_arrival_ns == SINCE_EVER:
                raise ShapeRefused(f"one of the two rows of {source} is missing")
            clock.resume()
            if clock.state:
                self._states[clock.state] += 1

    def _restore_others(self, others: State) -> None:
        super()._restore_others({name: None for name in others if not name.startswith(FOLDED)})


def uncertainty_key_of(clock: SourceClock) -> tuple[int, int, str]:
    return STATES.index(clock.state or STATES[0]), clock.cell.error_ns, clock.source
