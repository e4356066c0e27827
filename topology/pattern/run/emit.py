"""Emits the difference between a unit's results and the results that consumers have.

Results are compared by id with those emitted before. A new id becomes an emit, a known id with
other content an update, and a missing id a retract. So a result is never retracted and emitted
again unchanged.

Results that one event causes are ordered by query, in the order in which the queries were given.
For each query, retracts come first, then updates, then emits. Each kind is ordered by end, start,
row and id.

Matches of one unit share long groups as views of one tuple (`match.Stretch`). The output for that
tuple is made once and sliced for each match. So a match costs 8 bytes and a few nanoseconds for
each event in it, and a microsecond only for each new event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from topology.answer.frontier import FOR_EVER
from topology.model.result import (
    CONFIRMED,
    EMIT,
    RETRACT,
    UNPROVEN,
    UNSETTLED,
    UPDATE,
    Finding,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
)
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match, Stretch
from topology.pattern.match.match_events import MatchEvent, make_match_event
from topology.pattern.run.unit import FoundMatch, MatchUnit
from topology.pattern.store.entry import Entry
from topology.pattern.tree.defaults import ends_in_negation
from topology.query.results import NO_NEWS, CurrentResult

BY_TIME: Final = itemgetter(4, 1, 2, 3)
"""The sort key of members: by time, then by source, epoch and sequence number."""

_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes."""

ORDER_OF_OPS: Final = {RETRACT: 0, UPDATE: 1, EMIT: 2}


class Change:
    """One result to emit, update or retract.

    Attributes:
        op: The operation: EMIT, UPDATE or RETRACT.
        found: The result's new content; for a retract, its last content.
        before: The content that consumers had until now; `found` if the result is new to them.
    """

    __slots__ = ("before", "final", "found", "id", "op", "revision")

    def __init__(
        self, op: str, id_: str, revision: int, before: FoundMatch, found: FoundMatch, final: bool
    ) -> None:
        self.op = op
        self.id = id_
        self.revision = revision
        self.before = before
        self.found = found
        self.final = final


def make_changes(
    unit: MatchUnit,
    visible: Mapping[str, FoundMatch],
    frontier_ns: int,
    *,
    finals_until_ns: int,
) -> Iterable[Change]:
    """Yield the changes that turn the emitted results into `visible`, and record them.

    `finals_until_ns`: an early result that is decided before this time is emitted once more when it
    becomes final. Results are retracted only by this function.
    """
    for id_, old in unit.emitted.items():
        if old.live and id_ not in visible:
            # The frontier may have moved since the unit was evaluated (`QueryLevel.advance`).
            op = old.retract(is_final=old.content.decided_ns < frontier_ns)
            yield Change(op, id_, old.revision, old.content, old.content, old.final)
    for id_, found in visible.items():
        current = unit.emitted.get(id_)
        if current is None:
            current = unit.emitted[id_] = CurrentResult(found)
        is_final = found.decided_ns < frontier_ns
        becomes_final = is_final and not current.final and found.decided_ns < finals_until_ns
        before = current.content
        is_news = becomes_final or not _is_same(before, found)
        op = current.show(found, is_news=is_news, is_final=is_final)
        if op != NO_NEWS:
            yield Change(op, id_, current.revision, before, found, is_final)


def _is_same(one: FoundMatch, other: FoundMatch) -> bool:
    if one is other:
        return True
    # The texts are compared because 1, 1.0 and true are equal in Python; most results have None.
    has_same_values = one.values is other.values or repr(one.values) == repr(other.values)
    if one.confidence != other.confidence or not has_same_values:
        return False
    was, now = one.match, other.match
    if one.row is None or other.row is None:
        return was.is_same_as(now)
    # Only SQL has rows, and it has no FOR, so both ends are times of events.
    times = (was.first.time_ns, was.last.time_ns)
    return one.row[0] == other.row[0] and times == (now.first.time_ns, now.last.time_ns)


