"""Pattern queries over one store of events, right in any order of arrival.

Source: patterns.md 3 and 4. An accepted event is put into the indexes whose filters it passes, and
the units that it can change, in or out of order, are evaluated anew: what they say differently is
emitted, updated or retracted. The *frontier* says that every event before it has come; what is
decided before it is final, and events before it are late.

What becomes of events is said by `admission`, the order of what one event causes by `results`.

Bounds: `MAX_RETAINED` entries, `max_partitions` keys of each partition key, a query's LIMIT
results of a unit and its MAX_STEPS. What is beyond is reported, never dropped in silence.

Memory: some 400 bytes an entry retained and 16 for each index it is in; 300 for each result
not yet final, and for each start that still waits (MATCHES ONE).

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py, tests/topology/pattern/test_late_errors.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from topology.model.event import Event
from topology.model.operator import NEVER, Changes, State
from topology.model.result import Finding
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.admission import CONFLICT, IRRELEVANT, STORED, Admission
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.context import RunContext
from topology.pattern.run.engine_state import restore_wirings, wiring_rows
from topology.pattern.run.ledger import Now, Unit
from topology.pattern.run.partitions import PartitionGroup, PartitionIndex, alike
from topology.pattern.run.results import MatchEmitter
from topology.pattern.run.run import Run
from topology.pattern.run.run_state import Written
from topology.pattern.run.timers import Asker
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Key
from topology.pattern.store.index import EntryIndex
from topology.pattern.tree.defaults import ends_in_negation

BEFORE_ALL: Final = -NEVER
AFTER_ALL: Final = 1 << 65
"""After the farthest time and the longest window."""

MAX_RETAINED: Final = 1_000_000
MAX_PARTITIONS: Final = 1_000_000

ENGINE: Final = "engine"
"""The key of the engine's own state; the others are of units."""


class PatienceDiffers(ValueError):
    """Queries that run together take late events alike."""

    def __init__(self) -> None:
        super().__init__(
            "queries of one stream have different LATE AMEND; write the same for all of them"
        )


