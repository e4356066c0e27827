"""Changes as results: the values, and the members with their aliases, of what there is to tell.

Matches of one unit hold long groups as stretches of shared copies (`match.Stretch`), so what is
told of the copy is made once and cut for each match: telling a match costs 8 bytes and a few
nanoseconds for each event in it, and a microsecond only for each event that is new.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from topology.model.result import MatchResult, Member
from topology.pattern.match.match import Match, Stretch
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.ledger import Change
from topology.pattern.store.entry import Entry

BY_TIME: Final = itemgetter(4, 1, 2, 3)
"""The order of everything, of members."""


class Teller:
    """Makes the results of one step; `forget` lets go of the copies when they are made."""

    __slots__ = ("_members", "_payloads", "_stream")

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._members: dict[tuple[int, str], list[Member]] = {}
        self._payloads: dict[int, list[Any]] = {}

    def forget(self) -> None:
        self._members.clear()
        self._payloads.clear()

    def result(
        self, query: Compiled, change: Change, key: list[Any] | None, at_ns: int, *, amended: bool
    ) -> MatchResult:
        match = change.found.match
        return MatchResult(
            at_ns,
            self._stream,
            query.name,
            change.id,
            change.op,
            change.revision,
            change.final,
            change.found.confidence,
            match.first.time_ns,
            match.last.time_ns,
            query.values(match, self._payloads_of),
            self._members_of(match, query.aliases[match.alternative]),
            key,
            amended,
        )

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
                members += [member(entry, alias) for entry in entries]
        if not in_order:
            members.sort(key=BY_TIME)
        return members

    def _members_of_whole(self, stretch: Stretch, alias: str) -> list[Member]:
        known = (id(stretch.whole), alias)
        found = self._members.get(known)
        if found is None:
            found = self._members[known] = [member(entry, alias) for entry in stretch.whole]
        return found

    def _payloads_of(self, entries: Sequence[Entry]) -> list[Any]:
        if type(entries) is not Stretch:
            return [entry.payload for entry in entries]
        whole = self._payloads.get(id(entries.whole))
        if whole is None:
            whole = [entry.payload for entry in entries.whole]
            self._payloads[id(entries.whole)] = whole
        return whole[entries.low : entries.high]


def member(entry: Entry, alias: str) -> Member:
    """Made once for an entry, as long as it is told under one alias."""
    told: Member | None = entry.member
    if told is None or told.alias != alias:
        event = entry.event
        told = Member(alias, event.source, event.epoch, event.seq, entry.time_ns)
        entry.member = told
    return told
