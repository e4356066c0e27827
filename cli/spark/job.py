"""Turns the options of `inorder spark run` into a session, topics, tables and outputs.

The identity of a checkpoint (`about`) has everything that decides the contents of the tables, the
topics' ids, and the address of the tables. It leaves out settings that only affect speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from agents.kafka.brokers import Brokers, BrokersUnavailable
from agents.kafka.security import Security
from cli.durations import duration_ns
from cli.kafka_options import connect_brokers
from cli.spark.around import handle_signals, open_session
from cli.spark.jars import fetch_connector_jars
from cli.spark.kafka import java_settings
from cli.spark.options import KEYS, WINDOW, require_iceberg, settings_of, window_of
from cli.topology_file import Refused
from spark_analytics.aggregates import Measures, Windows
from spark_analytics.archive import formats_of
from spark_analytics.jobs.definitions import JOBS
from spark_analytics.jobs.outputs import Folder
from spark_analytics.jobs.running import JobFailed, Running, claim
from spark_analytics.jobs.topics import ArchivedTopics, KafkaTopics, Topics
from spark_analytics.jobs.work import Options, Table
from spark_analytics.payload import schema_of
from spark_analytics.silver import COLUMNS
from spark_analytics.tables.catalog import FORMATS, Format, catalog_of
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.output import LakeOutput
from topology.config import Topology
from topology.spelling.kinds import parse_length_ns


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a Spark command; those that only `inorder spark run` has are optional."""

    job: str
    topology: Topology
    brokers: str
    security: Security
    out: str
    checkpoint: str | None
    until_caught_up: bool
    every: str
    max_per_batch: int
    form: str
    catalog: str | None
    master: str | None
    conf: Sequence[str]
    batch: bool = False
    archive: str | None = None
    window: str = WINDOW
    key: Sequence[str] = KEYS
    sum: Sequence[str] = ()
    quantile: Sequence[str] = ()
    table: Sequence[str] = ()
    schema: str | None = None
    kafka: dict[str, str] = field(init=False)
    windows: Windows = field(init=False)
    interval: str | None = field(init=False)
    """Time between batches, as Spark spells it; None to stop at the current end of the topics."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kafka", java_settings(self.security))
        object.__setattr__(self, "windows", _parse_windows(self.window))
        object.__setattr__(self, "interval", _format_interval(self))
        if self.archive is not None and not self.batch:
            raise Refused("--archive is read as a whole; add --batch")
        require_iceberg(self.catalog, self.form)
        if self.job == "archive" and self.catalog is not None:
            raise Refused("--catalog: an archive is read by its path; leave --catalog out")
        settings_of(self.master, self.conf)

    @property
    def folder(self) -> str:
        return f"{self.out.rstrip('/')}/{self.name}"

    @property
    def checkpoints(self) -> str:
        return self.checkpoint or f"{self.out.rstrip('/')}/checkpoints/{self.job}"

    @property
    def name(self) -> str:
        """The name of the job's folder, which differs for a bounded run and a stream.

        Each has separate tables, so neither replaces the other's.
        """
        return f"{self.job}-batch" if self.batch else self.job

    @property
    def formats(self) -> list[Format]:
        return [kind for kind in FORMATS if kind == self.form]

    def connect_brokers(self) -> Brokers:
        return connect_brokers(self.brokers, self.security)

    def about(self, topic_ids: dict[str, str]) -> dict[str, Any]:
        """Return the identity of a checkpoint, which only a job with the same identity may use."""
        return {
            "job": self.job,
            "window": self.window,
            "keys": list(self.key),
            "sums": list(self.sum),
            "quantiles": list(self.quantile),
            "schema": self.schema,
            "topics": topic_ids,
            "to": [self.form],
            **(
                {"tables": self.folder, "catalog": self.catalog}
                if self.formats
                else {"folder": self.folder}
            ),
            **({"columns": COLUMNS} if self.job != "archive" else {}),
        }


def open_job_session(asked: Asked) -> AbstractContextManager[SparkSession]:
    lakes = list(dict.fromkeys([*asked.formats, *formats_of([asked.archive])]))
    settings = settings_of(asked.master, asked.conf)
    return open_session(asked.job, fetch_connector_jars(), settings, lakes, asked.catalog)


def run_queries(
    asked: Asked,
    spark: SparkSession,
    found: Sequence[Table],
    there: Folder | LakeOutput,
    about: dict[str, Any],
    watched: Callable[[], None] | None,
) -> None:
    """Run the queries on the checkpoint until they end or a signal arrives."""
    written = [part.name for table in found for part in table.list_written()]
    left = [name for name in written if there.has_batches(spark, name)]
    claim(spark, asked.checkpoints, about, left)
    running = Running(found, there, asked.folder, asked.checkpoints, asked.interval, watched)
    with handle_signals(running.stop):
        running.wait()


def ids_of(asked: Asked, brokers: Brokers, topics: Sequence[str]) -> dict[str, str]:
    """Return the ids of the topics that a job reads; raise `Refused` if one does not exist."""
    if not brokers.is_embedded:
        absent = [name for name, count in brokers.count_partitions(topics).items() if not count]
        if absent:
            raise Refused(
                f"{asked.brokers} has no topic {', '.join(absent)}; run inorder topics create,"
                " or name existing topics"
            )
    return brokers.topic_ids(topics)


def make_topic_check(
    asked: Asked, brokers: Brokers, topic_ids: dict[str, str]
) -> Callable[[], None]:
    """Return a check that raises JobFailed unless the topics are those with which the job began.

    If the brokers do not answer, the check passes, because Spark waits for them.
    """

    def check_topics() -> None:
        try:
            there = {name for name, count in brokers.count_partitions(topic_ids).items() if count}
            now = brokers.topic_ids(sorted(there))
        except BrokersUnavailable:
            return
        other = [name for name, known in topic_ids.items() if now.get(name) != known]
        if other:
            raise JobFailed(
                f"{', '.join(other)}: deleted, or created again, while {asked.job} ran; its tables"
                " belong to the old topic. Remove checkpoint and tables to start again"
            )

    return check_topics


def topics_of(asked: Asked, spark: SparkSession) -> Topics:
    if asked.archive is not None:
        return ArchivedTopics(spark, asked.archive.rstrip("/"))
    return KafkaTopics(spark, asked.brokers, not asked.batch, asked.kafka, asked.max_per_batch)


def make_tables(asked: Asked, topics: Topics) -> list[Table]:
    return JOBS[asked.job](topics, asked.topology, _options(asked))


def make_output(asked: Asked, tables: Sequence[Table], spark: SparkSession) -> Folder | LakeOutput:
    if not asked.formats:
        written = [part for table in tables for part in table.list_written()]
        return Folder(asked.folder, frozenset(part.name for part in written if part.folds))
    (kind,) = asked.formats
    lake = open_lake(spark, kind, asked.folder, asked.name, catalog_of(asked.catalog))
    return LakeOutput(lake, tables, bounded=asked.batch)


def _options(asked: Asked) -> Options:
    return Options(
        windows=asked.windows,
        keys=tuple(asked.key),
        measures=Measures(tuple(asked.sum), tuple(asked.quantile)),
        schema=None if asked.schema is None else schema_of(asked.schema),
        tables=tuple(asked.table),
        in_lake=bool(asked.formats),
    )


def _format_interval(asked: Asked) -> str | None:
    if asked.until_caught_up:
        return None
    return _format_microseconds(duration_ns("--every", asked.every, parse_length_ns), "--every")


def _parse_windows(text: str) -> Windows:
    found = window_of(text, "--window")
    if found.kind == "count":
        raise Refused("--window count: Spark has only windows of time; write tumbling 10s")
    every = _format_microseconds(found.every_ns, "--window") if found.kind == "sliding" else None
    return Windows(found.kind, _format_microseconds(found.size_ns, "--window"), every)


def _format_microseconds(length_ns: int, option: str) -> str:
    if length_ns % 1_000:
        raise Refused(
            f"{option}: {length_ns} ns: Spark counts in microseconds; write a whole number of them"
        )
    return f"{length_ns // 1_000} microseconds"
