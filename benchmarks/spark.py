"""Measure Spark's own handling of disorder beside ours, on the same events in one run.

The raw topic contains the workload `crowd` at its own pace (10 000 events per second) or slower.
The arrival time is the arrival clock. A worker reads the raw topic and writes the ordered topic. A
plain consumer reads both, so the time and the position of each record are known.

Spark's way is `withWatermark(ts, delay)` on the raw topic, with several delays, and once with its
removal of duplicates (`dropDuplicatesWithinWatermark`). Ours is the job `rates` on the ordered
topic, with delay 0. Both count events by source in short windows. A batch is a *slice*, the records
of one second of the stream, as in a job triggered every second.

The truth is counted from the raw topic, with each event once. Only windows that every query had
closed by the end are compared.

Spark itself allows one more slice, since it drops by the watermark of the batch before the last. At
any delay it does not lose events that are late by less than a batch.

* **lost**: records that are missing from their windows. On the ordered topic these are the
  events marked late, which are in the table `late`. On the raw topic only a metric shows them.
* **doubled**: duplicates that were counted.
* **wrong**: windows of a source whose count is not the truth.
* **final after**: arrival clock minus window end. The arrival clock is the arrival time of the
  raw topic, and in the ordered topic `at`, the same clock when the event was emitted. It is read
  at the end of the batch that emitted the window. Both ways therefore include their waiting and
  the slices, but not the time spent computing. `batch` shows how long Spark took; ours adds the
  worker's commit, 100 ms at most.

The benchmark needs pyspark and Java (`make spark-setup`), and a broker from Maven jars.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

import cli.spark.jars
from benchmarks import harness
from benchmarks.backlog import Setting, produce, settle
from benchmarks.harness import ROOT, Asked, Tables
from benchmarks.peers.bring import PeerUnavailable
from benchmarks.tables import Table, count, format_ms, format_share
from benchmarks.workloads import crowd
from cli.local.process import NotReady, Process
from infra.kafka import missing, new_broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATE: Final = 10_000
"""The number of events of the crowd per second, and so of each batch."""
OUT_TIMEOUT_S: Final = 300.0
CHUNK: Final = 10_000
NS_PER_MS: Final = 1_000_000
SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A record of either topic; a control record has only `offset` and `clock_ns`.

    `clock_ns` is the arrival clock: the arrival time on the raw topic, `at` on the ordered one.
    """

    offset: int
    clock_ns: int
    source: str = ""
    seq: int = 0
    time_ns: int = 0
    late: bool = False

    @property
    def is_event(self) -> bool:
        return self.source != ""


class Recipe(NamedTuple):
    """The settings of a run.

    `slower` stretches the crowd's time, including its delays, by this factor. `max_wait` is the
    topology's setting for both operators. `ahead_ns` contains how far the clocks of some sources
    are ahead. Duplicates are removed in a run with the delay `no_copies_ms`.
    """

    name: str
    delays_ms: Sequence[int]
    no_copies_ms: int
    slower: int = 1
    max_wait: str = "500ms"
    ahead_ns: Mapping[str, int] = {}


RECIPES: Final = {
    "crowd": Recipe("crowd", (0, 500), 500),
    "slow": Recipe("crowd, ten times slower", (0, 500, 2_000, 5_000), 5_000, 10, "5s"),
    "clock": Recipe(
        "crowd, one clock of 20 is 5 s ahead", (500,), 6_000, ahead_ns={"s03": 5_000_000_000}
    ),
}


@dataclass(frozen=True)
class Course:
    bootstrap: str
    recipe: Recipe
    setting: Setting
    raw: list[Record]
    ordered: list[Record]

    @property
    def raw_topic(self) -> str:
        return self.setting.topology.streams["default"].input


