"""The figures of running queries for Prometheus.

| metric                                | says                                                |
|---------------------------------------|-----------------------------------------------------|
| `inorder_spark_batches_total`         | batches since the start                             |
| `inorder_spark_rows_total`            | rows that they read                                 |
| `inorder_spark_batch_seconds_total`   | how long they took together                         |
| `inorder_spark_last_batch_seconds`    | how long the last one took                          |
| `inorder_spark_lag_records`           | what the slowest partition had beyond what was read |
| `inorder_spark_state_rows`, `_bytes`  | open windows and the like                           |
| `inorder_spark_dropped_rows_total`    | dropped by the watermark; above 0 the job ends      |
| `inorder_spark_late_rows_total`       | marked late, where the query counts them            |
| `inorder_spark_bad_rows_total`        | unreadable, where the query counts them             |

The only label is the query's name: as many as the job has tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from spark_analytics.jobs.watching import Figures

PREFIX: Final = "inorder_spark"
COUNTERS: Final[Mapping[str, tuple[str, Callable[[Figures], float]]]] = {
    "batches": ("Batches since the start", lambda f: f.batches),
    "rows": ("Rows read", lambda f: f.rows),
    "batch_seconds": ("Time that batches took", lambda f: f.batches_s),
    "dropped_rows": ("Rows dropped by the watermark", lambda f: f.dropped),
    "late_rows": ("Rows marked late", lambda f: f.late),
    "bad_rows": ("Rows that cannot be read", lambda f: f.bad),
}
GAUGES: Final[Mapping[str, tuple[str, Callable[[Figures], float | None]]]] = {
    "last_batch_seconds": ("Time that the last batch took", lambda f: f.batch_s),
    "lag_records": ("Records of the slowest partition not yet read", lambda f: f.lag_records),
    "state_rows": ("Rows of state", lambda f: f.state_rows),
    "state_bytes": ("Memory of state", lambda f: f.state_bytes),
}


class Exposed(Collector):
    """To be registered in a registry; `figures` are asked for at each scrape."""

    def __init__(self, figures: Callable[[], Mapping[str, Figures]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        found = sorted(self._figures().items())
        for name, (text, of) in COUNTERS.items():
            counter = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=["query"])
            for query, figures in found:
                counter.add_metric([query], of(figures))
            yield counter
        for name, (text, value) in GAUGES.items():
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["query"])
            for query, figures in found:
                known = value(figures)
                if known is not None:
                    gauge.add_metric([query], known)
            yield gauge
