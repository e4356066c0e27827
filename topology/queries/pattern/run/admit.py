"""Decides which events are accepted, and stores their entries by partition.

Every event gets exactly one outcome: stored, irrelevant, late, duplicate, conflict, unsure, refused
or far (see `Admission.counts`).

The queries of a level with the same partition key form a *partition group*. Each value of the key
has a *partition index*, with one index for each filter that the group's queries use. All indexes
share the entries.

An entry stays in a partition index while it is within `reach_ns` of the frontier. That is the
longest time for which any query of the group needs it. A partition is purged when its oldest entry
is older than that by an eighth. So one purge removes many entries. A partition without entries is
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from topology.base.event import Event
from topology.base.timers import Timers
from topology.queries.pattern.compile import expression
from topology.queries.pattern.match.compiled import EVERYTHING, Compiled, EntryFilter
from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.uncertain.doubt import NO_DOUBT
from topology.queries.pattern.run.forget import close, forget, restore_retracted
from topology.queries.pattern.run.run import Agenda, Run, Wiring
from topology.queries.pattern.store.entry import Entry, Identity, Key
from topology.queries.pattern.store.index import EntryIndex

Partition = tuple[Any, ...]

STORED: Final = "stored"
IRRELEVANT: Final = "irrelevant"
EXPIRED: Final = "late"
"""The event's time is before the frontier, where results are final. Users see it as `late`."""

DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
UNSURE: Final = "unsure"
"""The event's time error is larger than the maximum (`max_error_ns`)."""

REFUSED: Final = "refused"
"""The store already contains the maximum number of entries."""

FAR: Final = "far"
"""The event's time is further than `FARTHEST_NS` from 1970."""

WORDS: Final = (STORED, IRRELEVANT, EXPIRED, DUPLICATE, CONFLICT, UNSURE, REFUSED, FAR)

FARTHEST_NS: Final = 1 << 62

NO_ENTRIES: Final = EntryIndex()
"""An index that stays empty, for queries without STRICT, PREV and NEXT."""

PURGE_SHARE: Final = 8
"""A divisor: a purge is due when the oldest entry is older than the reach by 1/8 of the reach."""

MAX_TYPES: Final = 10_000
"""The maximum number of event types whose filters are cached."""


class Admission:
    """The rules for accepting events, and the accepted entries that are still stored.

    Attributes:
        counts: The number of events by outcome.
        retained: The entries that are in some index, by identity; at most `max_retained`.
        freed: The events whose entries have left their last index, until `Engine.flush`.
    """

    def __init__(self, max_retained: int, max_error_ns: int | None) -> None:
        """Create one without entries. `max_error_ns` is None if no query uses time errors."""
        self.max_retained = max_retained
        self._max_error_ns = max_error_ns
        self.counts = dict.fromkeys(WORDS, 0)
        self.retained: dict[Identity, Entry] = {}
        self.freed: list[Event] = []

    @property
    def is_crowded(self) -> bool:
        """Whether at most an eighth of the store's capacity is left."""
        return 8 * len(self.retained) > 7 * self.max_retained

    def refusal(self, event: Event, identity: Identity, frontier_ns: int) -> str:
        """Return the outcome of an event that must not be accepted, or "" if it may be accepted.

        An event before `frontier_ns` is EXPIRED. CONFLICT only means that an entry with the same
        identity is stored; `outcome_of_known` then distinguishes a duplicate from a conflict.
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

    def outcome_of_known(self, entry: Entry) -> str:
        """Return DUPLICATE or CONFLICT for an entry whose identity is already stored."""
        is_copy = self.retained[entry.identity].is_duplicate_of(entry)
        return DUPLICATE if is_copy else CONFLICT

    def keep(self, entry: Entry) -> bool:
        """Store the entry if it is in some index, and return whether it is."""
        if entry.places:
            self.retained[entry.identity] = entry
        return entry.places > 0

    def let_go(self, entries: Iterable[Entry]) -> None:
        """Record that each entry has left one index, and free the entries that are in none."""
        for entry in entries:
            entry.places -= 1
            if not entry.places:
                del self.retained[entry.identity]
                if entry.inner is None:
                    self.freed.append(entry.event)

    def remove(self, entry: Entry) -> None:
        """Remove the entry of a retracted match, which its indexes have already dropped."""
        entry.places = 0
        self.retained.pop(entry.identity, None)


class PartitionIndex:
    """The indexes of one partition, and the runs of the group's queries in it.

    Attributes:
        newest: The largest key of all entries that were added; None if there were none.
        in_order: Whether the entry added last was the newest at that time.
    """

    __slots__ = ("in_order", "indexes", "key", "newest", "runs")

    def __init__(self, key: Partition, group: KeyedQueries) -> None:
        self.key = key
        self.indexes = [EntryIndex() for _ in group.filters]
        self.newest: Key | None = None
        self.in_order = True
        self.runs = [
            Run(each, self._place(each, group), self.indexes, key, group.agenda)
            for each in group.wirings
        ]

    def take(self, entry: Entry, filters: Sequence[int]) -> None:
        """Add the entry to these filters' indexes, and set `in_order`."""
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

    def _place(self, wiring: Wiring, group: KeyedQueries) -> Place:
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
            everything = group.everything if everywhere else index_of[EVERYTHING]
        return Place(components, blockers, everything, enders)


