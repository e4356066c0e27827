"""Runs pattern queries over one store of events; results are correct in any order of arrival.

docs/decisions/0010-patterns.md has the reasons for this design.

An accepted event is put into the indexes whose filters it passes. The units that it can change are
then evaluated again, and differences are emitted, updated or retracted. This is the same for events
in order and out of order. The *frontier* is the instant before which every event has arrived.
Results decided before the frontier are final, and an event before it is not accepted (`admit`). An
event after it that MERGE has marked as late is like any other.

A query is evaluated in one of two ways (`evaluate`). In the plain way, an event advances the walks
of its units (a late event corrects them), and the changes follow at once (`evaluate.follow`). In
the general way, `Engine.accept` notes the units that the event affects, and `Level.settle`
evaluates them. Both ways end in `emit.emit_unit`, where matches are retracted.

The modules of this package follow a unit through its stages:

- `admit` accepts and stores an event, and `level` passes it to the queries.
- `affect` finds the units that it changes, and `evaluate` finds their matches.
- `emit` chooses the matches that may be emitted, and finds the difference from the emitted results;
  `selection` applies SKIP.
- `match_results` makes new results of the difference.
- `slack` gathers corrections, and `forget` drops, writes and restores the units of a run.
- `run` defines a run, which is one query in one partition, with its units and timers.
- `found_match` has a match as a run finds it.

Bounds: `max_retained` entries, which are events and the matches that queries read; `max_partitions`
keys of each partition key; for each unit, the query's LIMIT and MAX_STEPS. Everything beyond a
bound is counted or reported, so nothing is dropped silently.

Memory: some 400 bytes for each stored entry, and 16 for each index that contains it. Each result
that is not yet final takes 300 bytes, and so does each start that still waits (MATCHES ONE).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from topology.base.event import Event
from topology.base.meter import Meter
from topology.base.operator import NEVER, Changes, Plain, State
from topology.base.outcome import Step
from topology.base.result import Finding
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match_events import MatchEvent, MatchTable, make_match_event
from topology.queries.pattern.match.uncertain.doubt import MAX_ERROR_NS
from topology.queries.pattern.run.admit import CONFLICT, IRRELEVANT, STORED, Admission
from topology.queries.pattern.run.level import Level, Settled, group_by_level
from topology.queries.pattern.run.match_results import ResultMaker
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.defaults import ends_in_negation
from topology.state.saved import INT

AFTER_ALL: Final = 1 << 65
"""An instant after every possible event time plus the longest window."""

MAX_RETAINED: Final = 1_000_000
MAX_PARTITIONS: Final = 1_000_000

ENGINE: Final = "engine"
"""The key of the engine's own row; the other rows belong to units and matches."""


