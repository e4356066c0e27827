"""What a record costs from the topic to windows: decoded for each job, or once for the table.

CPU microseconds of the Java process a record, bounded, the second of two runs: the windows of
`rates` from the topic; the topic written as the table `events` in Iceberg; the same windows from
that table. N jobs cost N times the first, or the second and N times the third.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from benchmarks.spark_jobs.course import Course
from benchmarks.spark_jobs.throughput import cpu_of, drop, timed, topics_of
from benchmarks.tables import Table, count, thousands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW: Final = "10 seconds"


def measure(spark: SparkSession, course: Course, say: Callable[[str], None]) -> Table:
    from spark_analytics.aggregates import Windows
    from spark_analytics.jobs.definitions import JOBS, rates
    from spark_analytics.jobs.running import run_bounded
    from spark_analytics.jobs.work import Wanted
    from spark_analytics.tables.events import EventsTable
    from spark_analytics.tables.lake import Lake, open_lake
    from spark_analytics.tables.output import LakeOutput

    topics = topics_of(spark, course, streaming=False)
    topology = course.setting.topology
    length = topics.records(course.ordered_topic).count()
    windows = Windows("tumbling", WINDOW)
    made: list[Lake] = []

    def write() -> None:
        found = JOBS["events"](topics, topology, Wanted())[:1]
        place = str(course.folder / "lake" / uuid.uuid4().hex / "events")
        made.append(open_lake(spark, "iceberg", place, "events"))
        run_bounded(found, LakeOutput(made[-1], found), "")

    def from_topic() -> None:
        drop(rates(topics, topology, Wanted(windows=windows, late_included=True))[0].rows)

    def from_table() -> None:
        wanted = Wanted(windows=windows, silver=EventsTable(made[-1]))
        drop(rates(topics, topology, wanted)[0].rows)

    table = Table(
        "from topic to windows, CPU us a record (bounded, local[2])",
        ("what", "records", "us a record", "records/CPU s"),
    )
    cpu = cpu_of(spark)
    for what, run in (
        ("windows from the topic", from_topic),
        ("the table events", write),
        ("windows from the table", from_table),
    ):
        took = timed(run, cpu)
        each_s = took.cpu_s / length
        table.add(what, count(length), f"{1e6 * each_s:.1f}", thousands(1 / each_s))
        say(" | ".join(table.rows[-1]))
    return table
