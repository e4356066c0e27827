"""Pattern queries over one store of events, right in any order of arrival.

The reasons are in docs/decisions/0010-patterns.md.

An accepted event is put into the indexes whose filters it passes, and
the units that it can change, in or out of order, are evaluated anew: what they come to differently
is emitted, updated or retracted. The *frontier* says that every event before it has come; what is
decided before it is final, and events before it are late.

A unit's life is one module after the other: `intake` leads an event in, `admit` takes and keeps it,
`affected` finds the units, `evaluate` their matches, `visible` chooses what may be emitted,
`ledger` compares it with what was, `emit` makes results of it, and timers (`queries`) look at it
again. `run` is one query in one partition, which leads through these.

Bounds: `MAX_RETAINED` entries, `max_partitions` keys of each partition key, a query's LIMIT
results of a unit and its MAX_STEPS. What is beyond is reported, never dropped in silence.

Memory: some 400 bytes an entry retained and 16 for each index it is in; 300 for each result
not yet final, and for each start that still waits (MATCHES ONE).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from topology.model.event import Event
from topology.model.operator import Changes, State
from topology.model.result import Finding
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.admit import Admission, EntryStore
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.emit import MatchEmitter
from topology.pattern.run.intake import EventIntake
from topology.pattern.run.ledger import BEFORE_ALL_TIME, Now, UnitOwner
from topology.pattern.run.match_events import MatchEvent
from topology.pattern.run.queries import RunContext, Waits, Wiring, restore_wirings, wiring_rows
from topology.pattern.store.entry import Entry
from topology.pattern.store.index import EntryIndex
from topology.pattern.tree.defaults import ends_in_negation

AFTER_ALL: Final = 1 << 65
"""After the farthest time and the longest window."""

MAX_RETAINED: Final = 1_000_000
MAX_PARTITIONS: Final = 1_000_000

ENGINE: Final = "engine"
"""The key of the engine's own state; the others are of units."""


