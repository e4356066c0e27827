"""Spark's own handling of disorder beside ours, on the same events in one run.

Spark's: `withWatermark(ts, delay)` on the raw topic, with several delays, and once with its
removal of copies (`dropDuplicatesWithinWatermark`). Ours: the job `rates` on the ordered
topic, delay 0. Both count events by source in short windows, in batches of `slice` records,
that is of a second of the stream, as a job triggered every second would meet them.

The truth is counted from the raw topic: of every event one copy. Only windows that every
query had closed by the end are compared.

Spark itself grants a slice: it drops by the watermark of the batch before the last, and so
does not lose what is late by less than a batch, whatever the delay.

* **lost**: records that are missing from their windows. On the ordered topic these are the
  events marked late; they stand in the table `late`. On the raw topic nothing tells of them
  but a metric.
* **doubled**: copies that were counted.
* **wrong**: windows of a source whose count is not the truth.
* **final after**: arrival clock minus window end. The arrival clock is the append time of the
  raw topic, and `at`, which is the same clock at the decision, in the ordered one; it is
  taken at the end of the batch that gave the window out. So both pay for what they wait for,
  and for the slices; what nobody pays for here is time spent computing (`batch` tells how
  long Spark took, ours adds the worker's commit, 100 ms at most).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.spark_jobs.course import Course, Record, clock_at
from benchmarks.tables import Table, count, ms, share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW_MS: Final = 200
WINDOW_NS: Final = WINDOW_MS * 1_000_000
COLUMNS: Final = (
    "query",
    "lost",
    "lost %",
    "doubled",
    "windows wrong",
    "wrong %",
    "final after: median ms",
    "p99 ms",
    "batch ms",
)
Cell = tuple[int, str]
"""A window's start in ns, and a source."""


@dataclass(frozen=True)
class Closed:
    """What a query gave out: per cell its count and the arrival clock by then."""

    cells: Mapping[Cell, tuple[int, int]]
    batch_ms: float

    @property
    def newest_ns(self) -> int:
        return max(start_ns for start_ns, _ in self.cells)


@dataclass(frozen=True)
class Truth:
    """Per cell: different events, and records with their copies."""

    events: Mapping[Cell, int]
    records: Mapping[Cell, int]