class KeyedQueries:
    """The queries with the same partition key, and their partitions.

    Attributes:
        unpartitioned: The number of entries without a value for the partition key.
        refused: The number of entries left out because `max_partitions` was reached.
    """

    def __init__(
        self,
        wirings: Sequence[Wiring],
        filters: Mapping[EntryFilter, Compiled],
        agenda: Agenda,
        everything: EntryIndex,
        max_partitions: int,
    ) -> None:
        """Create a group without partitions; `everything` is the level's index of all entries."""
        queries = [wiring.query for wiring in wirings]
        first = queries[0]
        self.wirings = wirings
        self.agenda = agenda
        self.everything = everything
        self._max_partitions = max_partitions
        self.strict_everywhere = any(query.shape.everywhere for query in queries)
        doubts = [wiring.doubt for wiring in wirings if wiring.doubt is not NO_DOUBT]
        self.doubt = doubts[0] if doubts else NO_DOUBT
        self._reach_ns = max(query.reach_ns for query in queries)
        self.partitions: dict[Partition, PartitionIndex] = {}
        self.unpartitioned = 0
        self.refused = 0
        self._partition = expression.partition(first.form.same) if first.form.same else None
        self.filters = list(filters)
        self._tests = [
            expression.compile_own_test(each.own, each.alias, query.environment)
            if each.own
            else None
            for each, query in filters.items()
        ]
        self._is_tested = any(test is not None for test in self._tests)
        self._by_type: dict[str, list[int]] = {}
        self._timers: Timers[PartitionIndex] = Timers()

    @property
    def reach_ns(self) -> int:
        """The time for which an entry is kept after its own timestamp.

        It includes three error margins: the first for the delay until a match is decided. The
        second allows the match's events to be further apart than the window. The third is for
        earlier events that put the match in doubt.
        """
        return self._reach_ns + 3 * self.doubt.margin_ns

    def filters_of(self, entry: Entry) -> list[int]:
        """Return the numbers of the filters that the entry passes."""
        known = self._by_type.get(entry.type)
        if known is None:
            known = self._find_filters(entry.type)
        if not self._is_tested:
            return known
        tests = self._tests
        return [n for n in known if (test := tests[n]) is None or test(entry)]

    def uses_type(self, type_: str) -> bool:
        """Return whether any query of the group may use an event of this type."""
        return self.strict_everywhere or bool(self._find_filters(type_))

    def _find_filters(self, type_: str) -> list[int]:
        """Return the numbers of the filters that accept the event type, and cache them."""
        filters = enumerate(self.filters)
        known = [n for n, each in filters if not each.types or type_ in each.types]
        if len(self._by_type) < MAX_TYPES:
            self._by_type[type_] = known
        return known

    def put(self, entry: Entry, filters: Sequence[int]) -> PartitionIndex | None:
        """Add the entry to its partition index and return that index; None if it has none."""
        partition = self._make_partition(entry) if filters else None
        if partition is None:
            return None
        partition.take(entry, filters)
        if entry.event.error_ns:
            for number in filters:
                partition.indexes[number].note_error(entry)
        return partition

    def known_partition_of(self, entry: Entry) -> PartitionIndex | None:
        """Return the existing partition index for the entry's key, or None if there is none."""
        if self._partition is None:
            return self.partitions.get(())
        key = self._partition(entry)
        return None if key is None else self.partitions.get(key)

    def find_affected_runs(self, entry: Entry) -> list[Run]:
        """Return the runs that the entry may affect.

        These are the runs of its partition, and all runs with a STRICT step that looks at every
        partition.
        """
        partition = self.known_partition_of(entry)
        runs = dict.fromkeys(() if partition is None else partition.runs)
        if self.strict_everywhere:
            runs |= dict.fromkeys(run for run in self.runs() if run.query.shape.everywhere)
        return list(runs)

    def remove(self, entry: Entry) -> None:
        """Remove the entry from all indexes that contain it."""
        partition = self.known_partition_of(entry)
        if partition is not None:
            for number in self.filters_of(entry):
                partition.indexes[number].remove(entry)

    def restore_retracted(self, entry: Entry, state: dict[str, Any]) -> None:
        """Restore the results found from a match that was retracted before the state was written.

        The rows of these results are taken out of `state`.
        """
        partition = self._make_partition(entry) if self.filters_of(entry) else None
        if partition is not None:
            for run in partition.runs:
                restore_retracted(run, entry, state)

    def _make_partition(self, entry: Entry) -> PartitionIndex | None:
        """Return the entry's partition index, and create it if needed.

        Return None if the entry has no value for the key, or if `max_partitions` is reached.
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
        """The frontier from which `purge` has something to do."""
        return self._timers.next_ns

    def purge(self, frontier_ns: int, *, is_whole: bool) -> list[Entry]:
        """Remove the entries that no event at or after `frontier_ns` can need.

        `is_whole`: purge every partition, not only those with enough old entries.

        Return the removed entries; each occurs once for every index that contained it.
        """
        left: list[Entry] = []
        reach_ns = self.reach_ns
        since_ns = frontier_ns - reach_ns
        due = self._timers.due(frontier_ns)
        for partition in list(self.partitions.values()) if is_whole else due:
            for run in partition.runs:
                forget(run)
            oldest_ns: int | None = None
            for index in partition.indexes:
                times = index.times
                if times and times[0] < since_ns and (is_whole or index.is_purge_due(since_ns)):
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
                    close(run)
        return left


def find_filters(queries: Iterable[Compiled]) -> dict[EntryFilter, Compiled]:
    """Return the filters that the queries use, each with the first query that uses it."""
    filters: dict[EntryFilter, Compiled] = {}
    for query in queries:
        wanted = [*query.filters.values(), *query.untils.values()]
        if query.shape.strict and not query.shape.everywhere:
            wanted.append(EVERYTHING)
        for each in wanted:
            filters.setdefault(each, query)
    return filters


def group_by_partition(queries: Sequence[Compiled]) -> list[list[tuple[int, Compiled]]]:
    """Return the queries grouped by partition key, each with its position in `queries`."""
    groups: dict[Any, list[tuple[int, Compiled]]] = {}
    for number, query in enumerate(queries):
        groups.setdefault(query.form.same, []).append((number, query))
    return list(groups.values())
