"""Which sources are late the most: counters by source, for few of them.

A label for each source would make as many series as there are sources, so only the `TOLD` that are
late most often are told, of all partitions of a process. Which these are is kept in a table of
`COUNTED` sources (`agents.watch.frequent`), for each partition of each topic.

    inorder_source_late_total{stage, stream, source}    what was late of it
    inorder_source_read_total{stage, stream, source}    all that came of it

Both count from the first late event of the source on, to a batch; where more than `COUNTED` sources
of a partition are late, one may lose its place to another, and both begin anew when it comes back.
So their rates divided are the share late of a source, and `late` is what is certain: at least so
many were late since the partition was opened. Which sources are told changes, so a series may end
and begin anew.

Cost: O(late events); nothing for what is in order. Memory: `COUNTED` entries a partition, 2 MB.

Proved by: tests/agents/watch/test_late_sources.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import Final

from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from agents.watch.frequent import Frequent, Source

TOLD: Final = 20
COUNTED: Final = 4_000
LONGEST_NAME: Final = 120
"""Characters of a source's name in a label."""

LABELS: Final = ("stage", "stream", "source")

Read = Callable[[str, str], int]
"""From stream and source to how many events came of it; 0: unknown."""


def no_reading(_: str, __: str) -> int:
    """For a stage that counts no sources."""
    return 0


class LateTable:
    """One partition's."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.counts = Frequent(COUNTED)

    def note(self, late: Iterable[Source]) -> None:
        for source in late:
            named = self.counts.note(source)
            if named.times == 1:
                named.mark = max(0, self.read(*source) - 1)  # read before this one

    def worst(self) -> list[tuple[int, Source, int]]:
        """(late, source, read) of the TOLD that are late most often; not of those that have been
        forgotten."""
        found = []
        for late, source in self.counts.worst(TOLD):
            read = self.read(*source)
            if read:
                named = self.counts.of(source)
                if read < named.mark:  # forgotten since, and come anew
                    named.mark = 0
                found.append((late, source, read - named.mark))
        return found


Place = tuple[str, TopicPartition]
"""The stage, and what it reads: partition 0 of one topic is not that of another."""


class LateSources(Collector):
    """Those of a process, by place."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tables: dict[Place, LateTable] = {}
        registry.register(self)

    def table(self, place: Place, read: Read) -> LateTable:
        """A fresh one in that place."""
        made = self._tables[place] = LateTable(read)
        return made

    def forget(self, place: Place) -> None:
        gone = self._tables.pop(place, None)
        if gone is not None:
            gone.read = no_reading  # who still has the table does not keep what it read from

    def describe(self) -> Iterable[CounterMetricFamily]:
        """What `collect` will yield, without the counts."""
        return self._families()

    def collect(self) -> Iterator[CounterMetricFamily]:
        late, read = self._families()
        found = [
            (each, stage)
            for (stage, _), table in list(self._tables.items())
            for each in table.worst()
        ]
        told: dict[tuple[str, str, str], tuple[int, int]] = {}
        for (late_count, (stream, source), read_count), stage in nlargest(TOLD, found):
            labels = (stage, stream, source[:LONGEST_NAME])
            before = told.get(labels, (0, 0))  # a source that comes by several partitions
            told[labels] = before[0] + late_count, before[1] + read_count
        for labels, (late_count, read_count) in told.items():
            late.add_metric(labels, late_count)
            read.add_metric(labels, read_count)
        yield late
        yield read

    def _families(self) -> tuple[CounterMetricFamily, CounterMetricFamily]:
        return (
            CounterMetricFamily("inorder_source_late", "Late events of a source", labels=LABELS),
            CounterMetricFamily("inorder_source_read", "Events of it in all", labels=LABELS),
        )