class Engine:
    """The engine of the pattern queries of one stream.

    Attributes:
        counts: The number of events by outcome (`admit.WORDS`).
        compiled: The queries by name.
        levels: The queries, grouped by the matches of other queries that they read.
        is_plain: Whether the caller may pass on a batch without ending each of its instants.
    """

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
        """Create an engine without events.

        `emits_final`: the names of the queries that update an early result once more when it
        becomes final. `max_error_ns`: the largest time error that an event may have. It applies to
        all queries if one of them uses time errors (see `uncertain.doubt`). `is_plain`: whether
        events in order and with exact times take the plain way (`evaluate.follow`). Otherwise all
        events take the general way, which gives the same results.
        """
        most_ns = MAX_ERROR_NS if max_error_ns is None else max_error_ns
        heeds_errors = any(query.grading is not None for query in queries)
        self._admission = Admission(max_retained, most_ns if heeds_errors else None)
        self.counts: dict[str, int] = self._admission.counts
        self._findings: list[Finding] = []
        self._maker = ResultMaker(stream)
        self.levels: list[Level] = []
        feeds: list[tuple[Compiled, Level]] = []
        for types, mine in group_by_level(queries):
            level = Level(
                mine,
                types,
                [feed for feed in feeds if feed[0].query.into in types],
                self._admission,
                emits_final,
                max_partitions,
                max_error_ns,
                is_plain=is_plain,
            )
            feeds += [(query, level) for query in mine]
            self.levels.append(level)
        self._first, self._above = self.levels[0], self.levels[1:]
        self._read = frozenset[str]().union(*(level.types for level in self.levels))
        self._matches = MatchTable()
        self._left_out = 0
        wirings = [wiring for level in self.levels for wiring in level.wirings]
        self.compiled = {wiring.query.name: wiring.query for wiring in wirings}
        self.is_plain = is_plain and not self._above
        groups = self._first.groups
        has_plain = self.is_plain and len(groups) == 1 and not groups[0].strict_everywhere
        self._plain_group = groups[0] if has_plain else None

    # -- the queries and their progress ------------------------------------------------------------

    @property
    def emitted_when_received(self) -> list[str]:
        """The names of the queries with EMIT FINAL whose pattern can end in a negation."""
        queries = [each.query for each in self.compiled.values()]
        return [q.name for q in queries if q.emit == "final" and ends_in_negation(q.node)]

    @property
    def clock_ns(self) -> int:
        """The newest time accepted, or the time that the watermark has passed if that is later."""
        return self._first.agenda.clock_ns

    @property
    def frontier_ns(self) -> int:
        """The instant before which every event has arrived."""
        return self._first.agenda.frontier_ns

    @property
    def margin_ns(self) -> int:
        """The time by which the largest error delays decisions."""
        return max(level.doubt.margin_ns for level in self.levels)

    @property
    def is_crowded(self) -> bool:
        """Whether the store of entries is nearly full."""
        return self._admission.is_crowded

    @property
    def refused(self) -> int:
        """The number of entries left out because the partitions or the store were full."""
        groups = [group for level in self.levels for group in level.groups]
        return self._left_out + sum(group.refused for group in groups)

    @property
    def unpartitioned(self) -> int:
        """The number of times a query ignored an entry that had no value for its partition key."""
        return sum(group.unpartitioned for level in self.levels for group in level.groups)

    @property
    def retained(self) -> int:
        """The number of stored entries: events, and matches that queries read."""
        return len(self._admission.retained)

    def uses_type(self, type_: str) -> bool:
        """Return whether any query may use events of this type."""
        return any(group.uses_type(type_) for level in self.levels for group in level.groups)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Process an event, and return its outcome: one of `admit.WORDS`.

        Most events take a shortcut. All queries must have one partition key, and none may read
        other partitions or matches. The event's time must be exact, some filter must accept it, and
        its partition must exist.
        """
        group, level, admission = self._plain_group, self._first, self._admission
        agenda = level.agenda
        if agenda.arrival_ns < at_ns:
            self.on_time(at_ns - 1)
        word = admission.refusal(entry.event, entry.identity, agenda.frontier_ns)
        if word:
            word = admission.outcome_of_known(entry) if word == CONFLICT else word
        elif (
            group is not None
            and not entry.event.error_ns
            and (filters := group.filters_of(entry))
            and (partition := group.known_partition_of(entry)) is not None
        ):
            word = STORED
            if entry.time_ns > agenda.clock_ns:
                agenda.clock_ns = entry.time_ns
            admission.retained[entry.identity] = entry
            partition.take(entry, filters)
            if level.pass_on(partition, entry, filters, at_ns):
                self._report(level.settle(), at_ns)
        else:
            for each in self.levels:
                each.put(entry, at_ns)
            word = STORED if admission.keep(entry) else IRRELEVANT
            self._settle(at_ns)
        self.counts[word] += 1
        return word

    def accept_unused(self, event: Event) -> str:
        """Process an event of a type that no query uses, and return its outcome as `accept` does.

        No entry is made for the event.
        """
        self.on_time(event.at_ns - 1)
        identity = (event.source, event.epoch, event.seq)
        word = self._admission.refusal(event, identity, self._first.agenda.frontier_ns)
        if not word:
            word = IRRELEVANT
            for level in self.levels:
                level.record_time(event.ref_time_ns, event.error_ns)
            if any(level.is_due for level in self.levels):
                self._settle(event.at_ns)
        self.counts[word] += 1
        return word

    def _settle(self, at_ns: int) -> None:
        """Settle level by level, so that each sees the changed matches of those below it."""
        for level in self.levels:
            self._report(level.settle(), at_ns)

    def _report(self, settled: Settled | None, at_ns: int) -> None:
        """Make the results of a level's changes, and pass matches to the levels that read them."""
        if settled is None:
            return
        changes, overflowed = settled
        results = self._maker.make_results(changes, at_ns)
        self._findings += results
        self._findings += [self._maker.make_overflow(*each, at_ns) for each in overflowed]
        if self._above:
            self._pass_up_matches(
                [
                    make_match_event(query, result, change.found.match.last.event.error_ns)
                    for change, result in zip(changes, results, strict=True)
                    if (query := change.run.query).query.into in self._read
                ]
            )

    def flush(self, step: Step) -> None:
        """Move the results, and the events that are no longer stored, into the step."""
        step.results += self._findings
        self._findings.clear()
        step.freed += self._admission.freed
        self._admission.freed.clear()

    def _pass_up_matches(self, matches: Sequence[MatchEvent]) -> None:
        """Replace the changed matches in the levels that read them."""
        if not matches:
            return
        old, new = self._matches.take(matches)
        for entry in old:
            self._admission.remove(entry)
        room = max(0, self._admission.max_retained - len(self._admission.retained))
        for entry in new[room:]:
            self._matches.forget(entry.identity)
        self._left_out += len(new[room:])
        for reader in self.levels:
            reader.replace_matches(old, new[:room])
        for entry in new[:room]:
            self._admission.keep(entry)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        """Move the frontier forward: every event before `frontier_ns` has arrived.

        `at_ns` is the time on the arrival clock. Results that are found now bear it.
        """
        first = self._first
        if frontier_ns <= first.agenda.frontier_ns:
            return
        self.on_time(at_ns - 1)
        if not self._above:
            self._report(first.advance(frontier_ns), at_ns)
            return
        freed = len(self._admission.freed)
        for level in self.levels:
            until_ns = level.input_final_ns if level.feeds else frontier_ns
            self._report(level.advance(until_ns), at_ns)
        if len(self._admission.freed) > freed or self._matches.is_large:
            before_ns = min(each.agenda.frontier_ns - each.reach_ns for each in self._above)
            self._matches.purge(before_ns)

    def advance_clock(self, watermark_ns: int, at_ns: int) -> None:
        """Advance the clock to the watermark, as an event in order at that time would.

        This way absences end as time passes, even while all sources are idle.
        """
        if watermark_ns > self.clock_ns:
            self.on_time(at_ns - 1)
        for level in self.levels:
            level.record_time(watermark_ns, 0)
        if any(level.is_due for level in self.levels):
            self._settle(at_ns)

    def on_time(self, now_ns: int) -> None:
        """Apply the corrections that are due at or before `now_ns`, each at its own time.

        The caller ensures that no event has arrived since they were due.
        """
        agenda = self._first.agenda
        while (due_ns := agenda.arrival_ns) <= now_ns and due_ns < NEVER:
            self._first.correct(due_ns)
            self._settle(due_ns)

    def next_deadline_ns(self) -> int | None:
        """Return the arrival time at which corrections are due, or None if none are."""
        due_ns = self._first.agenda.arrival_ns  # Queries that read matches correct at once.
        return due_ns if due_ns < NEVER else None

    def is_due(self, frontier_ns: int, target_ns: int, watermark_ns: int) -> bool:
        """Return whether anything would be emitted at this frontier, target and watermark.

        `target_ns` is the instant up to which queries may emit. If some queries read matches, the
        answer is always True, because any match may change their results.
        """
        return bool(self._above) or self._first.would_emit(frontier_ns, target_ns, watermark_ns)

    def raise_target(self, query: str, until_ns: int, at_ns: int) -> None:
        """Allow the query to emit matches that are decided before `until_ns`; this never decreases.

        A query waits from the first call on, so make that call before its first event, with the
        earliest instant.
        """
        for level in self.levels:
            level.raise_target(query, until_ns)
        self._settle(at_ns)

    def measure(self, meter: Meter) -> None:
        """Time the evaluation of each query by this meter, and the emission of its results."""
        for level in self.levels:
            level.meter = meter

    def seal(self, watermark_ns: int) -> None:
        """Mark the input as ended: only its end decides results that are open at the watermark."""
        for level in self.levels:
            level.seal(watermark_ns)

    def end(self, at_ns: int) -> None:
        """Decide everything, because the input has ended."""
        self.advance(AFTER_ALL, at_ns)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {ENGINE: self._to_row(), **self._matches.snapshot()}
        for level in self.levels:
            level.write()
            for run in level.runs():
                state |= run.written
            state |= level.slack.written
        return state

    def changes(self) -> Changes:
        changes: Changes = {ENGINE: self._to_row(), **self._matches.changes()}
        for level in self.levels:
            changes |= level.take_rows()
        return changes

    def _to_row(self) -> Plain:
        return self.counts, {level.known_by: level.row() for level in self.levels}

    def entries(self) -> Iterable[Entry]:
        """Return the stored events, without the stored matches."""
        return [entry for entry in self._admission.retained.values() if entry.inner is None]

    def restore(self, state: Mapping[str, Any], entries: Iterable[Entry]) -> None:
        """Restore a state into an engine without events.

        `entries`: the stored events, in any order. A query that is not in the state counts matches
        from now on. Rows of queries that no longer exist are deleted.
        """
        rest = dict(state)
        counts, levels = rest.pop(ENGINE, ({}, {}))
        for word, count in counts.items():
            self.counts[word] = INT.load(count, None, word)
        matches, events = self._matches.restore(rest, self._read), list(entries)
        current = [match.entry for match in matches if match.is_current]
        for level in self.levels:
            level.agenda.clock_ns = max(level.agenda.clock_ns, self.clock_ns)
            held = [*events, *(entry for entry in current if entry.type in level.types)]
            level.restore(levels.get(level.known_by), rest, held)
        for match in matches:
            if not match.is_current:
                for level in self.levels:
                    level.restore_retracted(match.entry, rest)
        # The rows left over belong to queries that no longer exist.
        self._first.agenda.rows |= dict.fromkeys(rest)

    def begin_after(self, newest_ns: int) -> None:
        """Exclude, for all queries, matches that may depend on events up to `newest_ns`.

        Call it before the engine has taken any event.
        """
        for level in self.levels:
            level.begin_after(newest_ns)
