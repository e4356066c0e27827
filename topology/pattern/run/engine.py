"""Pattern queries over one store of events, right in any order of arrival.

The reasons are in docs/decisions/0010-patterns.md.

An accepted event is put into the indexes whose filters it passes, and the units that it can change,
in or out of order, are evaluated anew: what they come to differently is emitted, updated or
retracted. The *frontier* says that every event before it has come; what is decided before it is
final, and events before it are late.

A unit's life is one module after the other: `admit` takes and keeps an event, `level` leads it to
the queries, `affect` finds the units, `evaluate` their matches, `decide` chooses what may be
emitted, `emit` compares it with what readers have and makes results of it, `agenda` has what is to
be looked at again, and `forget` what a checkpoint writes until all is forgotten. `unit` has the
states of a unit and of a match. `run` is one query in one partition, which leads through these.

Bounds: `MAX_RETAINED` entries, events and matches that are read together; `max_partitions` keys of
each partition key; a query's LIMIT results of a unit and its MAX_STEPS. What is beyond is reported,
never dropped in silence.

Memory: some 400 bytes an entry retained and 16 for each index it is in; 300 for each result
not yet final, and for each start that still waits (MATCHES ONE).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from topology.model.event import Event
from topology.model.kept import INT
from topology.model.operator import Changes, Plain, State
from topology.model.result import Finding
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match_events import MatchTable
from topology.pattern.match.uncertain.doubt import MAX_ERROR_NS
from topology.pattern.run.admit import CONFLICT, IRRELEVANT, STORED, Admission
from topology.pattern.run.emit import MatchEmitter
from topology.pattern.run.level import QueryLevel, by_level
from topology.pattern.store.entry import Entry
from topology.pattern.tree.defaults import ends_in_negation

AFTER_ALL: Final = 1 << 65
"""After the farthest time and the longest window."""

MAX_RETAINED: Final = 1_000_000
MAX_PARTITIONS: Final = 1_000_000

ENGINE: Final = "engine"
"""The key of the engine's own state; the others are of units and matches."""


