"""Decides which events are accepted, and keeps their entries by partition.

In = stored + irrelevant + late + duplicate + conflict + unsure + refused + far (see `counts`).

Queries with the same partition key form a *partition group*. Each value of the key has a *partition
index*: one index for each filter that any of the queries uses. Entries themselves exist once.

An entry stays in a partition index while it is within `reach` of any query of the group. A
partition index stays while it has entries. It is purged when its oldest entry has outlived the
reach by an eighth, so the cost is amortised over many entries. Before errors grow, and the reach
with them, everything beyond the reach is purged. So results do not depend on how far a purge had
come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from topology.model.event import Event
from topology.model.timers import Timers
from topology.pattern.compile import expression
from topology.pattern.match.compiled import EVERYTHING, Compiled, EntryFilter
from topology.pattern.match.evaluation import Place
from topology.pattern.match.uncertain.doubt import NO_DOUBT
from topology.pattern.run.query import PartitionQuery, RunContext, Wiring
from topology.pattern.run.run import Run
from topology.pattern.store.entry import Entry, Identity, Key
from topology.pattern.store.index import EntryIndex

Partition = tuple[Any, ...]

STORED: Final = "stored"
IRRELEVANT: Final = "irrelevant"
EXPIRED: Final = "late"
"""The event's time is below the frontier: its results are final. Users see it as `late`."""

DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
UNSURE: Final = "unsure"
"""The event's error is larger than `max_error_ns`."""

REFUSED: Final = "refused"
"""The store already retains the largest allowed number of entries."""

FAR: Final = "far"
"""The event's time is beyond `FARTHEST_NS`."""

WORDS: Final = (STORED, IRRELEVANT, EXPIRED, DUPLICATE, CONFLICT, UNSURE, REFUSED, FAR)

FARTHEST_NS: Final = 1 << 62

NO_ENTRIES: Final = EntryIndex()
"""An index that stays empty, for queries without a STRICT step."""

PURGE_SHARE: Final = 8
"""A purge is due when the oldest entry is beyond the reach by one part in this many of it."""

MAX_TYPES: Final = 10_000
"""Event types whose filters are remembered; those beyond are looked up each time."""


class Admission:
    """The rules for accepting events, and the entries retained.

    `retained`: the entries that some index holds, by identity, at most `max_retained` of them.
    `freed`: the entries that nothing holds any more. The caller that drives the engine empties it.
    """

    def __init__(self, max_retained: int, max_error_ns: int | None) -> None:
        """Make it with nothing retained. `max_error_ns`: None if no query uses time errors."""
        self.max_retained = max_retained
        self._max_error_ns = max_error_ns
        self.counts = dict.fromkeys(WORDS, 0)
        self.retained: dict[Identity, Entry] = {}
        self.freed: list[Entry] = []

    @property
    def is_crowded(self) -> bool:
        """Whether at most an eighth of the room for entries is left."""
        return 8 * len(self.retained) > 7 * self.max_retained

    def refusal(self, event: Event, identity: Identity, frontier_ns: int) -> str:
        """Return the outcome of an event that is not accepted; empty if it is accepted.

        An event before `frontier_ns` is EXPIRED. CONFLICT only says that an entry of the same
        identity is retained (`of_known` tells whether it is a duplicate).
        """
        if identity in self.retained:
            return CONFLICT
        time_ns = event.ref_time_ns
        if time_ns < frontier_ns:
            return EXPIRED
        if not -FARTHEST_NS <= time_ns <= FARTHEST_NS:
            return FAR
        if self._max_error_ns is not None and event.error_ns > self._max_error_ns:
            return UNSURE
        return REFUSED if len(self.retained) >= self.max_retained else ""

    def of_known(self, entry: Entry) -> str:
        """Return DUPLICATE or CONFLICT for an entry whose identity is retained already."""
        is_copy = self.retained[entry.identity].is_copy_of(entry)
        return DUPLICATE if is_copy else CONFLICT

    def keep(self, entry: Entry) -> bool:
        """Retain an entry if any index holds it, and return whether one does."""
        if entry.places:
            self.retained[entry.identity] = entry
        return entry.places > 0

    def let_go(self, entries: Iterable[Entry]) -> None:
        """Record that each entry has left one index, and free those that no index holds."""
        for entry in entries:
            entry.places -= 1
            if not entry.places:
                del self.retained[entry.identity]
                if entry.inner is None:
                    self.freed.append(entry)

    def take_out(self, entry: Entry) -> None:
        """Remove an entry that no index holds any more and that no query asks for again."""
        entry.places = 0
        self.retained.pop(entry.identity, None)


