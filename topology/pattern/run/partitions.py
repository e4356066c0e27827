"""The store that queries share: indexes by partition and kind (patterns.md 3.1, 3.4).

Queries that partition alike, and hold events alike long after the frontier, form a
*hall*; each key of it has a *shelf*, with one index for each kind of entry that any of the
queries asks for. Entries themselves exist once.

An entry stays on a shelf while `reach` of any query of the hall goes back to it, and a shelf
while it has entries. Purging is by shelf, when its oldest entry has outlived the reach by an
eighth, so its cost is amortised over many entries.

Proved by: tests/topology/pattern/test_engine_laws.py,
tests/topology/pattern/test_published_cases.py
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from topology.model.timers import Timers
from topology.pattern.compile import expression
from topology.pattern.match.evaluation import Place
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.compiled import EVERYTHING, Compiled, Kind, entry_test
from topology.pattern.run.ledger import Now
from topology.pattern.run.run import Run
from topology.pattern.run.wiring import Wiring
from topology.pattern.store.entry import Entry, Key
from topology.pattern.store.index import Index

Partition = tuple[Any, ...]

PURGE_SHARE: Final = 8
"""A shelf is purged when its oldest entry is this part of the reach beyond it."""

MAX_TYPES: Final = 10_000
"""Event types whose kinds are remembered; those beyond are looked up each time."""


class Shelf:
    """The entries of one partition. `newest` is the largest key ever put on it."""

    __slots__ = ("indexes", "key", "newest", "runs")

    def __init__(self, key: Partition, hall: Hall) -> None:
        self.key = key
        self.indexes = [Index() for _ in hall.kinds]
        self.newest: Key | None = None
        self.runs = [
            Run(
                wiring,
                self._place(wiring, hall),
                self.indexes,
                key,
                hall.doubt,
                tells_final=wiring.query.name in hall.tells_final,
            )
            for wiring in hall.wirings
        ]

    def _place(self, wiring: Wiring, hall: Hall) -> Place:
        query = wiring.query
        components, blockers, enders = [], [], []
        for a in query.form.alternatives:
            slots = range(len(a.components) + len(a.blockers))
            found = [self._index(query.kinds[a.number, slot], hall) for slot in slots]
            components.append(found[: len(a.components)])
            blockers.append(found[len(a.components) :])
            untils = [query.untils.get((a.number, c.index)) for c in a.components]
            enders.append([None if kind is None else self._index(kind, hall) for kind in untils])
        everything = None
        if query.shape.strict:
            everywhere = query.shape.everywhere
            everything = hall.all_entries if everywhere else self._index(EVERYTHING, hall)
        return Place(components, blockers, everything, enders)

    def _index(self, kind: Kind, hall: Hall) -> Index:
        return self.indexes[hall.kinds.index(kind)]


class Hall:
    """Queries with the same partition key and the same patience with late events."""

    def __init__(
        self,
        queries: Sequence[tuple[int, Compiled]],
        all_entries: Index | None,
        tells_final: Collection[str],
        doubt: Doubt,
    ) -> None:
        first = queries[0][1]
        self.amend_ns = first.query.amend_ns
        self.all_entries = all_entries
        self.tells_final = tells_final
        self.strict_everywhere = any(query.shape.everywhere for _, query in queries)
        graded = any(query.grading is not None for _, query in queries)
        self.doubt = doubt if graded else NO_DOUBT
        self._reach_ns = max(query.reach_ns for _, query in queries)
        self.shelves: dict[Partition, Shelf] = {}
        self.unpartitioned = 0  # entries that lack a value of the key
        self.refused = 0  # entries of keys beyond `max_partitions`
        self._closed: dict[str, None] = {}  # state keys of units that are no more
        self._partition = expression.partition(first.form.same) if first.form.same else None
        asked: dict[Kind, Compiled] = {}
        for _, query in queries:
            wanted = [*query.kinds.values(), *query.untils.values()]
            if query.shape.strict and not query.shape.everywhere:
                wanted.append(EVERYTHING)
            for kind in wanted:
                asked.setdefault(kind, query)
        self.kinds = list(asked)
        self.wirings = [Wiring(number, query, self.kinds) for number, query in queries]
        self._tests = [entry_test(kind, query.environment) for kind, query in asked.items()]
        self._by_type: dict[str, list[tuple[int, Any]]] = {}
        self._timers: Timers[Shelf] = Timers()

    @property
    def reach_ns(self) -> int:
        """One margin until a match is decided; its events may lie another further apart than the
        window, and what puts it in doubt another before these."""
        return self._reach_ns + 3 * self.doubt.margin_ns

    def key_of(self, entry: Entry) -> Partition | None:
        """Where the entry belongs; None if it has no value for the key."""
        return () if self._partition is None else self._partition(entry)

    def kinds_of(self, entry: Entry) -> list[int]:
        """The kinds the entry is of, by number."""
        tests = self._by_type.get(entry.type)
        if tests is None:
            tests = self._remember(entry.type)
        return [kind for kind, test in tests if test is None or test(entry)]

    def _remember(self, type_: str) -> list[tuple[int, Callable[[Entry], bool | None] | None]]:
        tests = [
            (number, self._tests[number])
            for number, kind in enumerate(self.kinds)
            if not kind.types or type_ in kind.types
        ]
        if len(self._by_type) < MAX_TYPES:
            self._by_type[type_] = tests
        return tests

    def shelf(self, key: Partition) -> Shelf:
        found = self.shelves.get(key)
        if found is None:
            found = self.shelves[key] = Shelf(key, self)
        return found

    def put(self, entry: Entry, kinds: Sequence[int], shelf: Shelf) -> None:
        if all(not index.times for index in shelf.indexes):
            self._schedule(shelf, entry.time_ns)
        for kind in kinds:
            shelf.indexes[kind].add(entry)
        entry.places += len(kinds)
        if shelf.newest is None or entry.key > shelf.newest:
            shelf.newest = entry.key

    def _schedule(self, shelf: Shelf, oldest_ns: int) -> None:
        self._timers.arm(shelf, oldest_ns + self.reach_ns + self.reach_ns // PURGE_SHARE)

    def is_due(self, floor_ns: int) -> bool:
        """A shelf has enough to let go of."""
        return self._timers.next_ns < floor_ns

    def purge(self, floor_ns: int, now: Now) -> list[Entry]:
        """Let go of what is beyond all reach, now that all before `floor_ns` is decided: the
        entries, each once for every index that it left."""
        gone: list[Entry] = []
        for shelf in self._timers.due(floor_ns):
            for index in shelf.indexes:
                gone += index.purge(floor_ns - self.reach_ns)
            for run in shelf.runs:
                run.forget(now)
                self._closed.update(run.take_closed())
            times = [index.times[0] for index in shelf.indexes if index.times]
            if times:
                self._schedule(shelf, max(min(times), floor_ns - self.reach_ns))
            else:
                del self.shelves[shelf.key]
                for run in shelf.runs:
                    self._closed.update(run.close())
        return gone

    def take_closed(self) -> dict[str, None]:
        closed, self._closed = self._closed, {}
        return closed


def alike(queries: Sequence[Compiled]) -> list[list[tuple[int, Compiled]]]:
    """The queries that can share a hall, with their places among all."""
    groups: dict[Any, list[tuple[int, Compiled]]] = {}
    for number, query in enumerate(queries):
        alike = (query.form.same, query.query.amend_ns)
        groups.setdefault(alike, []).append((number, query))
    return list(groups.values())