class MatchEmitter:
    """The emitter of one level, which turns the changes of its runs into results.

    Attributes:
        matches: The changed matches that other queries read. The engine clears it.
        has_news: Whether changes or overflows wait for `flush`.
        proven_ns: The time from which results are decided only because the input ended
            (`Engine.seal`).
    """

    def __init__(self, stream: str, findings: list[Finding], read: frozenset[str]) -> None:
        """Create an emitter that appends to `findings`; queries read the match types in `read`."""
        self._stream = stream
        self._findings = findings
        self._read = read
        self.matches: list[MatchEvent] = []
        self.has_news = False
        self.proven_ns = FOR_EVER
        self._changes: list[tuple[int, Compiled, Sequence[Any], Change]] = []
        self._overflowed: list[tuple[Compiled, MatchUnit]] = []
        self._members: dict[tuple[int, str], list[Member]] = {}
        self._payloads: dict[int, list[Any]] = {}

    def take(
        self, number: int, query: Compiled, partition: Sequence[Any], changes: Iterable[Change]
    ) -> None:
        """Store changes of a query in one partition for `flush`; `number` orders the queries."""
        for change in changes:
            self._changes.append((number, query, partition, change))
        self.has_news = True

    def note_overflow(self, query: Compiled, unit: MatchUnit) -> None:
        """Record that the unit has more results than are emitted, to report it at `flush`."""
        self._overflowed.append((query, unit))
        self.has_news = True

    def forget_overflows(self) -> None:
        self._overflowed.clear()
        self.has_news = bool(self._changes)

    def flush(self, at_ns: int) -> None:
        """Append a finding for every change and overflow since the last call."""
        self.has_news = False
        if len(self._changes) > 1:
            self._changes.sort(key=_sort_key)
        for _, query, partition, change in self._changes:
            result = self._make_result(query, partition, change, at_ns)
            self._findings.append(result)
            if query.query.into in self._read:
                error_ns = change.found.match.last.event.error_ns
                self.matches.append(make_match_event(query, result, error_ns))
        self._changes.clear()
        self._members.clear()
        self._payloads.clear()
        for query, unit in self._overflowed:
            anchor = make_member(unit.anchor, "")
            shown = len(unit.found)
            self._findings.append(Overflow(at_ns, self._stream, query.name, anchor, shown))
        self._overflowed.clear()

    def _make_result(
        self, query: Compiled, partition: Sequence[Any], change: Change, at_ns: int
    ) -> MatchResult | MatchSetResult:
        match = change.found.match
        aliases = query.aliases[match.alternative]
        head = (
            at_ns,
            self._stream,
            query.name,
            change.id,
            change.op,
            change.revision,
            change.final,
            self._confidence_of(query, change),
            match.first.time_ns,
            query.end_ns(match),
        )
        # The other elements of `partition` are the types of the values.
        key = list(partition[1::2]) or None
        if query.sets is None:
            made = change.found.values
            values = query.values(match, self._payloads_of) if made is None else dict(made)
            if change.found.row is not None:
                alias, entry = change.found.row
                return MatchResult(*head, values, [make_member(entry, alias)], key)
            members = self._members_of(match, aliases)
            result = MatchResult(*head, values, members, key)
            # The first member may be part of an inner match, which started earlier.
            result.start_ns = min(result.start_ns, members[0].ref_time_ns)
            return result
        joined: list[MemberRange] = []
        if change.op == UPDATE:
            before = change.before.match.bound
            for alias, mine, known in zip(aliases, match.bound, before, strict=True):
                joined += [make_member_range(alias, run) for run in split_at_known(mine, known)]
        ranges = list(map(make_member_range, aliases, match.bound))
        return MatchSetResult(*head, {}, query.sets.count(match.bound), ranges, joined, key)

    def _confidence_of(self, query: Compiled, change: Change) -> str:
        """Return the confidence of a result, lowered if only the end of the input decides it.

        Such a result is UNPROVEN if its query waits for the decision before emitting. A result that
        is complete with its last event is UNSETTLED if it would otherwise be confirmed, and
        UNPROVEN if not.
        """
        found = change.found
        if found.decided_ns < self.proven_ns or (change.op == RETRACT and not change.final):
            return found.confidence
        if query.query.emit == "final" or ends_in_negation(query.query.node):
            return UNPROVEN
        if not change.final:
            return found.confidence
        return UNSETTLED if found.confidence == CONFIRMED else UNPROVEN

    def _members_of(self, match: Match, aliases: Sequence[str]) -> list[Member]:
        members: list[Member] = []
        newest: Entry | None = None
        in_order = True
        for alias, entries in zip(aliases, match.bound, strict=True):
            if not entries:
                continue
            if newest is not None and entries[0].key < newest.key:
                in_order = False
            newest = entries[-1]
            if type(entries) is Stretch:
                members += self._members_of_whole(entries, alias)[entries.low : entries.high]
            else:
                for entry in entries:
                    found = entry.member
                    if entry.inner is not None:
                        members += [each._replace(alias=alias) for each in entry.inner]
                        in_order = False
                        continue
                    if found is None or found.alias != alias:
                        found = make_member(entry, alias)
                    members.append(found)
        if not in_order:
            members.sort(key=BY_TIME)
        return members

    def _members_of_whole(self, stretch: Stretch, alias: str) -> list[Member]:
        known = (id(stretch.whole), alias)
        found = self._members.get(known)
        if found is None:
            found = self._members[known] = [make_member(entry, alias) for entry in stretch.whole]
        return found

    def _payloads_of(self, entries: Sequence[Entry]) -> list[Any]:
        if type(entries) is not Stretch:
            return [entry.payload for entry in entries]
        whole = self._payloads.get(id(entries.whole))
        if whole is None:
            whole = [entry.payload for entry in entries.whole]
            self._payloads[id(entries.whole)] = whole
        return whole[entries.low : entries.high]


def make_member(entry: Entry, alias: str) -> Member:
    """Return the entry as a member of a result; it is cached until the alias changes."""
    found = entry.member
    if found is None or found.alias != alias:
        found = entry.member = _new(Member, (alias, *entry.identity, entry.time_ns))
    return found


def make_member_range(alias: str, entries: Sequence[Entry]) -> MemberRange:
    return MemberRange(
        alias, len(entries), make_member(entries[0], alias), make_member(entries[-1], alias)
    )


def split_at_known(entries: Sequence[Entry], known: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries that are not in `known`, as runs split at each known entry between."""
    before = set(known)
    runs: list[list[Entry]] = [[]]
    for entry in entries:
        if entry not in before:
            runs[-1].append(entry)
        elif runs[-1]:
            runs.append([])
    return runs if runs[-1] else runs[:-1]


def _sort_key(taken: tuple[int, Compiled, Sequence[Any], Change]) -> Any:
    number, _, _, change = taken
    match, row = change.found.match, change.found.row
    at = () if row is None else row[1].key
    return (number, ORDER_OF_OPS[change.op], match.last.key, match.first.key, at, change.id)
