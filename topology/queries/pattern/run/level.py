"""Runs the queries of an engine level by level, so that queries can read matches of others (INTO).

The queries of a level read the same types of matches. Those of the first level read only events. A
match may still be found or change for some time after its end (`_lag_ns`). A level that reads the
match gets an earlier frontier, by that time. So no match is late there, and no final match changes.

An event is put into the indexes of all levels (`put`). Then the levels are evaluated in order. Each
one evaluates the units that have changed (`settle`). Its changed matches are then replaced in the
levels that read them (`replace_matches`). So each level is evaluated once for all effects of an
event. A query that reads its own matches, directly or through others, is refused
(`tree.chained_queries`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from topology.base.meter import Meter
from topology.base.operator import NEVER, Changes, Plain, State
from topology.base.result import result_id
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.queries.pattern.run.admit import (
    Admission,
    KeyedQueries,
    PartitionIndex,
    find_filters,
    group_by_partition,
)
from topology.queries.pattern.run.affect import find_affected, find_around, uses_any
from topology.queries.pattern.run.emit import Change, emit_units
from topology.queries.pattern.run.evaluate import delay_decisions, evaluate_units, follow
from topology.queries.pattern.run.forget import restore, wake, write
from topology.queries.pattern.run.run import (
    BEFORE_ALL_TIME,
    KNOWN_BY,
    NO_QUERY,
    Agenda,
    MatchUnit,
    Run,
    Wiring,
)
from topology.queries.pattern.run.slack import Slack
from topology.queries.pattern.store.entry import Entry, Key, key_of
from topology.queries.pattern.store.index import EntryIndex
from topology.queries.pattern.tree.chained_queries import find_types_read
from topology.state.saved import INT, PLAIN, tuple_of

LEVEL: Final = tuple_of(INT, INT, PLAIN, PLAIN, PLAIN)
"""The row of a level: clock, frontier, `Doubt`, the rows of its queries, and their `Lateness`."""


class Dirty:
    """The units of one run that must be evaluated again.

    `anchors`: the anchors of the units, by key. `new_entry`: the event that changes them; None if
    only other causes do. `is_exchanged`: whether matches that the query reads were added or
    removed, too.
    """

    __slots__ = ("anchors", "is_exchanged", "new_entry")

    def __init__(self) -> None:
        self.anchors: dict[Key, Entry] = {}
        self.new_entry: Entry | None = None
        self.is_exchanged = False


Settled = tuple[list[Change], list[tuple[MatchUnit, int]]]
"""The changes of a level's results, and the units with more matches than are emitted.

