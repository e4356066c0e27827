"""The jobs that stream while the demo runs, and what their closed windows have said so far.

Three tables of three jobs, each a query of its own: rates by source, disorder and waiting,
and what the clocks are corrected by. Their rows stay in this process (`Kept`), a few per
window and source.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession

from spark_analytics import jobs
from spark_analytics.aggregates import Windows
from spark_analytics.running import Running
from spark_analytics.topics import KafkaTopics
from spark_analytics.watching import Figures
from spark_analytics.work import Table, Wanted
from topology.config import Topology

WINDOW: Final = Windows("tumbling", "5 seconds")
EVERY: Final = "2 seconds"
RATES: Final = "windows-default"
DISORDER: Final = "ordered-default"
STAMPS: Final = "stamps-default"
STOP_TIMEOUT_S: Final = 60.0


@dataclass
class Kept:
    """An output of `spark_analytics.outputs` that keeps the rows: batches by table and
    number, so one that comes again replaces itself."""

    batches: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    def write(self, rows: DataFrame, table: str, keys: Sequence[str], batch: int) -> None:
        self.batches[table, batch] = rows.collect()

    def holds(self, spark: SparkSession, table: str) -> bool:
        return False

    def rows(self, table: str) -> list[Row]:
        """By window and source."""
        found = [
            row for (name, _), rows in self.batches.copy().items() if name == table for row in rows
        ]
        return sorted(found, key=lambda row: (row.start, row.source))


class Live:
    """The queries, from their start until `stop`. An error of one is raised there."""

    def __init__(
        self, spark: SparkSession, brokers: str, topology: Topology, checkpoint: Path
    ) -> None:
        self.kept = Kept()
        tables = tables_of(KafkaTopics(spark, brokers, streaming=True), topology)
        self._running = Running(tables, self.kept, "", str(checkpoint), EVERY)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, name="spark-queries", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._running.stop()
        self._thread.join(STOP_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure

    @property
    def figures(self) -> dict[str, Figures]:
        """What the queries tell of their batches."""
        return self._running.watch.figures

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def _wait(self) -> None:
        try:
            self._running.wait()
        except BaseException as failure:  # noqa: BLE001 - raised by `stop`
            self._failure = failure


def tables_of(topics: KafkaTopics, topology: Topology) -> list[Table]:
    wanted = Wanted(windows=WINDOW)
    found = [
        *jobs.rates(topics, topology, wanted),
        *jobs.disorder_audit(topics, topology, wanted),
        *jobs.clock_audit(topics, topology, wanted),
    ]
    return [table for table in found if table.name in (RATES, DISORDER, STAMPS)]


@dataclass
class SoFar:
    """One source so far, over all of its closed windows; `last_` of the newest one."""

    events: int = 0
    late: int = 0
    missing: int = 0
    last_rate: float = 0.0
    last_behind_ns: int = 0
    last_offset_ns: int = 0
    last_error_ns: int = 0


def so_far(kept: Kept) -> dict[str, SoFar]:
    found: dict[str, SoFar] = {}

    def of(row: Any) -> SoFar:
        return found.setdefault(row.source, SoFar())

    for row in kept.rows(DISORDER):
        source = of(row)
        source.events += row.n
        source.late += row.late
        source.missing += row.missing
        source.last_behind_ns = row.behind_ns[0]
    for row in kept.rows(RATES):
        of(row).last_rate = row.rate
    for row in kept.rows(STAMPS):
        of(row).last_offset_ns = row.least_offset_ns
        of(row).last_error_ns = row.error_ns[0]
    return dict(sorted(found.items()))