class PartitionIndex:
    """The entries of one partition.

    Attributes:
        newest: The largest key that was put into it, None if there was none.
        in_order: Whether the last entry that was put into it had that key.
    """

    __slots__ = ("in_order", "indexes", "key", "newest", "runs")

    def __init__(self, key: Partition, group: PartitionGroup) -> None:
        self.key = key
        self.indexes = [EntryIndex() for _ in group.filters]
        self.newest: Key | None = None
        self.in_order = True
        self.runs = [
            Run(PartitionQuery(each, self._place(each, group), self.indexes, key, group.context))
            for each in group.wirings
        ]

    def take(self, entry: Entry, filters: Sequence[int]) -> bool:
        """Put the entry into the indexes of these filters; return whether it is the newest."""
        indexes, newest = self.indexes, self.newest
        in_order = self.in_order = newest is None or entry.key > newest
        if in_order:
            self.newest = entry.key
            for number in filters:
                indexes[number].append(entry)
        else:
            for number in filters:
                indexes[number].add(entry)
        entry.places += len(filters)
        return in_order

    def _place(self, wiring: Wiring, group: PartitionGroup) -> Place:
        query = wiring.query
        index_of = dict(zip(group.filters, self.indexes, strict=True))
        components, blockers = [], []
        for a in query.form.alternatives:
            slots = range(len(a.components) + len(a.blockers))
            found = [index_of[query.filters[a.number, slot]] for slot in slots]
            components.append(found[: len(a.components)])
            blockers.append(found[len(a.components) :])
        enders = {slot: index_of[each] for slot, each in query.untils.items()}
        everything = NO_ENTRIES
        if query.shape.strict:
            everywhere = query.shape.everywhere
            everything = group.context.everything if everywhere else index_of[EVERYTHING]
        return Place(components, blockers, everything, enders)


