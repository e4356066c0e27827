"""Counts the work of a sink's process, and exposes it to Prometheus (`inorder_sink_*`).

    records_total            records read from the topic
    written_total{op}        results that the sink accepted, including duplicates and outdated ones
    dead_total{reason}       records that are not results, and those the store can never accept
    control_total            control records, which are skipped
    expired_total            records that the topic deleted before they were read
    refills_total            partitions that are read again, because the store had lost results
    waits_total              number of waits for the store or the side topic
    commit_failures_total    offsets that could not be committed; their records are read again
    waiting                  1 while the sink waits

Between two batches records = written + dead + control. Labels have fixed sets of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True)
class Counts:
    """The counts of a sink; `trouble` is the reason why the sink waits, or empty if it does not."""

    records: int = 0
    written: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    control: int = 0
    expired: int = 0
    refills: int = 0
    waits: int = 0
    commit_failures: int = 0
    trouble: str = ""


class SinkCollector(Collector):
    """A Prometheus collector of the counts, which any thread may read."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        counts = self._counts
        yield _make_counter("records", "Records read", counts.records)
        yield _make_labeled_counter(
            "written", "Results that the sink accepted", "op", counts.written
        )
        yield _make_labeled_counter(
            "dead", "Records reported as dead letters", "reason", counts.dead
        )
        yield _make_counter("control", "Control records skipped", counts.control)
        yield _make_counter("expired", "Records deleted before they were read", counts.expired)
        yield _make_counter(
            "refills", "Partitions read again for a store that lost results", counts.refills
        )
        yield _make_counter("waits", "Waits for the store", counts.waits)
        yield _make_counter("commit_failures", "Offsets not committed", counts.commit_failures)
        waiting = float(bool(counts.trouble))
        yield GaugeMetricFamily(
            "inorder_sink_waiting", "Whether the sink waits for the store", value=waiting
        )


def _make_counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"inorder_sink_{name}", text, value=value)


def _make_labeled_counter(name: str, text: str, label: str, values: Counter[str]) -> Metric:
    family = CounterMetricFamily(f"inorder_sink_{name}", text, labels=[label])
    for each, value in values.copy().items():
        family.add_metric([each], value)
    return family