class Engine:
    """`emits_final`: names of queries of which a result shown before it was final is updated
    once more when it is. `max_error_ns`: the largest error an event may have, where a query does
    not ignore it (see `uncertain.doubt`). `is_plain`: what is in order and sure takes the plain way
    (`run.automaton`); without, all goes the general way, and the answers are the same.

    `findings` is what there is to emit, and `gone` the entries that nothing holds any more; the
    driver empties both. `counts`: how many events there were, by what became of them. `quiet_ns`:
    nothing happens before the frontier passes it. `gathering`: runs with corrections put off."""

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
    ) -> None:
        if len({query.query.amend_ns for query in queries}) > 1:
            raise PatienceDiffers
        self.amend_ns = queries[0].query.amend_ns if queries else 0
        self._heeds_errors = any(query.grading is not None for query in queries)
        self._doubt = Doubt(max_error_ns) if self._heeds_errors else NO_DOUBT
        self.admission = Admission(max_retained, self._doubt)
        self.gone: list[Entry] = self.admission.gone
        self.counts: dict[str, int] = self.admission.counts
        self._everything = EntryIndex() if any(q.shape.everywhere for q in queries) else None
        self._emitter = MatchEmitter(stream)
        self.findings: list[Finding] = self._emitter.findings
        self.context = RunContext(
            self._emitter,
            self._doubt,
            self._everything,
            emits_final,
            is_plain=is_plain,
            is_alone=len(queries) == 1,
        )
        self._groups = [
            PartitionGroup(group, self.context, max_partitions) for group in alike(queries)
        ]
        self._all_wirings = [wiring for group in self._groups for wiring in group.wirings]
        self._newest: Key | None = None
        self.quiet_ns = BEFORE_ALL  # nothing happens before the frontier passes it
        self.gathering: dict[Run, None] = {}
        self._now_kept = Now(BEFORE_ALL, BEFORE_ALL)  # nobody keeps it beyond a call
        self.is_plain = is_plain
        alone = is_plain and len(self._groups) == 1 and self._everything is None
        self._plain_group = self._groups[0] if alone else None
        self._stale: dict[str, None] = {}  # keys of a restored state that mean nothing any more
        self.clock_ns = BEFORE_ALL
        self.frontier_ns = BEFORE_ALL

    @property
    def compiled(self) -> dict[str, Compiled]:
        return {wiring.query.name: wiring.query for wiring in self._all_wirings}

    @property
    def names(self) -> list[str]:
        return [wiring.query.name for wiring in self._all_wirings]

    @property
    def retained(self) -> int:
        """Entries that some index holds."""
        return len(self.admission.retained)

    @property
    def is_crowded(self) -> bool:
        return self.admission.is_crowded

    @property
    def unpartitioned(self) -> int:
        """How often an entry had no value for the key of a query, which so ignores it."""
        return sum(group.unpartitioned for group in self._groups)

    @property
    def refused_partitions(self) -> int:
        return sum(group.refused for group in self._groups)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Take an event; says what became of it: one of `admission.WORDS`.

        The plain case goes at one go: an event of a sure time, neither late nor known, that some
        filter takes, in a partition that is there, of queries that all partition alike; nothing is
        gathered."""
        group, floor_ns = self._plain_group, self.frontier_ns - self.amend_ns
        if group is None or self.gathering or not self.admission.is_plain(entry, floor_ns):
            return self._accept(entry, at_ns)
        filters = group.filters_of(entry)
        partition = group.known_partition_of(entry) if filters else None
        if partition is None:
            return self._accept(entry, at_ns)
        if entry.time_ns > self.clock_ns:
            self.clock_ns = entry.time_ns
        self.admission.retained[entry.identity] = entry
        in_order, now = partition.take(entry, filters), self._now_kept
        now.clock_ns, now.floor_ns = self.clock_ns, floor_ns
        for run in partition.runs:
            if not run.moved(entry, filters, now, at_ns, in_order=in_order):
                self._look(run, entry, filters, at_ns, in_order=in_order)
        if self._emitter.has_news or self.context.clock.next_ns < self.clock_ns:
            self.tell(at_ns)
        self.counts[STORED] += 1
        return STORED

    def _accept(self, entry: Entry, at_ns: int) -> str:
        if self.gathering:
            self._gather_until(at_ns - 1)
        floor_ns = self.frontier_ns - self.amend_ns
        word = self.admission.refusal(entry.event, entry.identity, floor_ns)
        if not word:
            word = self._take(entry, at_ns)
        elif word == CONFLICT:
            word = self.admission.of_known(entry)
        self.counts[word] += 1
        return word

    def pass_by(self, event: Event) -> str:
        """The same of an event of a type that no query asks for: it needs no entry then, and is no
        copy of any that is retained."""
        if self.gathering:
            self._gather_until(event.at_ns - 1)
        identity = (event.source, event.epoch, event.seq)
        word = self.admission.refusal(event, identity, self.frontier_ns - self.amend_ns)
        if not word:
            word = IRRELEVANT
            if event.error_ns and self._heeds_errors:
                self._widen(event.error_ns)
            if event.ref_time_ns > self.clock_ns:
                self.clock_ns = event.ref_time_ns
                if self.context.clock.next_ns < self.clock_ns:
                    self.tell(event.at_ns)
        self.counts[word] += 1
        return word

    def asks_for(self, type_: str) -> bool:
        """Whether any query does, of events of this type."""
        return any(group.asks_for(type_) for group in self._groups)

    def _take(self, entry: Entry, at_ns: int) -> str:
        event = entry.event
        if event.error_ns and self._heeds_errors:
            self._widen(event.error_ns)
        if entry.time_ns > self.clock_ns:
            self.clock_ns = entry.time_ns
        in_order = self._newest is None or entry.key > self._newest
        for group in self._groups:
            self._offer(group, entry, at_ns, in_order=in_order)
        if in_order:
            self._newest = entry.key
        self.tell(at_ns)
        return STORED if self.admission.keep(entry) else IRRELEVANT

    def tell(self, at_ns: int) -> None:
        """With what waited for this time, so that what is in doubt now is emitted once."""
        clock = self.context.clock
        if clock.is_due(self.clock_ns):
            self._look_again(clock.due(self.clock_ns))
        self._emitter.flush(at_ns, self.frontier_ns)

    def _widen(self, error_ns: int) -> None:
        by_ns = self._doubt.widen(error_ns, self.frontier_ns)
        if by_ns:
            for run in self._runs():
                run.put_off(by_ns, self._floor_ns)

    def _offer(self, group: PartitionGroup, entry: Entry, at_ns: int, *, in_order: bool) -> None:
        filters = group.filters_of(entry)
        partition = group.put(entry, filters)
        if partition is not None:
            now = self._now()
            for run in partition.runs:
                ordered = in_order if run.query.shape.everywhere else partition.in_order
                if not run.moved(entry, filters, now, at_ns, in_order=ordered):
                    self._look(run, entry, filters, at_ns, in_order=ordered)
            self.quiet_ns = min(self.quiet_ns, group.purge_ns + self.amend_ns)
        if group.strict_everywhere and (not in_order or group.doubt.margin_ns):
            for other in group.partitions.values():
                if other is not partition:
                    self._disturb(other, entry, at_ns)

    def _look(
        self, run: Run, entry: Entry, filters: Sequence[int], at_ns: int, *, in_order: bool
    ) -> None:
        """The general way: the units that the entry can change are evaluated anew."""
        self.quiet_ns = BEFORE_ALL  # timers may be set
        anchors = run.affected.by(entry, filters, in_order=in_order)
        if run.query.query.emit == "slack":
            late_by_ns = 0 if in_order else max(1, self.clock_ns - entry.time_ns)
            wait_ns = run.gathers_ns(filters, late_by_ns)
            if anchors and wait_ns > 0 and not in_order:
                run.gather(anchors, at_ns + wait_ns)
                self.gathering[run] = None
                return
        if anchors or (run.affected.doubts_apart and run.affected.concerns(filters)):
            run.look(anchors, self._now(), entry)

    def _disturb(self, other: PartitionIndex, entry: Entry, at_ns: int) -> None:
        """Where a STRICT step looks at all partitions: the entry may come between in that one."""
        now = self._now()
        for run in other.runs:
            if not run.query.shape.everywhere:
                continue
            if not run.moved(entry, (), now, at_ns, in_order=False):
                self.quiet_ns = BEFORE_ALL
                anchors = run.affected.by(entry, (), in_order=False)
                if anchors:
                    run.look(anchors, now)

    # -- corrections that are gathered (EMIT SLACK) -------------------------------------------

    def _gather_until(self, now_ns: int) -> None:
        """Correct what was gathered until an instant up to `now_ns`, each at its own time."""
        while (due_ns := self.next_deadline_ns()) is not None and due_ns <= now_ns:
            for run in [run for run in self.gathering if run.gathered.due_ns == due_ns]:
                del self.gathering[run]
                run.emit(run.evaluate_gathered(self._now()), self._now())
            self._emitter.flush(due_ns, self.frontier_ns)

    def _gather_before(self, frontier_ns: int, at_ns: int) -> list[tuple[Run, list[Unit]]]:
        """What would be decided with the frontier there, evaluated, not told yet."""
        self._gather_until(at_ns - 1)
        floor_ns, corrected = frontier_ns - self.amend_ns, []
        for run in [run for run in self.gathering if run.gathered.since_ns < floor_ns]:
            del self.gathering[run]
            corrected.append((run, run.evaluate_gathered(self._now())))
        return corrected

    def next_deadline_ns(self) -> int | None:
        """When corrections that are gathered are due."""
        return min((run.gathered.due_ns for run in self.gathering), default=None)

    def on_time(self, now_ns: int) -> None:
        """Nothing came up to and including `now_ns`."""
        self._gather_until(now_ns)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        """Every event before `frontier_ns` has come. It never falls."""
        if frontier_ns <= self.frontier_ns:
            return
        if frontier_ns <= self.quiet_ns:
            self.frontier_ns = frontier_ns
            if frontier_ns > self.clock_ns:
                self.clock_ns = frontier_ns
            return
        corrected = self._gather_before(frontier_ns, at_ns) if self.gathering else []
        self.frontier_ns = frontier_ns
        self.clock_ns = max(self.clock_ns, frontier_ns)
        for run, units in corrected:
            run.emit(units, self._now())  # once, where the correction is final at once
        for timers, until_ns in (
            (self.context.clock, self.clock_ns),
            (self.context.frontier, frontier_ns),
        ):
            if timers.is_due(until_ns):
                self._look_again(timers.due(until_ns))
        for wiring in self._all_wirings:
            if wiring.target_ns is not None and wiring.target_ns < frontier_ns:
                self._raise_target(wiring, frontier_ns)
        self._emitter.flush(at_ns, frontier_ns)
        for group in self._groups:
            self._let_go(group)
        self.quiet_ns = self._next_due_ns()

    def _next_due_ns(self) -> int:
        """Up to there the frontier may go and nothing happens, if no event is taken meanwhile."""
        if self.gathering or self._everything is not None:
            return BEFORE_ALL
        due_ns = min(self.context.clock.next_ns, self.context.frontier.next_ns)
        for wiring in self._all_wirings:
            if wiring.target_ns is not None:
                due_ns = min(due_ns, wiring.target_ns)
        for group in self._groups:
            due_ns = min(due_ns, group.purge_ns + self.amend_ns)
        return due_ns

    def is_due(self, frontier_ns: int, target_ns: int) -> bool:
        """With the frontier, or what queries may emit, there, would anything be emitted?"""
        context, target_ns = self.context, max(frontier_ns, target_ns)
        if self.gathering or context.frontier.is_due(frontier_ns):
            return True
        return context.clock.is_due(frontier_ns) or any(
            wiring.at_target.is_due(target_ns) for wiring in self._all_wirings
        )

    def raise_target(self, query: str, until_ns: int, at_ns: int) -> None:
        """The query emits what is decided before `until_ns`; called with the earliest instant
        before its first event, and never with less."""
        self.quiet_ns = BEFORE_ALL
        for wiring in self._all_wirings:
            if wiring.query.name == query:
                self._raise_target(wiring, until_ns)
        self._emitter.flush(at_ns, self.frontier_ns)

    def _raise_target(self, wiring: Wiring, until_ns: int) -> None:
        if wiring.target_ns is None:
            for run in self._runs():
                if run.query is wiring.query:
                    run.give_up()
        self._look_again(wiring.at_target.due(wiring.raise_target(until_ns)))

    def end(self, at_ns: int) -> None:
        """The input is over: everything is decided."""
        self.advance(AFTER_ALL, at_ns)

    def _look_again(self, timers: Iterable[tuple[Asker, Key]]) -> None:
        for run, anchor in timers:
            run.ask_again(anchor, self._now())

    def _let_go(self, group: PartitionGroup) -> None:
        floor_ns = self._floor_ns
        if not group.strict_everywhere and group.purge_ns >= floor_ns:
            return
        gone = group.purge(floor_ns, self._now())
        if group.strict_everywhere and self._everything is not None:
            reach_ns = max(each.reach_ns for each in self._groups if each.strict_everywhere)
            gone += self._everything.purge(floor_ns - reach_ns)
        self.admission.let_go(gone)

    @property
    def _floor_ns(self) -> int:
        """Before it all is decided."""
        return self.frontier_ns - self.amend_ns

    def _now(self) -> Now:
        now = self._now_kept
        now.clock_ns, now.floor_ns = self.clock_ns, self.frontier_ns - self.amend_ns
        return now

    @property
    def margin_ns(self) -> int:
        """By how much errors put decisions off, as far as they are known."""
        return self._doubt.margin_ns

    @property
    def reaches(self) -> dict[str, int]:
        """How long an event may matter to a query, by its name."""
        return {each.query.name: each.query.reach_ns for each in self._all_wirings}

    @property
    def emitted_when_heard(self) -> list[str]:
        """The queries that wait for the end of a gap in which nothing may happen, by name."""
        queries = [wiring.query.query for wiring in self._all_wirings]
        return [q.name for q in queries if q.emit == "final" and ends_in_negation(q.node)]

    def _runs(self) -> Iterator[Run]:
        return (run for group in self._groups for run in group.runs())

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return {ENGINE: self._own_state(), **self._unit_states(everything=True)}

    def changes(self) -> Changes:
        return {ENGINE: self._own_state(), **self._unit_states(everything=False)}

    def _own_state(self) -> Any:
        since = wiring_rows(self._all_wirings)
        return [self.clock_ns, self.frontier_ns, self.counts, since, self._doubt.snapshot()]

    def _unit_states(self, *, everything: bool) -> dict[str, Any]:
        states: dict[str, Any] = {}
        if not everything:
            states, self._stale = self._stale, {}
            for group in self._groups:
                states.update(group.take_closed())
        now = self._now()
        for run in self._runs() if everything else self._moved_runs():
            states.update(run.state(now, everything=everything))
        return states

    def _moved_runs(self) -> Iterator[Written]:
        """Those that have something new to write; what SKIP has decided moves with time alone."""
        yield from self.context.moved.take()
        for group in self._groups:
            if group.skips:
                yield from (run for run in group.runs() if run.query.shape.skips)

    def entries(self) -> Iterable[Entry]:
        return self.admission.retained.values()

    def restore(self, state: Mapping[str, Any], entries: Iterable[Entry]) -> None:
        """Into a fresh engine. `entries`: those retained, in any order. A query that the state does
        not know counts from now on; what it says of one that is no more is left."""
        self.quiet_ns = BEFORE_ALL
        own = state.get(ENGINE, self._own_state())
        self.clock_ns, self.frontier_ns, counts, since, doubt = own
        if self._heeds_errors:
            self._doubt.restore(doubt)
        self.counts.update(counts)
        released = restore_wirings(self._all_wirings, since, self._from_now_on)
        rest = dict(state)
        rest.pop(ENGINE, None)
        for entry in sorted(entries, key=attrgetter("key")):
            for group in self._groups:
                group.put(entry, group.filters_of(entry))
            if self.admission.keep(entry):
                self._newest = entry.key
            else:
                self.gone.append(entry)
        for run in self._runs():
            run.revive(rest, self._now(), self.admission.retained)
            if run.query.name in released:
                for key in run.units:
                    self.context.clock.set(BEFORE_ALL, run, key)
            if run.gathered.anchors:
                self.gathering[run] = None
        self._emitter.forget_overflows()
        self._stale = dict.fromkeys(rest)

    def _from_now_on(self, query: Compiled) -> int:
        """Matches that start here or later rest on no event that came before now: those were
        kept only if another query asked for them."""
        if self.clock_ns == BEFORE_ALL:
            return BEFORE_ALL
        return self.clock_ns + 1 + (query.within_ns if query.shape.has_start_negation else 0)
