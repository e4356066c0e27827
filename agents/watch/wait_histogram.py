"""How long events were held, counted cheaply and written out when Prometheus asks.

A histogram of the client library costs a lock and a search in Python for each
observation, at a hundred thousand events a second a fair share of a core. Here a batch
is sorted and counted bucket by bucket, and the families are built at the scrape. Waits are
nanoseconds in, seconds out. The first bucket is 0: events that were not held at all.

Proved by: tests/agents/watch/test_metrics.py
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

EDGES_MS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000)
_EDGES_NS: Final = tuple(edge * 1_000_000 for edge in EDGES_MS)
_BOUNDS: Final = (*(str(edge / 1000) for edge in EDGES_MS), "+Inf")


class WaitCounts:
    """The counts of one set of labels."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum_ns = 0

    def observe(self, waits_ns: Sequence[int]) -> None:
        """A wait below 0 counts as 0."""
        waits_ns = sorted(waits_ns)
        counts = self.counts
        begin = bisect_right(waits_ns, 0)
        counts[0] += begin
        self.sum_ns += sum(waits_ns[begin:])
        for bucket, edge_ns in enumerate(_EDGES_NS[1:], start=1):
            if begin == len(waits_ns):
                return
            end = bisect_right(waits_ns, edge_ns, begin)
            counts[bucket] += end - begin
            begin = end
        counts[-1] += len(waits_ns) - begin


class WaitHistogram(Collector):
    """A histogram family whose children are `WaitCounts`."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._children: dict[tuple[str, ...], WaitCounts] = {}
        registry.register(self)

    def child(self, *values: str) -> WaitCounts:
        """The counts under these label values, one for each label."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has labels {self._labels}, not {values}")
        return self._children.setdefault(values, WaitCounts())

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """What `collect` will yield, without the counts."""
        return [HistogramMetricFamily(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """One family with all children; called at each scrape."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, waits in list(self._children.items()):
            buckets = list(zip(_BOUNDS, accumulate(waits.counts), strict=True))
            family.add_metric(values, buckets, waits.sum_ns / 1e9)
        yield family
