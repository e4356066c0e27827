"""The family of how long events were held, written out when Prometheus asks.

A histogram of the client library costs a lock and a search in Python for each
observation, at a hundred thousand events a second a fair share of a core. So waits are counted
apart (agents.watch.metrics.wait_counts), and the families are built at the scrape, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily

from agents.watch.metrics.wait_counts import EDGES_MS, WaitCounts

_BOUNDS: Final = (*(str(edge / 1000) for edge in EDGES_MS), "+Inf")


def wait_family(stage: str, waits: Mapping[str, WaitCounts]) -> HistogramMetricFamily:
    """Return the family of a stage, from the counts of its streams."""
    text = "Time of an event from arrival to emission, in seconds"
    family = HistogramMetricFamily("inorder_wait_seconds", text, labels=("stage", "stream"))
    for stream, counts in list(waits.items()):
        buckets = list(zip(_BOUNDS, accumulate(counts.counts), strict=True))
        family.add_metric((stage, stream), buckets, counts.sum_ns / 1e9)
    return family
