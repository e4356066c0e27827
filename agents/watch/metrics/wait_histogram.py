"""The family of how long events were held, written out when Prometheus asks.

A histogram of the client library costs a lock and a search in Python for each
observation, at a hundred thousand events a second a fair share of a core. So waits are counted
apart (agents.watch.metrics.wait_counts), and the families are built at the scrape, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from agents.watch.metrics.wait_counts import EDGES_MS, WaitCounts

_BOUNDS: Final = (*(str(edge / 1000) for edge in EDGES_MS), "+Inf")


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

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """One family with all children; called at each scrape."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, waits in list(self._children.items()):
            buckets = list(zip(_BOUNDS, accumulate(waits.counts), strict=True))
            family.add_metric(values, buckets, waits.sum_ns / 1e9)
        yield family
