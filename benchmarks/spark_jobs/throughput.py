"""Rows per second of each job on local[2], and what they are spent on.

**In parts**, bounded: the topic read (`read`: count its bytes), decoded too (`decoded`: every
column, written nowhere), the table computed too (`computed`), written as Parquet too
(`written`). What one has over the one before is what that part costs, in CPU time of the
Java process, which does not ask who else uses the machine. Each is run twice, the second
time counts.

**As a stream**, the way `inorder spark run` goes: batches of `PER_BATCH` records until the
topic is caught up, with what Spark says of its batches: planning, work, log and commit, and
what it keeps as state. The first batch, which compiles the code, is left out.

One topic is one partition here, as a stream is: one task reads and decodes it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from benchmarks.race import cpu_seconds
from benchmarks.spark_jobs.course import Course
from benchmarks.tables import Table, count, thousands

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_analytics.jobs.work import Table as JobTable
    from spark_analytics.jobs.work import Wanted

PER_BATCH: Final = 20_000
WORDS: Final = 50_000
"""Records of `clock.offsets`."""

FLUSH_TIMEOUT_S: Final = 60.0
WINDOW: Final = "10 seconds"


@dataclass(frozen=True)
class Subject:
    """One table of one job; `decoded` is what it is made of."""

    job: str
    table: str
    topic: str
    decoded: Callable[[DataFrame], DataFrame]
    streams: bool = True


def measure(spark: SparkSession, course: Course, say: Callable[[str], None]) -> Iterator[Table]:
    """Each row is said when it is known: all of them take minutes."""
    _fill(course.bootstrap, course.setting.topology.topics.clock, _rounds())
    subjects = subjects_of(course)
    parts = Table(
        "in parts, CPU us a record (bounded, local[2])",
        (
            *("job: table", "records", "read", "decode", "compute", "write"),
            *("records/CPU s", "records/s", "wall/CPU"),
        ),
    )
    common: dict[str, tuple[Took, Took]] = {}
    for subject in subjects:
        _add_parts(parts, spark, course, subject, common)
        say(" | ".join(parts.rows[-1]))
    yield parts
    streams = Table(
        f"as a stream, batches of {count(PER_BATCH)} (medians)",
        (
            *("job: table", "records/s", "batch ms", "planning", "work", "log, commit"),
            *("state rows", "state MB", "state commit ms"),
        ),
    )
    for subject in subjects:
        if subject.streams:
            _add_stream(streams, spark, course, subject)
            say(" | ".join(streams.rows[-1]))
    for tasks in SHUFFLES:
        spark.conf.set("spark.sql.shuffle.partitions", tasks)
        _add_stream(streams, spark, course, subjects[0], f", {tasks} shuffle partitions")
        say(" | ".join(streams.rows[-1]))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield streams


SHUFFLES: Final = ("8", "200")


def subjects_of(course: Course) -> list[Subject]:
    from spark_analytics import clocks, decode

    headers = course.setting.topology.stream("default").headers
    raw, ordered = course.raw_topic, course.ordered_topic

    def read_ordered(records: DataFrame) -> DataFrame:
        return decode.ordered(records, headers)

    def read_raw(records: DataFrame) -> DataFrame:
        return decode.raw(records, headers)

    def as_is(records: DataFrame) -> DataFrame:
        return records

    clock = course.setting.topology.topics.clock
    return [
        Subject("rates", "windows-default", ordered, read_ordered),
        Subject("disorder", "ordered-default", ordered, read_ordered),
        Subject("disorder", "compared", raw, read_raw, streams=False),
        Subject("clocks", "stamps-default", ordered, read_ordered),
        Subject("clocks", "rounds", clock, lambda r: clocks.samples(r).rounds),
        Subject("truth", "differences", raw, read_raw, streams=False),
        Subject("archive", raw, raw, as_is),
    ]


def _add_parts(
    table: Table,
    spark: SparkSession,
    course: Course,
    subject: Subject,
    common: dict[str, tuple[Took, Took]],
) -> None:
    """`common`: what reading and decoding of a topic took, which its tables share."""
    from pyspark.sql import functions as F  # noqa: N812

    from spark_analytics.jobs.outputs import Folder
    from spark_analytics.jobs.running import run_bounded

    records = topics_of(spark, course, streaming=False).records(subject.topic)
    found = _table(spark, course, subject, streaming=False)
    folder = str(course.folder / "tables" / uuid.uuid4().hex)
    length = records.count()

    def written() -> None:
        run_bounded([found], Folder(folder), folder)

    def computed() -> None:
        drop(found.rows)

    cpu = cpu_of(spark)
    if subject.topic not in common or subject.job == "archive":
        common[subject.topic] = (
            timed(lambda: drop(records.select(F.sum(F.length("value")))), cpu),
            timed(lambda: drop(subject.decoded(records)), cpu),
        )
    read, decode = common[subject.topic]
    compute = timed(computed, cpu)
    write = timed(written, cpu)
    steps_s = (
        read.cpu_s,
        decode.cpu_s - read.cpu_s,
        compute.cpu_s - decode.cpu_s,
        write.cpu_s - compute.cpu_s,
    )
    table.add(
        f"{subject.job}: {_shown(subject)}",
        count(length),
        *(f"{1e6 * step_s / length:.1f}" for step_s in steps_s),
        thousands(length / write.cpu_s),
        thousands(length / write.wall_s),
        f"{write.wall_s / write.cpu_s:.2f}",
    )


def _add_stream(
    table: Table, spark: SparkSession, course: Course, subject: Subject, note: str = ""
) -> None:
    from spark_analytics.jobs.outputs import Folder
    from spark_analytics.jobs.running import Running

    place = str(course.folder / "streams" / uuid.uuid4().hex)
    found = _table(spark, course, subject, streaming=True)
    running = Running([found], Folder(place), place, f"{place}-checkpoint", None)
    running.wait()
    batches = [p for p in running.queries[0].recentProgress if p.numInputRows][1:]
    seconds = sum(p.durationMs["triggerExecution"] for p in batches) / 1e3
    state = [p.stateOperators[0] for p in batches if p.stateOperators]

    def of(*names: str) -> str:
        return f"{median(sum(p.durationMs.get(n, 0) for n in names) for p in batches):.0f}"

    table.add(
        f"{subject.job}: {_shown(subject)}{note}",
        thousands(sum(p.numInputRows for p in batches) / seconds),
        of("triggerExecution"),
        of("queryPlanning"),
        of("addBatch"),
        of("walCommit", "commitOffsets", "commitBatch"),
        count(median(s.numRowsTotal for s in state)) if state else "-",
        f"{median(s.memoryUsedBytes for s in state) / 1e6:.2f}" if state else "-",
        f"{median(s.commitTimeMs for s in state):.0f}" if state else "-",
    )


def _shown(subject: Subject) -> str:
    return "raw topic" if subject.job == "archive" else subject.table


def _table(spark: SparkSession, course: Course, subject: Subject, *, streaming: bool) -> JobTable:
    from spark_analytics.jobs.definitions import JOBS

    topology = course.setting.topology
    if subject.job == "truth":  # the crowd's clocks are right, whatever the file says
        streams = {
            name: stream.model_copy(
                update={"clock": stream.clock.model_copy(update={"unsynced": "trust"})}
            )
            for name, stream in topology.streams.items()
        }
        topology = topology.model_copy(update={"streams": streams})
    topics = topics_of(spark, course, streaming=streaming)
    tables = JOBS[subject.job](topics, topology, _wanted())
    return next(table for table in tables if table.name == subject.table)


def _wanted() -> Wanted:
    from spark_analytics.aggregates import Windows
    from spark_analytics.jobs.work import Wanted

    return Wanted(windows=Windows("tumbling", WINDOW))


def topics_of(spark: SparkSession, course: Course, *, streaming: bool) -> Any:
    from spark_analytics.jobs.topics import KafkaTopics

    return KafkaTopics(spark, course.bootstrap, streaming, max_per_batch=PER_BATCH)


def drop(rows: DataFrame) -> None:
    """Every column of every row, to nowhere."""
    rows.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True, slots=True)
class Took:
    cpu_s: float
    wall_s: float


def timed(run: Callable[[], None], cpu_s: Callable[[], float]) -> Took:
    """The second time."""
    run()
    began_s, spent_s = time.monotonic(), cpu_s()
    run()
    return Took(cpu_s() - spent_s, time.monotonic() - began_s)


def cpu_of(spark: SparkSession) -> Callable[[], float]:
    gateway: Any = spark.sparkContext._gateway
    pid: int = gateway.proc.pid
    return lambda: cpu_seconds(pid)


# -- what the crowd does not make ------------------------------------------------------------------


def _rounds() -> Iterator[tuple[str, bytes]]:
    """Rounds of time sync, a millisecond each way."""
    for number in range(WORDS):
        t1 = 1_700_000_000_000_000_000 + number * 1_000_000
        word = {"t1": t1, "t2": t1 + 1_000_000, "t3": t1 + 1_000_500, "t4": t1 + 2_000_500}
        yield f"s{number % 20:02d}", json.dumps({**word, "server": "a", "segment": 0}).encode()


def _fill(bootstrap: str, topic: str, records: Iterator[tuple[str, bytes]]) -> None:
    settings = {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({**settings, "linger.ms": 20})
    for key, value in records:
        producer.produce(topic, value, key)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise RuntimeError(f"the broker at {bootstrap} did not take the records of {topic} in time")