def prepare(folder: Path, bootstrap: str, recipe: Recipe, seconds: int) -> Course:
    waits = f", reorder: {{max_wait: {recipe.max_wait}}}, merge: {{max_wait: {recipe.max_wait}}}"
    raw = f"raw-{uuid.uuid4().hex[:8]}"
    setting = settle(folder, bootstrap, raw, state="memory", stream=waits)
    # `produce` maps the workload's time to the wall clock, which stretches timestamps as well.
    shifted_ns = {s: ns // recipe.slower for s, ns in recipe.ahead_ns.items()}
    rows = [
        row._replace(ts_ns=row.ts_ns + shifted_ns.get(row.source, 0))
        for row in crowd(seconds * RATE // recipe.slower).rows
    ]
    produce(bootstrap, raw, rows, speed=1 / recipe.slower)
    different = len({(row.source, row.seq) for row in rows})
    ordered = _put_in_order(folder / raw, bootstrap, setting, different)
    with _open_reader(bootstrap, raw) as messages:
        return Course(bootstrap, recipe, setting, [_read_raw(m) for m in messages], ordered)


def clock_at(records: list[Record], end_offset: int) -> int:
    """Return the arrival clock of the last record before `end_offset`."""
    place = bisect_left(records, end_offset, key=lambda record: record.offset)
    return records[max(0, place - 1)].clock_ns


@contextmanager
def open_session(folder: Path) -> Iterator[SparkSession]:
    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import settings as lake_settings

    own = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    jars = [*cli.spark.jars.fetch_connector_jars(), *cli.spark.jars.fetch_lake_jars("iceberg")]
    wanted = {**SETTINGS, **lake_settings("iceberg"), **own}
    spark = new_session("inorder benchmarks", jars, wanted)
    try:
        yield spark
    finally:
        spark.stop()


def _put_in_order(folder: Path, bootstrap: str, setting: Setting, different: int) -> list[Record]:
    """Run the worker until every event is in the ordered topic, and return its records."""
    command = [
        *(sys.executable, "-m", "inorder", "worker", "--topology", str(setting.path)),
        *("--brokers", bootstrap, "--state-dir", str(folder / "state")),
    ]
    folder.mkdir()
    worker = Process("worker", command, folder, {"PYTHONPATH": str(ROOT)})
    worker.start()
    try:
        deadline_s = time.monotonic() + OUT_TIMEOUT_S
        while True:
            with _open_reader(bootstrap, setting.output) as messages:
                found = [_read_ordered(message) for message in messages]
            out = sum(record.is_event for record in found)
            if out >= different:
                return found
            if not worker.is_alive() or time.monotonic() > deadline_s:
                raise NotReady(f"{out} of {different} events were emitted; {worker.tail()}")
            time.sleep(1.0)
    finally:
        worker.stop()


@contextmanager
def _open_reader(bootstrap: str, topic: str) -> Iterator[Iterator[Any]]:
    """Provide the committed records of the topic's only partition, up to its present end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        yield _messages(consumer)
    finally:
        consumer.close()


def _messages(consumer: Consumer) -> Iterator[Any]:
    deadline_s = time.monotonic() + OUT_TIMEOUT_S
    while time.monotonic() < deadline_s:
        for message in consumer.consume(CHUNK, 0.5):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
    raise NotReady("the end of the topic was not reached in time")


def _read_raw(message: Any) -> Record:
    headers = dict(message.headers())
    clock_ns = message.timestamp()[1] * NS_PER_MS
    source, seq = headers["sourceId"].decode(), int(headers["seqNum"])
    return Record(message.offset(), clock_ns, source, seq, int(headers["ts"]))


def _read_ordered(message: Any) -> Record:
    headers = dict(message.headers())
    offset, clock_ns = message.offset(), int(headers["at"])
    if "kind" in headers:
        return Record(offset, clock_ns)
    source, seq = headers["sourceId"].decode(), int(headers["seqNum"])
    return Record(offset, clock_ns, source, seq, int(headers["refTs"]), "late" in headers)


WINDOW_MS: Final = 200
WINDOW_NS: Final = WINDOW_MS * 1_000_000
COLUMNS: Final = (
    *("query", "lost", "lost %", "doubled", "windows wrong", "wrong %"),
    *("final after: median ms", "p99 ms", "batch ms"),
)
Cell = tuple[int, str]
"""The start of a window in ns, and a source."""


@dataclass(frozen=True)
class Closed:
    """The result of a query: for each cell, its count and the arrival clock when it was emitted."""

    cells: Mapping[Cell, tuple[int, int]]
    batch_ms: float

    @property
    def newest_ns(self) -> int:
        return max(start_ns for start_ns, _ in self.cells)


@dataclass(frozen=True)
class Truth:
    """The number of different events in each cell, and that of records including duplicates."""

    events: Mapping[Cell, int]
    records: Mapping[Cell, int]


def count_truth(raw: Sequence[Record], ahead_ns: Mapping[str, int]) -> Truth:
    """Count the truth; `ahead_ns` is how far the timestamps of some sources are ahead."""
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


def measure(spark: SparkSession, course: Course) -> Table:
    recipe, found = course.recipe, {}
    for delay_ms in recipe.delays_ms:
        rows = _count_on_raw(spark, course, delay_ms, copies=True)
        found[_name_run(delay_ms)] = _run(rows, course.raw)
    rows = _count_on_raw(spark, course, recipe.no_copies_ms, copies=False)
    found[f"{_name_run(recipe.no_copies_ms)}, without copies"] = _run(rows, course.raw)
    found["ordered topic, delay 0"] = _run(_count_on_ordered(spark, course), course.ordered)
    return table_of(found, count_truth(course.raw, recipe.ahead_ns), recipe.name)


def table_of(found: Mapping[str, Closed], known: Truth, title: str) -> Table:
    until_ns = min(closed.newest_ns for closed in found.values())
    until_ns = min(until_ns, max(start_ns for start_ns, _ in known.events))
    cells = [cell for cell in known.events if cell[0] <= until_ns]
    within = sum(known.records[cell] for cell in cells)
    table = Table(
        f"{title}: {count(len(cells))} windows of {WINDOW_MS} ms, {count(within)} records", COLUMNS
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
            format_share(lost, within),
            count(doubled),
            count(wrong),
            format_share(wrong, len(cells)),
            format_ms(median(after_ns)),
            format_ms(after_ns[ceil(0.99 * len(after_ns)) - 1]),
            f"{closed.batch_ms:.0f}",
        )
    return table


def _name_run(delay_ms: int) -> str:
    return f"raw topic, watermark delay {delay_ms} ms" if delay_ms else "raw topic, delay 0"


def _count_on_raw(spark: SparkSession, course: Course, delay_ms: int, *, copies: bool) -> DataFrame:
    """Return the counts as in Spark's guide: a watermark on the source's time, then windows."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_analytics import decode

    headers = course.setting.topology.streams["default"].headers
    records = _open_topics(spark, course).records(course.raw_topic)
    rows = decode.select_sound(decode.decode_raw(records, headers)).withWatermark(
        "ref_time", f"{delay_ms} milliseconds"
    )
    if not copies:
        rows = rows.dropDuplicatesWithinWatermark(["source", "seq"])
    window = F.window("ref_time", f"{WINDOW_MS} milliseconds")
    counted = rows.groupBy(window.alias("w"), "source").agg(F.count(F.lit(1)).alias("n"))
    return counted.select(F.col("w.start").alias("start_time"), "source", "n")


def _count_on_ordered(spark: SparkSession, course: Course) -> DataFrame:
    from spark_analytics.aggregates import Windows
    from spark_analytics.jobs.definitions import rates_tables
    from spark_analytics.jobs.work import Options

    wanted = Options(windows=Windows("tumbling", f"{WINDOW_MS} milliseconds"))
    tables = rates_tables(_open_topics(spark, course), course.setting.topology, wanted)
    return next(table for table in tables if table.name == "windows-default").rows


def _open_topics(spark: SparkSession, course: Course) -> Any:
    from spark_analytics.jobs.topics import KafkaTopics

    records = RATE // course.recipe.slower
    return KafkaTopics(spark, course.bootstrap, streaming=True, max_per_batch=records)


def _run(rows: DataFrame, records: list[Record]) -> Closed:
    """Run a query over the whole topic, slice by slice, and return its result."""
    given: list[tuple[int, Cell, int]] = []
    stream = rows.writeStream.outputMode("append").foreachBatch(_make_collector(given))
    query = stream.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    clocks, lengths_ms = {}, []
    for progress in query.recentProgress:
        ends = json.loads(progress.json)["sources"][0]["endOffset"]
        (end,) = next(iter(ends.values())).values()
        clocks[progress.batchId] = clock_at(records, end)
        lengths_ms.append(progress.durationMs["triggerExecution"])
    cells = {cell: (n, clocks[batch]) for batch, cell, n in given}
    return Closed(cells, median(lengths_ms))


def _make_collector(given: list[tuple[int, Cell, int]]) -> Callable[[DataFrame, int], None]:
    def collect_batch(rows: DataFrame, batch: int) -> None:
        for row in rows.select("start_time", "source", "n").collect():
            start_ns = round(row.start_time.timestamp() * 1e6) * 1_000
            given.append((batch, (start_ns, row.source), row.n))

    return collect_batch


def tables(asked: Asked) -> Tables:
    """Measure watermarks on the raw and the ordered topic: lost records, and time until final."""
    if absent := cli.spark.jars.missing() or missing():
        raise PeerUnavailable(absent)
    with tempfile.TemporaryDirectory() as name:
        folder, seconds = Path(name), 20 if asked.full else 4
        with new_broker(folder / "kafka") as broker, open_session(folder) as spark:

            def table(recipe: Recipe) -> Table:
                return measure(spark, prepare(folder, broker.bootstrap, recipe, seconds))

            for kind in RECIPES if asked.full or asked.only else ("crowd",):
                yield kind, partial(table, RECIPES[kind])


command = harness.command(tables)