class Engine:
    """`emits_final`: names of queries of which a result shown before it was final is updated
    once more when it is. `max_error_ns`: the largest error an event may have, where a query does
    not ignore it (see `uncertain.doubt`). `is_plain`: what is in order and sure takes the plain way
    (`evaluate.PlainWay`); without, all goes the general way, and the answers are the same.
    `reads_matches`: see `run.chained`.

    `findings` is what there is to emit, and `freed` the entries that nothing holds any more; the
    driver empties both. `counts`: how many events there were, by what became of them. `now`: how
    far time is. `intake` takes events into the `store`; `waits` is what waits for time."""

    def __init__(
        self,
        queries: Sequence[Compiled],
        stream: str = "",
        emits_final: Collection[str] = (),
        max_partitions: int = MAX_PARTITIONS,
        max_retained: int = MAX_RETAINED,
        max_error_ns: int | None = None,
        *,
        is_plain: bool = True,
        reads_matches: bool = False,
    ) -> None:
        self.now = Now()
        self._heeds_errors = any(query.grading is not None for query in queries)
        self._doubt = Doubt(max_error_ns) if self._heeds_errors else NO_DOUBT
        self.admission = Admission(max_retained, self._doubt)
        self.freed: list[Entry] = self.admission.freed
        self.counts: dict[str, int] = self.admission.counts
        self._emitter = MatchEmitter(stream)
        self.findings: list[Finding] = self._emitter.findings
        self.waits = Waits(self.now, self._emitter)
        self.context = RunContext(
            self.now,
            self._emitter,
            self.waits,
            self._doubt,
            EntryIndex() if any(q.shape.everywhere for q in queries) else None,
            emits_final,
            is_plain=is_plain,
            is_alone=len(queries) == 1,
            reads_matches=reads_matches,
        )
        self.store = EntryStore(queries, self.context, self.admission, max_partitions)
        self.intake = EventIntake(self.admission, self.store, self.context)
        self.is_plain = is_plain

    # -- the queries, and what is known of them -----------------------------------------------

    @property
    def compiled(self) -> dict[str, Compiled]:
        """By name."""
        return {wiring.query.name: wiring.query for wiring in self.store.wirings}

    @property
    def emitted_when_received(self) -> list[str]:
        """The queries that wait for the end of a gap in which nothing may happen, by name."""
        queries = [wiring.query.query for wiring in self.store.wirings]
        return [q.name for q in queries if q.emit == "final" and ends_in_negation(q.node)]

    @property
    def clock_ns(self) -> int:
        """The newest time accepted, or what the watermark has passed."""
        return self.now.clock_ns

    @property
    def frontier_ns(self) -> int:
        """Every event before it has come."""
        return self.now.frontier_ns

    @property
    def margin_ns(self) -> int:
        """By how much errors put decisions off, as far as they are known."""
        return self._doubt.margin_ns

    @property
    def reach_ns(self) -> int:
        """How long an entry is kept behind the frontier, at most."""
        return max(group.reach_ns for group in self.store.groups)

    @property
    def is_crowded(self) -> bool:
        """There is little room left for entries."""
        return self.admission.is_crowded

    @property
    def refused(self) -> int:
        """How often an entry was left out for want of room for its partition."""
        return self.store.refused

    @property
    def unpartitioned(self) -> int:
        """How often an entry had no value for the key of a query, which so ignores it."""
        return self.store.unpartitioned

    @property
    def proven_ns(self) -> int:
        """See `MatchEmitter`."""
        return self._emitter.proven_ns

    @proven_ns.setter
    def proven_ns(self, proven_ns: int) -> None:
        self._emitter.proven_ns = proven_ns

    @property
    def matches(self) -> list[MatchEvent]:
        """What has become of matches that other queries read; the driver empties it."""
        return self._emitter.matches

    @property
    def retained(self) -> int:
        """Entries that some index holds."""
        return len(self.admission.retained)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Take an event; what became of it: one of `admit.WORDS`."""
        return self.intake.accept(entry, at_ns)

    def pass_by(self, event: Event) -> str:
        """The same of an event of a type that no query asks for."""
        return self.intake.pass_by(event)

    def asks_for(self, type_: str) -> bool:
        """Whether any query does, of events of this type."""
        return self.store.asks_for(type_)

    def exchange(self, old: Sequence[Entry], new: Sequence[Entry], at_ns: int) -> Sequence[Entry]:
        """Put new entries where others were, and evaluate once; the new ones that have room."""
        return self.intake.exchange(old, new, at_ns)

    def hand_down(self, queries: Collection[str]) -> None:
        """What these queries find is among `matches`, too."""
        self._emitter.read = frozenset(queries)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        """Every event before `frontier_ns` has come. It never falls."""
        now = self.now
        if frontier_ns <= now.frontier_ns:
            return
        if frontier_ns <= self.waits.quiet_ns:
            now.pass_by(frontier_ns)
            return
        corrected = []
        if self.waits.gathering:
            self.waits.correct_until(at_ns - 1)
            corrected = self.waits.evaluate_before(frontier_ns)
        now.pass_by(frontier_ns)
        for run, units in corrected:
            run.emit(units)  # once, where the correction is final at once
        self.waits.look_again(self.waits.clock, now.clock_ns)
        for wiring in self.store.wirings:
            if wiring.target_ns is not None and wiring.target_ns < frontier_ns:
                self._raise_target(wiring, frontier_ns)
        self.waits.look_again(self.waits.frontier, frontier_ns)  # when SKIP has chosen
        self._emitter.flush(at_ns)
        self.store.purge(now.frontier_ns)
        self.waits.quiet_ns = self._next_due_ns()

    def pass_time(self, watermark_ns: int, at_ns: int) -> None:
        """Let the clock go on as far as an event in order would take it: absences are over by time,
        also where all are silent."""
        if watermark_ns > self.now.clock_ns:
            self.now.clock_ns = watermark_ns
            if self.waits.clock.next_ns < watermark_ns:
                self.waits.correct_until(at_ns - 1)
                self.waits.emit(at_ns)

    def on_time(self, now_ns: int) -> None:
        """Nothing came up to and including `now_ns`."""
        self.waits.correct_until(now_ns)

    def next_deadline_ns(self) -> int | None:
        """When corrections that are gathered are due."""
        return self.waits.next_deadline_ns()

    def _next_due_ns(self) -> int:
        """Up to there the frontier may go and nothing happens, if no event is taken meanwhile."""
        if self.waits.gathering:
            return BEFORE_ALL_TIME
        due_ns = self.waits.next_ns
        for wiring in self.store.wirings:
            if wiring.target_ns is not None:
                due_ns = min(due_ns, wiring.target_ns)
        return min(due_ns, self.store.purge_ns)

    def is_due(self, frontier_ns: int, target_ns: int, watermark_ns: int) -> bool:
        """With the frontier, what queries may emit, or the clock there, would anything be
        emitted?"""
        if self.waits.gathering or self.waits.next_ns < frontier_ns:
            return True
        if self.waits.clock.next_ns < watermark_ns:
            return True
        target_ns = max(frontier_ns, target_ns)
        return any(wiring.at_target.next_ns < target_ns for wiring in self.store.wirings)

    def raise_target(self, query: str, until_ns: int, at_ns: int) -> None:
        """The query emits what is decided before `until_ns`; called with the earliest instant
        before its first event, and never with less."""
        self.waits.quiet_ns = BEFORE_ALL_TIME
        for wiring in self.store.wirings:
            if wiring.query.name == query:
                self._raise_target(wiring, until_ns)
        self._emitter.flush(at_ns)

    def _raise_target(self, wiring: Wiring, until_ns: int) -> None:
        self.waits.look_again(wiring.at_target, wiring.raise_target(until_ns))

    def seal(self, watermark_ns: int) -> None:
        """The input is over: what nothing has passed by now, only its end decides."""
        self.proven_ns = max(self.now.clock_ns, watermark_ns)

    def end(self, at_ns: int) -> None:
        """The input is over: everything is decided."""
        self.advance(AFTER_ALL, at_ns)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state = {ENGINE: self._own_state()}
        for run in self.store.runs():
            state.update(run.state(everything=True))
        return state

    def changes(self) -> Changes:
        state = {ENGINE: self._own_state(), **self.context.closed}
        self.context.closed.clear()
        for run in self._changed_runs():
            state.update(run.state(everything=False))
        return state

    def _changed_runs(self) -> list[UnitOwner]:
        """Those that have something new to write; what SKIP has decided moves with time alone."""
        due = self.waits.barriers.due(self.now.frontier_ns)
        changed = list(self.context.changed | dict.fromkeys(due))
        self.context.changed.clear()
        return changed

    def _own_state(self) -> Any:
        now, queries = self.now, wiring_rows(self.store.wirings)
        return [now.clock_ns, now.frontier_ns, self.counts, queries, self._doubt.snapshot()]

    def entries(self) -> Iterable[Entry]:
        return self.admission.retained.values()

    def restore(
        self, state: Mapping[str, Any], entries: Iterable[Entry], gone: Iterable[Entry] = ()
    ) -> None:
        """Into a fresh engine. `entries`: those retained, in any order; `gone`: those that were
        taken out. A query that the state does not know counts from now on; what is there of one
        that is no more is left."""
        self.waits.quiet_ns = BEFORE_ALL_TIME
        rest = dict(state)
        clock_ns, frontier_ns, counts, queries, doubt = rest.pop(ENGINE, self._own_state())
        self.now.clock_ns = clock_ns
        self.now.pass_by(frontier_ns)
        if self._heeds_errors:
            self._doubt.restore(doubt)
        self.counts.update(counts)
        released = restore_wirings(self.store.wirings, queries, self._from_now_on)
        self.intake.newest = self.store.restore(sorted(entries, key=attrgetter("key")))
        for run in self.store.runs():
            run.restore(rest, self.admission.retained)
            if run.query.name in released:
                for unit in run.units.values():
                    self.waits.clock.arm(unit, BEFORE_ALL_TIME)
            if run.gathered.anchors:
                self.waits.gather(run)
        for entry in gone:
            for group in self.store.groups:
                group.recall(entry, rest)
        self._emitter.forget_overflows()
        self.context.closed.update(dict.fromkeys(rest))  # of queries that are no more

    def begin_after(self, newest_ns: int) -> None:
        """Let no query count matches that may rest on events up to that instant; nothing has come
        since the engine is there."""
        for wiring in self.store.wirings:
            wiring.since_ns = max(wiring.since_ns, _apart_from(newest_ns, wiring.query))

    def _from_now_on(self, query: Compiled) -> int:
        """Matches that start here or later rest on no event that came before now: those were
        kept only if another query asked for them."""
        if self.now.clock_ns == BEFORE_ALL_TIME:
            return BEFORE_ALL_TIME
        margin_ns = 0 if query.grading is None else self._doubt.margin_ns
        return _apart_from(self.now.clock_ns + margin_ns, query)


def _apart_from(newest_ns: int, query: Compiled) -> int:
    """The first instant at which a match may start that rests on nothing up to the newest one."""
    before_ns = query.span_ns if query.shape.has_start_negation else 0
    return newest_ns + 1 + before_ns + (query.within_ns if query.shape.looks_back else 0)
