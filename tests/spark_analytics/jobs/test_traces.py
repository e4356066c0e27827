"""End to end: recorded disorder of real networks, from the raw topic to Spark's tables.

The traces (benchmarks/traces.py) go through a real broker and a real worker as fast as these take
them, with their own timestamps. Spark's figures of both topics are compared with plain counts in
Python. The counts are of the trace, or of the ordered topic where the outcome depends on timing
(which events are late).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.traces import TraceRow, read_jr_umts, read_mesh_sensors
from spark_analytics.aggregates import Measures, Windows
from spark_analytics.jobs.definitions import JOBS
from spark_analytics.jobs.outputs import Folder, read
from spark_analytics.jobs.running import run_bounded
from spark_analytics.jobs.topics import KafkaTopics
from spark_analytics.jobs.work import Options
from spark_analytics.payload import schema_of
from tests.end_to_end.recordings import one_life, recorded
from tests.end_to_end.records import contract, read_all, send
from tests.end_to_end.setting import Setting, fused
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import at_work
from tests.services import SharedKafka
from tests.spark_analytics.marks import SPARK

pytestmark = [*SPARK, pytest.mark.kafka]

RECORDS = 3_000
MINUTES = 5
S = 1_000_000_000
WINDOW_NS = MINUTES * 60 * S
STREAMS = {"default": ("mesh_sensors", "hops"), "umts": ("jr_umts", "content_bytes")}
"""The trace of each stream, and an integer field of its records, which is summed up as `v`."""

Event = tuple[str, int]
Cell = tuple[int, str]
"""A window's start in ns, and a source."""


@dataclass
class Trace:
    """A trace's first records."""

    field: str
    rows: list[TraceRow]

    def measured(self, row: TraceRow) -> int:
        return int(row.payload[self.field])

    def value(self, row: TraceRow) -> bytes:
        return b'{"v": %d}' % self.measured(row)

    @property
    def firsts(self) -> dict[Event, TraceRow]:
        """Return the first copy of each event."""
        return {(row.source, row.seq): row for row in reversed(self.rows)}

    def disorder(self) -> dict[str, tuple[int, int, int, int]]:
        """Return records, copies, late events and descents, per source."""
        seen: set[Event] = set()
        highest: dict[str, int] = {}
        newest_ns = 0
        counts: dict[str, Counter[str]] = {}
        for row in self.rows:
            count = counts.setdefault(row.source, Counter())
            is_copy = (row.source, row.seq) in seen
            count["records"] += 1
            count["copies"] += is_copy
            count["overtaken"] += not is_copy and row.seq < highest.get(row.source, -1)
            count["descents"] += row.ts_ns < newest_ns
            seen.add((row.source, row.seq))
            highest[row.source] = max(row.seq, highest.get(row.source, -1))
            newest_ns = max(newest_ns, row.ts_ns)
        words = ("records", "copies", "overtaken", "descents")
        return {s: tuple(c[w] for w in words) for s, c in counts.items()}  # type: ignore[misc]

    def windows(self, events: Iterable[Event]) -> dict[Cell, tuple[int, int]]:
        """Return the number of these events and their sum, per window and source."""
        cells: dict[Cell, list[int]] = {}
        firsts = self.firsts
        for event in events:
            row = firsts[event]
            cell = (row.ts_ns // WINDOW_NS * WINDOW_NS, row.source)
            cells.setdefault(cell, []).append(self.measured(row))
        return {cell: (len(values), sum(values)) for cell, values in cells.items()}


def trace_of(stream: str) -> Trace:
    name, field = STREAMS[stream]
    rows = recorded(read_mesh_sensors if name == "mesh_sensors" else lambda: read_jr_umts("d1"))
    return Trace(field, one_life(rows[:RECORDS]))


def put_in_order(traces: dict[str, Trace], setting: Setting, folder: Path) -> None:
    """Send all traces through a worker, with their measured fields as JSON."""
    records = [
        (stream, trace.value(row), contract(row.source, row.seq, row.ts_ns, stream=stream))
        for stream, trace in traces.items()
        for row in trace.rows
    ]
    with at_work(setting):
        send(setting, records)
        wait_out(setting, sum(len(trace.firsts) for trace in traces.values()))


def read_late_events(setting: Setting) -> set[Event]:
    """Return the events marked late, as a plain reader finds them in the ordered topic."""
    return {
        (source, seq)
        for record in read_all(setting.bootstrap, setting.ordered)
        if not record.is_control and record.header("late") is not None
        for source, _, seq in [record.name]
    }


@pytest.mark.long
def test_tables_match_the_traces(spark: SparkSession, kafka: SharedKafka, tmp_path: Path) -> None:
    traces = {stream: trace_of(stream) for stream in STREAMS}
    setting = fused(kafka.bootstrap, tmp_path, others=["umts"], state="memory")
    put_in_order(traces, setting, tmp_path)
    late = read_late_events(setting)
    tables = Tables(spark, setting, tmp_path)

    tables.run("disorder", "compared")
    for stream, trace in traces.items():
        before = {}
        for row in tables.rows("compared", stream):
            before[row.source] = (row.raw, row.copies, row.overtaken_before, row.descents_before)
            events = {event for event in trace.firsts if event[0] == row.source}
            assert (row.in_order + row.late, row.late) == (len(events), len(events & late))
            assert row.descents_after == 0
        assert before == trace.disorder()
        assert sum(descents for *_, descents in before.values()) > 500  # enough disorder

    tables.run("rates", "late", *(f"windows-{stream}" for stream in STREAMS))
    for stream, trace in traces.items():
        rows = tables.rows("late", stream)
        assert {(row.source, row.seq) for row in rows} == late & trace.firsts.keys()
        got = {
            (round(row.start_time.timestamp()) * S, row.source): (row.n, row.sum_payload_v)
            for row in tables.rows(f"windows-{stream}")
        }
        assert got == trace.windows(trace.firsts.keys() - late)
        assert len(got) > 10

    tables.run("truth", "differences")
    assert tables.rows("differences") == []


@dataclass
class Tables:
    """Jobs run on the topics of a setting, and the Parquet tables they wrote."""

    spark: SparkSession
    setting: Setting
    folder: Path

    @property
    def output(self) -> Folder:
        return Folder(str(self.folder / "tables"))

    def run(self, job: str, *names: str) -> None:
        topics = KafkaTopics(self.spark, self.setting.bootstrap, streaming=False)
        wanted = Options(
            windows=Windows("tumbling", f"{MINUTES} minutes"),
            measures=Measures(sums=("payload.v",)),
            schema=schema_of("v INT"),
        )
        found = JOBS[job](topics, self.setting.topology, wanted)
        run_bounded([table for table in found if table.name in names], self.output, "")

    def rows(self, name: str, stream: str | None = None) -> list[Any]:
        found = read(self.spark, self.output.path, name).collect()
        return [row for row in found if stream in (None, row.stream)]