class PartitionGroup:
    """The queries with the same partition key, and their partitions.

    `unpartitioned` counts the entries that lack a value of the key. `refused` counts the entries of
    keys beyond `max_partitions`.
    """

    def __init__(
        self, queries: Sequence[tuple[int, Compiled]], context: RunContext, max_partitions: int
    ) -> None:
        first = queries[0][1]
        self.context = context
        self._max_partitions = max_partitions
        self.strict_everywhere = any(query.shape.everywhere for _, query in queries)
        graded = any(query.grading is not None for _, query in queries)
        self.doubt = context.doubt if graded else NO_DOUBT
        self._reach_ns = max(query.reach_ns for _, query in queries)
        self.partitions: dict[Partition, PartitionIndex] = {}
        self.unpartitioned = 0
        self.refused = 0
        self._partition = expression.partition(first.form.same) if first.form.same else None
        asked: dict[EntryFilter, Compiled] = {}
        for _, query in queries:
            wanted = [*query.filters.values(), *query.untils.values()]
            if query.shape.strict and not query.shape.everywhere:
                wanted.append(EVERYTHING)
            for each in wanted:
                asked.setdefault(each, query)
        self.filters = list(asked)
        self.wirings = [Wiring(number, query, self.filters) for number, query in queries]
        self._tests = [
            expression.own(each.own, each.alias, query.environment) if each.own else None
            for each, query in asked.items()
        ]
        self._is_tested = any(test is not None for test in self._tests)
        self._by_type: dict[str, list[int]] = {}
        self._timers: Timers[PartitionIndex] = Timers()

    @property
    def reach_ns(self) -> int:
        """The time for which an entry is kept after its own time.

        It includes three margins. A match is decided one margin later. Its events may be another
        margin further apart than the window, and the events that put it in doubt another margin
        earlier.
        """
        return self._reach_ns + 3 * self.doubt.margin_ns

    def filters_of(self, entry: Entry) -> list[int]:
        """Return the numbers of the filters that the entry passes."""
        known = self._by_type.get(entry.type)
        if known is None:
            known = self._remember(entry.type)
        if not self._is_tested:
            return known
        tests = self._tests
        return [n for n in known if (test := tests[n]) is None or test(entry)]

    def asks_for(self, type_: str) -> bool:
        """Return whether any filter may take an event of this type."""
        return self.strict_everywhere or bool(self._remember(type_))

    def _remember(self, type_: str) -> list[int]:
        """Return and remember the numbers of the filters that an event of the type may pass."""
        filters = enumerate(self.filters)
        known = [n for n, each in filters if not each.types or type_ in each.types]
        if len(self._by_type) < MAX_TYPES:
            self._by_type[type_] = known
        return known

    def put(self, entry: Entry, filters: Sequence[int]) -> PartitionIndex | None:
        """Put the entry into its partition index, and return that index."""
        partition = self._partition_of(entry) if filters else None
        if partition is None:
            return None
        partition.take(entry, filters)
        if entry.event.error_ns:
            for number in filters:
                partition.indexes[number].note_error(entry)
        return partition

    def known_partition_of(self, entry: Entry) -> PartitionIndex | None:
        """Return the entry's partition index; None if it has none or would be its first entry."""
        if self._partition is None:
            return self.partitions.get(())
        key = self._partition(entry)
        return None if key is None else self.partitions.get(key)

    def runs_around(self, entry: Entry) -> list[Run]:
        """Return the runs that the entry may concern.

        These are the runs of its partition, and all runs with a STRICT step that looks at every
        partition.
        """
        partition = self.known_partition_of(entry)
        runs = dict.fromkeys(() if partition is None else partition.runs)
        if self.strict_everywhere:
            runs |= dict.fromkeys(run for run in self.runs() if run.query.shape.everywhere)
        return list(runs)

    def take_out(self, entry: Entry) -> None:
        """Remove the entry from the indexes that hold it."""
        partition = self.known_partition_of(entry)
        if partition is not None:
            for number in self.filters_of(entry):
                partition.indexes[number].remove(entry)

    def recall(self, entry: Entry, state: dict[str, Any]) -> None:
        """Take from the state the results of an entry removed before the state was written."""
        partition = self._partition_of(entry) if self.filters_of(entry) else None
        if partition is not None:
            for run in partition.runs:
                run.recall(entry, state)

    def _partition_of(self, entry: Entry) -> PartitionIndex | None:
        """Return the entry's partition index, and make it if there is none.

        Return None if the entry has no value for the key, or if there is no room for another key.
        """
        key = () if self._partition is None else self._partition(entry)
        if key is None:
            self.unpartitioned += 1
            return None
        found = self.partitions.get(key)
        if found is None:
            if len(self.partitions) >= self._max_partitions:
                self.refused += 1
                return None
            found = self.partitions[key] = PartitionIndex(key, self)
            reach_ns = self.reach_ns
            self._timers.arm(found, entry.time_ns + reach_ns + reach_ns // PURGE_SHARE)
        return found

    def runs(self) -> list[Run]:
        return [run for partition in self.partitions.values() for run in partition.runs]

    @property
    def purge_ns(self) -> int:
        """The frontier at which a partition index has enough entries to purge."""
        return self._timers.next_ns

    def purge(self, frontier_ns: int, *, is_whole: bool) -> list[Entry]:
        """Remove the entries that no event can reach when all before `frontier_ns` is decided.

        `is_whole`: purge each partition, not only those with enough entries.

        Return the entries that left, each once for every index that it was in.
        """
        left: list[Entry] = []
        reach_ns = self.reach_ns
        since_ns = frontier_ns - reach_ns
        due = self._timers.due(frontier_ns)
        for partition in list(self.partitions.values()) if is_whole else due:
            for run in partition.runs:
                run.forget()
            oldest_ns: int | None = None
            for index in partition.indexes:
                times = index.times
                if times and times[0] < since_ns and (is_whole or index.has_enough(since_ns)):
                    left += index.purge(since_ns)
                if times and (oldest_ns is None or times[0] < oldest_ns):
                    oldest_ns = times[0]
            if oldest_ns is not None:
                due_ns = max(oldest_ns, since_ns) + reach_ns + reach_ns // PURGE_SHARE
                self._timers.arm(partition, due_ns)
            else:
                self._timers.disarm(partition)
                del self.partitions[partition.key]
                for run in partition.runs:
                    run.close()
        return left


def alike(queries: Sequence[Compiled]) -> list[list[tuple[int, Compiled]]]:
    """Return the queries by partition key, each with its place among all."""
    groups: dict[Any, list[tuple[int, Compiled]]] = {}
    for number, query in enumerate(queries):
        groups.setdefault(query.form.same, []).append((number, query))
    return list(groups.values())