Each of these units comes with the number of its emitted matches.
"""


class Level:
    """The queries that read the same matches, with their clock, frontier, timers and indexes.

    Attributes:
        types: The match types that the queries read.
        known_by: A digest of these types; empty if there are none.
        feeds: The queries that find these matches, each with its level.
        meter: The driver's meter of the queries' time.
        doubt: The largest error; NO_DOUBT if no query uses time errors.
        is_everywhere: Whether some STRICT step looks at the entries of every partition.
        everything: The index of all entries; empty if no step does so.
        slack: The gathered corrections.
    """

    def __init__(
        self,
        queries: Sequence[Compiled],
        types: frozenset[str],
        feeds: Sequence[tuple[Compiled, Level]],
        admission: Admission,
        emits_final: Collection[str],
        max_partitions: int,
        max_error_ns: int | None,
        *,
        is_plain: bool,
    ) -> None:
        self.types = types
        digest = result_id(*(name.encode() for name in sorted(types)))
        self.known_by = digest[:KNOWN_BY] if types else ""
        self.feeds = feeds
        self.meter = Meter()
        self.agenda = Agenda()
        heeds_errors = any(query.grading is not None for query in queries)
        self.doubt = Doubt(max_error_ns) if heeds_errors else NO_DOUBT
        self.is_everywhere = any(query.shape.everywhere for query in queries)
        self.everything = EntryIndex()
        self._admission = admission
        self.wirings: list[Wiring] = []
        self.groups: list[KeyedQueries] = []
        for numbered in group_by_partition(queries):
            filters = find_filters(query for _, query in numbered)
            wirings = [
                Wiring(
                    number,
                    query,
                    list(filters),
                    self.doubt,
                    self.known_by,
                    emits_final=query.name in emits_final,
                    is_plain=is_plain,
                )
                for number, query in numbered
            ]
            self.wirings += wirings
            self.groups.append(
                KeyedQueries(wirings, filters, self.agenda, self.everything, max_partitions)
            )
        self.slack = Slack(self.wirings)
        self._dirty: dict[Run, Dirty] = {}
        self._withdrawn: set[Entry] = set()
        self._changes: list[Change] = []
        self._waiting: list[Wiring] = []
        """The queries that wait for a quality target."""

    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs()]

    @property
    def reach_ns(self) -> int:
        """The longest time before the frontier for which an entry is kept."""
        return max(group.reach_ns for group in self.groups)

    # -- events -------------------------------------------------------------------------------

    def record_time(self, time_ns: int, error_ns: int) -> None:
        """Record the time and error of an event, whether or not an index takes it.

        When the largest error grows, everything beyond the old reach is purged first. So results do
        not depend on when the last purge happened.
        """
        doubt = self.doubt
        if error_ns > doubt.error_ns and doubt is not NO_DOUBT:
            self._purge(is_whole=True)
            by_ns = doubt.widen(error_ns, self.agenda.frontier_ns)
            for run in self.runs():
                delay_decisions(run, by_ns)
        if time_ns > self.agenda.clock_ns:
            self.agenda.clock_ns = time_ns

    def put(self, entry: Entry, at_ns: int) -> None:
        """Put an event into the indexes, and record the units that it can change."""
        self.record_time(entry.time_ns, entry.event.error_ns)
        in_order = self._add_to_everything(entry)
        for group in self.groups:
            filters = group.filters_of(entry)
            partition = group.put(entry, filters)
            if partition is not None:
                self.pass_on(partition, entry, filters, at_ns, in_order=in_order)
                self.agenda.quiet_ns = min(self.agenda.quiet_ns, group.purge_ns)
            if group.strict_everywhere and (not in_order or group.doubt.margin_ns):
                for other in group.partitions.values():
                    if other is not partition:
                        self._mark_disturbed(other, entry)

    def _add_to_everything(self, entry: Entry) -> bool:
        """Put an entry into the index of all entries, if a query uses that index.

        Return whether the entry is newer than all others there; True if the index is not used.
        """
        if not self.is_everywhere:
            return True
        self.everything.add(entry)
        if entry.event.error_ns:
            self.everything.note_error(entry)
        entry.places += 1
        return self.everything.entries[-1] is entry

    def pass_on(
        self,
        partition: PartitionIndex,
        entry: Entry,
        filters: Sequence[int],
        at_ns: int,
        *,
        in_order: bool = True,
    ) -> bool:
        """Let the partition's runs follow the entry, or record the units that it can change.

        Return whether `settle` has work to do. `in_order`: whether the entry is the newest of the
        level, for runs that look at all partitions.
        """
        meter = self.meter
        is_timed = meter.clock_ns is not None
        for run in partition.runs:
            is_newest = in_order if run.query.shape.everywhere else partition.in_order
            begun_ns = meter.begin() if is_timed else 0
            changes = follow(run, entry, filters, in_order=is_newest)
            if changes is None:
                self._mark_changed(run, entry, filters, at_ns, in_order=is_newest)
            elif changes:
                self._changes += changes
            if is_timed:
                meter.end(run.query.name, begun_ns)
        agenda = self.agenda  # This repeats `is_due` to save a call for each event.
        return bool(self._dirty or self._changes) or agenda.events.next_ns < agenda.clock_ns

    def _mark_changed(
        self, run: Run, entry: Entry, filters: Sequence[int], at_ns: int, *, in_order: bool
    ) -> None:
        """Record the units of a run that the entry can change, to evaluate them now or later."""
        self.agenda.quiet_ns = BEFORE_ALL_TIME  # The event may arm timers.
        anchors = find_affected(run, entry, filters, in_order=in_order)
        if run.wiring.gathers:
            late_by_ns = 0 if in_order else max(1, self.agenda.clock_ns - entry.time_ns)
            if self.slack.gather(run, anchors, filters, late_by_ns, at_ns):
                self.agenda.arrival_ns = self.slack.next_ns
                return
        if anchors or (run.doubts_independently and uses_any(run, filters)):
            self._note(run, anchors).new_entry = entry

    def _mark_disturbed(self, other: PartitionIndex, entry: Entry) -> None:
        """Record the units in another partition that the event changes through a STRICT step."""
        for run in other.runs:
            if run.query.shape.everywhere:
                changes = follow(run, entry, (), in_order=False)
                if changes is not None:
                    self._changes += changes
                elif anchors := find_affected(run, entry, (), in_order=False):
                    self._note(run, anchors)

    def _note(self, run: Run, anchors: Iterable[Entry]) -> Dirty:
        self.agenda.quiet_ns = BEFORE_ALL_TIME
        dirty = self._dirty.setdefault(run, Dirty())
        dirty.anchors.update([(anchor.key, anchor) for anchor in anchors])
        return dirty

    def replace_matches(self, old: Iterable[Entry], new: Iterable[Entry]) -> None:
        """Replace `old` matches by `new` ones, and record all units that may contain either."""
        old = [entry for entry in old if entry.type in self.types]
        new = [entry for entry in new if entry.type in self.types]
        for entry in old:
            self._mark_dirty_around(entry)
        for entry in old:
            self._withdrawn.add(entry)
            self.everything.remove(entry)
            for group in self.groups:
                group.remove(entry)
        for entry in new:
            self.record_time(entry.time_ns, entry.event.error_ns)
        for entry in new:
            self._add_to_everything(entry)
            for group in self.groups:
                group.put(entry, group.filters_of(entry))
        for entry in new:
            self._mark_dirty_around(entry)

    def _mark_dirty_around(self, entry: Entry) -> None:
        for group in self.groups:
            for run in group.find_affected_runs(entry):
                self._note(run, find_around(run, entry)).is_exchanged = True

    @property
    def is_due(self) -> bool:
        """Whether `settle` has work to do."""
        if self._dirty or self._changes:
            return True
        return self.agenda.events.next_ns < self.agenda.clock_ns

    def settle(self) -> Settled | None:
        """Evaluate the recorded units, and return what changes; None if nothing does.

        Units whose timers are due are emitted in the same call, so a unit with both changes is
        emitted once.
        """
        return self._emit(self._evaluate())

    def correct(self, due_ns: int, frontier_ns: int = BEFORE_ALL_TIME) -> None:
        """Record the gathered units that are due at this arrival time, or at this frontier."""
        for run, anchors in self.slack.take(due_ns, frontier_ns):
            self._note(run, anchors)
        self.agenda.arrival_ns = self.slack.next_ns

    def _evaluate(self) -> list[MatchUnit]:
        """Evaluate the recorded units, and return the units to emit."""
        found: list[MatchUnit] = []
        for run, each in self._dirty.items():
            begun_ns = self.meter.begin()
            found += evaluate_units(
                run, each.anchors, each.new_entry, self._withdrawn, is_exchanged=each.is_exchanged
            )
            self.meter.end(run.query.name, begun_ns)
        self._dirty.clear()
        self._withdrawn.clear()
        return found

    def _emit(self, units: list[MatchUnit]) -> Settled | None:
        """Return the changes of these units, of the units whose timers are due, and of walks.

        All units of a run are emitted in one call, because SKIP must see them together.
        """
        agenda = self.agenda
        if (
            self._waiting
            or agenda.events.next_ns < agenda.clock_ns
            or agenda.frontier.next_ns < agenda.frontier_ns
        ):
            units += self._take_woken()
        if not units and not self._changes:
            return None
        changes, self._changes = self._changes, []
        overflowed: list[tuple[MatchUnit, int]] = []
        by_run: dict[Run, dict[Key, MatchUnit]] = {}
        for unit in units:
            by_run.setdefault(unit.run, {})[unit.anchor.key] = unit
            if unit.overflowed and not unit.is_overflow_known:
                unit.is_overflow_known = True
                overflowed.append((unit, len(unit.found)))
        for run, changed in by_run.items():
            begun_ns = self.meter.begin()
            changes += emit_units(run, changed.values())
            self.meter.end(run.query.name, begun_ns)
        return changes, overflowed

    def _take_woken(self) -> Iterator[MatchUnit]:
        """Take the units whose timers are due, if they still exist."""
        due = self.agenda.events.due(self.agenda.clock_ns)
        due += self.agenda.frontier.due(self.agenda.frontier_ns)
        for wiring in self._waiting:
            due += wiring.take_woken()
        return filter(wake, due)

    # -- time ---------------------------------------------------------------------------------

    @property
    def input_final_ns(self) -> int:
        """The instant before which all matches that the level reads are found and final."""
        return min(level.agenda.frontier_ns - _lag_ns(query, level) for query, level in self.feeds)

    def advance(self, frontier_ns: int) -> Settled | None:
        """Move the frontier forward, and return what changes; None if nothing does.

        Every event before `frontier_ns` has arrived.
        """
        agenda = self.agenda
        if frontier_ns <= agenda.frontier_ns:
            return self.settle()
        if frontier_ns <= agenda.quiet_ns:
            agenda.advance(frontier_ns)
            return None
        if agenda.arrival_ns < NEVER:
            self.correct(BEFORE_ALL_TIME, frontier_ns)
        changed = self._evaluate() if self._dirty else []
        agenda.advance(frontier_ns)
        for wiring in self._waiting:
            wiring.raise_target(frontier_ns)
        # The frontier is moved before emitting, so that a change that is already final is emitted
        # once, as final, and not first as preliminary.
        settled = self._emit(changed)
        self._purge()
        agenda.quiet_ns = self._next_due_ns()
        return settled

    def _next_due_ns(self) -> int:
        """Return the instant up to which the frontier may move without any effect."""
        if self.agenda.arrival_ns < NEVER:
            return BEFORE_ALL_TIME
        due_ns = min(self.agenda.next_ns, self._purge_ns)
        for wiring in self._waiting:
            if wiring.target_ns is not None:
                due_ns = min(due_ns, wiring.target_ns)
        return due_ns

    def would_emit(self, frontier_ns: int, target_ns: int, watermark_ns: int) -> bool:
        """Return whether anything would be emitted at this frontier, target and watermark.

        `target_ns` is the instant up to which queries may emit.
        """
        agenda = self.agenda
        if agenda.arrival_ns < NEVER or agenda.next_ns < frontier_ns:
            return True
        if agenda.events.next_ns < watermark_ns:
            return True
        target_ns = max(frontier_ns, target_ns)
        return any(wiring.at_target.next_ns < target_ns for wiring in self.wirings)

    def raise_target(self, query: str, until_ns: int) -> None:
        """Allow the query to emit matches that are decided before `until_ns`."""
        for wiring in self.wirings:
            if wiring.query.name == query:
                self.agenda.quiet_ns = BEFORE_ALL_TIME
                wiring.raise_target(until_ns)
                if wiring not in self._waiting:
                    self._waiting.append(wiring)

    def seal(self, watermark_ns: int) -> None:
        """Mark the input as ended: only its end decides results that are open at the watermark."""
        if not self.feeds:
            self.agenda.proven_ns = max(self.agenda.clock_ns, watermark_ns)
            return
        self.agenda.proven_ns = min(
            level.agenda.proven_ns - _lag_ns(query, level) for query, level in self.feeds
        )

    # -- forgetting ---------------------------------------------------------------------------

    @property
    def _purge_ns(self) -> int:
        """The frontier after which `_purge` may have something to do.

        The index of all entries has no timer, so a level with that index may always have something
        to purge.
        """
        if self.is_everywhere:
            return BEFORE_ALL_TIME
        return min([group.purge_ns for group in self.groups], default=NEVER)

    def _purge(self, *, is_whole: bool = False) -> None:
        """Purge the entries that are beyond the reach.

        `is_whole`: purge every partition, even where few entries can be purged.
        """
        frontier_ns, everything = self.agenda.frontier_ns, self.everything
        for group in self.groups:
            if is_whole or group.strict_everywhere or group.purge_ns < frontier_ns:
                self._admission.let_go(group.purge(frontier_ns, is_whole=is_whole))
        if self.is_everywhere:
            reach_ns = max(each.reach_ns for each in self.groups if each.strict_everywhere)
            since_ns = frontier_ns - reach_ns
            if is_whole or everything.is_purge_due(since_ns):
                self._admission.let_go(everything.purge(since_ns))

    # -- state --------------------------------------------------------------------------------

    def row(self) -> Plain:
        queries = {wiring.query.name: wiring.row() for wiring in self.wirings}
        agenda, doubt = self.agenda, self.doubt.snapshot()
        return agenda.clock_ns, agenda.frontier_ns, doubt, queries, self.slack.lateness()

    def write(self) -> None:
        """Write the rows of the runs that have changed.

        A barrier row (SKIP) may also change when only the frontier moves. So the runs whose barrier
        timer is due are written too.
        """
        agenda = self.agenda
        for run in agenda.changed | dict.fromkeys(agenda.barriers.due(agenda.frontier_ns)):
            write(run)
        agenda.changed.clear()
        agenda.rows |= self.slack.write(agenda.frontier_ns)

    def take_rows(self) -> Changes:
        """Return the rows that differ from the last ones returned; None for a deleted row."""
        self.write()
        rows, self.agenda.rows = self.agenda.rows, {}
        return rows

    def restore(self, row: Plain, rest: State, entries: Iterable[Entry]) -> None:
        """Restore a state into a level without events, and take the level's rows out of `rest`.

        `row`: the level's own row; None if the state has none. `entries`: the stored entries. A
        query counts matches from now on if the row does not contain it. That is also so for a query
        that read other types of matches when the state was written.
        """
        self.agenda.quiet_ns = BEFORE_ALL_TIME
        rows: Mapping[str, Plain] = {}
        lateness: Mapping[str, Plain] = {}
        if row is not None:
            self.agenda.clock_ns, frontier_ns, doubt, rows, lateness = LEVEL.load(row, None, "")
            self.agenda.advance(frontier_ns)
            if self.doubt is not NO_DOUBT:
                self.doubt.restore(doubt)
        released = set()
        for wiring in self.wirings:
            known = rows.get(wiring.query.name, NO_QUERY)
            if wiring.restore(known, self._earliest_future_start(wiring.query)):
                released.add(wiring.query.name)
        for entry in sorted(entries, key=key_of):
            self._add_to_everything(entry)
            for group in self.groups:
                group.put(entry, group.filters_of(entry))
            self._admission.keep(entry)
        for run in self.runs():
            restore(run, rest)
            if run.query.name in released:
                for unit in run.units.values():
                    self.agenda.events.arm(unit, BEFORE_ALL_TIME)
        self.slack.restore(lateness, self.runs(), rest, self._admission.retained)
        self.agenda.arrival_ns = self.slack.next_ns

    def restore_retracted(self, entry: Entry, rest: State) -> None:
        """Restore the results found from a match that was retracted before the state was written.

        The rows of these results are taken out of `rest`.
        """
        if entry.type in self.types:
            for group in self.groups:
                group.restore_retracted(entry, rest)

    def begin_after(self, newest_ns: int) -> None:
        """Exclude, for all queries, matches that may depend on events up to `newest_ns`.

        Call it before the level has taken any event.
        """
        for wiring in self.wirings:
            wiring.since_ns = max(wiring.since_ns, _earliest_start_after(newest_ns, wiring.query))

    def _earliest_future_start(self, query: Compiled) -> int:
        """Return the earliest start of a match that depends only on future events.

        Past events may be missing, because they were stored only if another query used them.
        """
        if self.agenda.clock_ns == BEFORE_ALL_TIME:
            return BEFORE_ALL_TIME
        margin_ns = 0 if query.grading is None else self.doubt.margin_ns
        return _earliest_start_after(self.agenda.clock_ns + margin_ns, query)


def _lag_ns(query: Compiled, level: Level) -> int:
    """Return the time after the end of the query's match during which the match may change."""
    return query.lag_ns + (level.doubt.margin_ns if query.grading else 0)


def _earliest_start_after(newest_ns: int, query: Compiled) -> int:
    """Return the earliest start of a match that depends on no event up to `newest_ns`."""
    before_ns = query.span_ns if query.shape.has_start_negation else 0
    return newest_ns + 1 + before_ns + (query.within_ns if query.shape.looks_back else 0)


def group_by_level(queries: Sequence[Compiled]) -> list[tuple[frozenset[str], list[Compiled]]]:
    """Return the queries grouped by the match types that they read, in the order of evaluation.

    Queries that find matches come before those that read the matches.
    """
    reads = find_types_read([each.query for each in queries])
    levels = [(frozenset[str](), [each for each in queries if not reads[each.name]])]
    left = {name: types for name, types in reads.items() if types}
    while left:
        unknown = {each.query.into for each in queries if each.name in left}
        types = next(each for each in left.values() if not each & unknown)
        mine = [each for each in queries if left.get(each.name) == types]
        levels.append((types, mine))
        for each in mine:
            del left[each.name]
    return levels