def truth(raw: Sequence[Record], ahead_ns: Mapping[str, int]) -> Truth:
    """`ahead_ns`: by how much the stamps of some sources are wrong."""
    events: Counter[Cell] = Counter()
    records: Counter[Cell] = Counter()
    seen: set[tuple[str, int]] = set()
    for record in raw:
        true_ns = record.time_ns - ahead_ns.get(record.source, 0)
        cell = (true_ns // WINDOW_NS * WINDOW_NS, record.source)
        records[cell] += 1
        events[cell] += (record.source, record.seq) not in seen
        seen.add((record.source, record.seq))
    return Truth(events, records)


def measure(
    spark: SparkSession,
    course: Course,
    slice_records: int,
    delays_ms: Sequence[int],
    no_copies_ms: int,
) -> Table:
    found: dict[str, Closed] = {}
    for delay_ms in delays_ms:
        rows = _on_raw(spark, course, slice_records, delay_ms, copies=True)
        found[_spelled(delay_ms)] = _run(rows, course.raw)
    rows = _on_raw(spark, course, slice_records, no_copies_ms, copies=False)
    found[f"{_spelled(no_copies_ms)}, without copies"] = _run(rows, course.raw)
    rows = _on_ordered(spark, course, slice_records)
    found["ordered topic, delay 0"] = _run(rows, course.ordered)
    return table_of(found, truth(course.raw, course.recipe.ahead_ns), course.recipe.name)


def table_of(found: Mapping[str, Closed], known: Truth, title: str) -> Table:
    until_ns = min(closed.newest_ns for closed in found.values())
    until_ns = min(until_ns, max(start_ns for start_ns, _ in known.events))
    cells = [cell for cell in known.events if cell[0] <= until_ns]
    within = sum(known.records[cell] for cell in cells)
    table = Table(
        f"{title}: {count(len(cells))} windows of {WINDOW_MS} ms, {count(within)} records",
        COLUMNS,
    )
    for name, closed in found.items():
        counts = {cell: closed.cells.get(cell, (0, 0))[0] for cell in cells}
        removes = not name.startswith("raw") or "without" in name
        held = known.events if removes else known.records
        lost = sum(max(0, held[cell] - counts[cell]) for cell in cells)
        doubled = 0 if removes else sum(known.records[c] - known.events[c] for c in cells)
        wrong = sum(counts[cell] != known.events[cell] for cell in cells)
        after_ns = sorted(
            clock_ns - cell[0] - WINDOW_NS
            for cell, (_, clock_ns) in closed.cells.items()
            if cell[0] <= until_ns
        )
        table.add(
            name,
            count(lost),
            share(lost, within),
            count(doubled),
            count(wrong),
            share(wrong, len(cells)),
            ms(median(after_ns)),
            ms(after_ns[ceil(0.99 * len(after_ns)) - 1]),
            f"{closed.batch_ms:.0f}",
        )
    return table


def _spelled(delay_ms: int) -> str:
    return f"raw topic, watermark delay {delay_ms} ms" if delay_ms else "raw topic, delay 0"


def _on_raw(
    spark: SparkSession, course: Course, slice_records: int, delay_ms: int, *, copies: bool
) -> DataFrame:
    """As Spark's guide has it: a watermark on the source's time, then windows."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_analytics import decode

    headers = course.setting.topology.stream("default").headers
    records = _topics(spark, course, slice_records).records(course.raw_topic)
    rows = decode.sound(decode.raw(records, headers)).withWatermark(
        "ref_time", f"{delay_ms} milliseconds"
    )
    if not copies:
        rows = rows.dropDuplicatesWithinWatermark(["source", "seq"])
    window = F.window("ref_time", f"{WINDOW_MS} milliseconds")
    counted = rows.groupBy(window.alias("w"), "source").agg(F.count(F.lit(1)).alias("n"))
    return counted.select(F.col("w.start").alias("start"), "source", "n")


def _on_ordered(spark: SparkSession, course: Course, slice_records: int) -> DataFrame:
    from spark_analytics.aggregates import Windows
    from spark_analytics.jobs.definitions import rates
    from spark_analytics.jobs.work import Wanted

    wanted = Wanted(windows=Windows("tumbling", f"{WINDOW_MS} milliseconds"))
    tables = rates(_topics(spark, course, slice_records), course.setting.topology, wanted)
    return next(table for table in tables if table.name == "windows-default").rows


def _topics(spark: SparkSession, course: Course, slice_records: int) -> Any:
    from spark_analytics.jobs.topics import KafkaTopics

    return KafkaTopics(spark, course.bootstrap, streaming=True, max_per_batch=slice_records)


def _run(rows: DataFrame, records: list[Record]) -> Closed:
    """The whole topic, slice by slice."""
    given: list[tuple[int, Cell, int]] = []
    stream = rows.writeStream.outputMode("append").foreachBatch(_keeper(given))
    query = stream.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    clocks, lengths_ms = {}, []
    for progress in query.recentProgress:
        ends = json.loads(progress.sources[0].endOffset)
        (end,) = next(iter(ends.values())).values()
        clocks[progress.batchId] = clock_at(records, end)
        lengths_ms.append(progress.durationMs["triggerExecution"])
    cells = {cell: (n, clocks[batch]) for batch, cell, n in given}
    return Closed(cells, median(lengths_ms))


def _keeper(given: list[tuple[int, Cell, int]]) -> Callable[[DataFrame, int], None]:
    def keep(rows: DataFrame, batch: int) -> None:
        for row in rows.select("start", "source", "n").collect():
            start_ns = round(row.start.timestamp() * 1e6) * 1_000
            given.append((batch, (start_ns, row.source), row.n))

    return keep