class Engine:
    """The engine of the pattern queries of one stream.

    Attributes:
        findings: What there is to emit. Whoever drives the engine empties it.
        freed: The entries that nothing holds any more. The driver empties it, too.
        counts: How many events there were, by what became of them (`admit.WORDS`).
        compiled: Its queries by name.
        levels: Its queries, by the matches of others that they read.
        is_plain: Whether the driver may hand events on without regard for their instants.
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
        """Make a fresh engine.

        `emits_final`: names of queries of which a result shown before it was final is updated once
        more when it is. `max_error_ns`: the largest error an event may have, for all queries where
        one of them does not ignore it (see `uncertain.doubt`). `is_plain`: what is in order and
        sure takes the plain way (`evaluate.PlainWay`); without, all goes the general way, and the
        answers are the same.
        """
        most_ns = MAX_ERROR_NS if max_error_ns is None else max_error_ns
        heeds_errors = any(query.grading is not None for query in queries)
        self._admission = Admission(max_retained, most_ns if heeds_errors else None)
        self.freed: list[Entry] = self._admission.freed
        self.counts: dict[str, int] = self._admission.counts
        self.findings: list[Finding] = []
        self.levels: list[QueryLevel] = []
        feeds: list[tuple[Compiled, QueryLevel]] = []
        levels = by_level(queries)
        read = frozenset[str]().union(*(types for types, _ in levels))
        for types, mine in levels:
            level = QueryLevel(
                mine,
                types,
                [feed for feed in feeds if feed[0].query.into in types],
                self._admission,
                MatchEmitter(stream, self.findings, read),
                emits_final,
                max_partitions,
                max_error_ns,
                is_plain=is_plain,
            )
            feeds += [(query, level) for query in mine]
            self.levels.append(level)
        self._first, self._above = self.levels[0], self.levels[1:]
        self._matches = MatchTable()
        self._left_out = 0
        wirings = [wiring for level in self.levels for wiring in level.wirings]
        self.compiled = {wiring.query.name: wiring.query for wiring in wirings}
        self.is_plain = is_plain and not self._above
        groups = self._first.groups
        has_plain = self.is_plain and len(groups) == 1 and not groups[0].strict_everywhere
        self._plain_group = groups[0] if has_plain else None

    # -- the queries, and what is known of them -----------------------------------------------

    @property
    def emitted_when_received(self) -> list[str]:
        """The queries that wait for the end of a gap in which nothing may happen, by name."""
        queries = [each.query for each in self.compiled.values()]
        return [q.name for q in queries if q.emit == "final" and ends_in_negation(q.node)]

    @property
    def clock_ns(self) -> int:
        """The newest time accepted, or what the watermark has passed."""
        return self._first.now.clock_ns

    @property
    def frontier_ns(self) -> int:
        """Every event before it has come."""
        return self._first.now.frontier_ns

    @property
    def margin_ns(self) -> int:
        """By how much errors put decisions off, as far as they are known."""
        return max(level.doubt.margin_ns for level in self.levels)

    @property
    def is_crowded(self) -> bool:
        """There is little room left for entries."""
        return self._admission.is_crowded

    @property
    def refused(self) -> int:
        """How often an entry was left out for want of room for its partition, or for a match."""
        groups = [group for level in self.levels for group in level.groups]
        return self._left_out + sum(group.refused for group in groups)

    @property
    def unpartitioned(self) -> int:
        """How often an entry had no value for the key of a query, which so ignores it."""
        return sum(group.unpartitioned for level in self.levels for group in level.groups)

    @property
    def retained(self) -> int:
        """Events that some index holds, and matches that are read."""
        return len(self._admission.retained)

    def asks_for(self, type_: str) -> bool:
        """Whether any query does, of events of this type."""
        return any(group.asks_for(type_) for level in self.levels for group in level.groups)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        """Take an event, and return what became of it: one of `admit.WORDS`.

        The plain case has a short way: an event of a certain time that some filter takes, in a
        known partition, of queries that all have one key. It may be out of order.
        """
        group, level, admission = self._plain_group, self._first, self._admission
        now = level.now
        if level.agenda.gathering:
            self.on_time(at_ns - 1)
        word = admission.refusal(entry.event, entry.identity, now.frontier_ns)
        if word:
            word = admission.of_known(entry) if word == CONFLICT else word
        elif (
            group is not None
            and not entry.event.error_ns
            and (filters := group.filters_of(entry))
            and (partition := group.known_partition_of(entry)) is not None
        ):
            word = STORED
            if entry.time_ns > now.clock_ns:
                now.clock_ns = entry.time_ns
            admission.retained[entry.identity] = entry
            in_order = partition.take(entry, filters)
            for run in partition.runs:
                if not run.follow(entry, filters, in_order=in_order):
                    level.note_changed(run, entry, filters, at_ns, in_order=in_order)
            if level.is_due:
                self._settle(at_ns)
        else:
            for each in self.levels:
                each.put(entry, at_ns)
            word = STORED if admission.keep(entry) else IRRELEVANT
            self._settle(at_ns)
        self.counts[word] += 1
        return word

    def pass_by(self, event: Event) -> str:
        """Take an event of a type that no query asks for, as `accept` takes others. It needs no
        entry, and is no copy of one that is retained."""
        self.on_time(event.at_ns - 1)
        identity = (event.source, event.epoch, event.seq)
        word = self._admission.refusal(event, identity, self._first.now.frontier_ns)
        if not word:
            word = IRRELEVANT
            for level in self.levels:
                level.pass_by(event.ref_time_ns, event.error_ns)
            if any(level.is_due for level in self.levels):
                self._settle(event.at_ns)
        self.counts[word] += 1
        return word

    def _settle(self, at_ns: int) -> None:
        """Emit what has changed, level by level, and hand matches up."""
        for level in self.levels:
            level.settle(at_ns)
            if level.emitter.matches:
                self._hand_up(level)

    def _hand_up(self, level: QueryLevel) -> None:
        """Exchange the matches that a level has found in those that read them."""
        old, new = self._matches.take(level.emitter.matches)
        level.emitter.matches.clear()
        for entry in old:
            self._admission.take_out(entry)
        room = max(0, self._admission.max_retained - len(self._admission.retained))
        for entry in new[room:]:
            self._matches.forget(entry.identity)
        self._left_out += len(new[room:])
        for reader in self.levels:
            reader.exchange(old, new[:room])
        for entry in new[:room]:
            self._admission.keep(entry)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        """Every event before `frontier_ns` has come. It never falls."""
        if frontier_ns <= self._first.now.frontier_ns:
            return
        freed = len(self.freed)
        if self._first.agenda.gathering:
            self.on_time(at_ns - 1)
        for level in self.levels:
            level.advance(level.fed_ns if level.feeds else frontier_ns, at_ns)
            if level.emitter.matches:
                self._hand_up(level)
        if self._above and (len(self.freed) > freed or self._matches.is_large):
            self._matches.purge(min(each.now.frontier_ns - each.reach_ns for each in self._above))

    def pass_time(self, watermark_ns: int, at_ns: int) -> None:
        """Let the clock go on as far as an event in order would take it: absences are over by time,
        also where all are silent."""
        if watermark_ns > self.clock_ns:
            self.on_time(at_ns - 1)
        for level in self.levels:
            level.pass_by(watermark_ns, 0)
        if any(level.is_due for level in self.levels):
            self._settle(at_ns)

    def on_time(self, now_ns: int) -> None:
        """Nothing came up to and including `now_ns`: correct what was gathered until then, each at
        its own time."""
        agenda = self._first.agenda
        while agenda.gathering and (due_ns := agenda.next_arrival_ns()) <= now_ns:
            self._first.correct(due_ns)
            self._settle(due_ns)

    def next_deadline_ns(self) -> int | None:
        """When corrections that are gathered are due."""
        agenda = self._first.agenda  # Corrections of what reads matches are not gathered.
        return agenda.next_arrival_ns() if agenda.gathering else None

    def is_due(self, frontier_ns: int, target_ns: int, watermark_ns: int) -> bool:
        """With the frontier, what queries may emit, or the clock there, would anything be
        emitted? What is found below may change all above."""
        return bool(self._above) or self._first.would_emit(frontier_ns, target_ns, watermark_ns)

    def raise_target(self, query: str, until_ns: int, at_ns: int) -> None:
        """The query emits what is decided before `until_ns`; called with the earliest instant
        before its first event, and never with less."""
        for level in self.levels:
            level.raise_target(query, until_ns)
        self._settle(at_ns)

    def seal(self, watermark_ns: int) -> None:
        """The input is over: what nothing has passed by now, only its end decides."""
        for level in self.levels:
            level.seal(watermark_ns)

    def end(self, at_ns: int) -> None:
        """The input is over: everything is decided."""
        self.advance(AFTER_ALL, at_ns)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {ENGINE: self._own_row(), **self._matches.snapshot()}
        for level in self.levels:
            level.write()
            for run in level.runs():
                state |= run.written
        return state

    def changes(self) -> Changes:
        changes: Changes = {ENGINE: self._own_row(), **self._matches.changes()}
        for level in self.levels:
            level.write()
            changes |= level.rows
            level.rows.clear()
        return changes

    def _own_row(self) -> Plain:
        return self.counts, {level.known_by: level.row() for level in self.levels}

    def entries(self) -> Iterable[Entry]:
        """Return the events that some index holds, matches aside."""
        return [entry for entry in self._admission.retained.values() if entry.inner is None]

    def restore(self, state: Mapping[str, Any], entries: Iterable[Entry]) -> None:
        """Restore into a fresh engine. `entries`: the events retained, in any order. A query that
        the state does not know counts from now on; what is there of one that is no more is left."""
        rest = dict(state)
        counts, levels = rest.pop(ENGINE, ({}, {}))
        for word, count in counts.items():
            self.counts[word] = INT.load(count, None, None, word)
        read = frozenset[str]().union(*(level.types for level in self.levels))
        matches, events = self._matches.restore(rest, read), list(entries)
        current = [match.entry for match in matches if match.is_current]
        for level in self.levels:
            level.now.clock_ns = max(level.now.clock_ns, self.clock_ns)
            held = [*events, *(entry for entry in current if entry.type in level.types)]
            level.restore(levels.get(level.known_by), rest, held)
        for match in matches:
            if not match.is_current:
                for level in self.levels:
                    level.recall(match.entry, rest)
        self.freed += [entry for entry in events if not entry.places]
        for level in self.levels:
            level.emitter.forget_overflows()
        self._first.rows |= dict.fromkeys(rest)  # They are of queries that are no more.

    def begin_after(self, newest_ns: int) -> None:
        """Let no query count matches that may rest on events up to that instant; nothing has come
        since the engine is there."""
        for level in self.levels:
            level.begin_after(newest_ns)
