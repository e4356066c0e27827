"""What `inorder spark run` was asked for, turned into a session, topics, tables, an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from agents.brokers import brokers_at
from agents.security import Security
from cli.spark_kafka import java_settings
from cli.topology_file import Refused
from infra.spark import jars
from spark_analytics.aggregates import Measures, Windows
from spark_analytics.jobs import JOBS, Table, Wanted
from spark_analytics.outputs import Console, Folder, Output, Topic
from spark_analytics.payload import schema_of
from spark_analytics.session import new_session
from spark_analytics.topics import ArchivedTopics, KafkaTopics, Topics
from topology.description import QueryConfig, Topology


@dataclass(frozen=True)
class Asked:
    """The options by their names."""

    job: str
    topology: Topology
    brokers: str
    security: Security
    out: str
    batch: bool
    archive: str | None
    checkpoint: str | None
    until_caught_up: bool
    every: str
    max_per_batch: int
    window: str
    key: Sequence[str]
    sum: Sequence[str]
    quantile: Sequence[str]
    table: Sequence[str]
    schema: str | None
    results: Sequence[str]
    to: str
    to_topic: str | None
    master: str | None
    conf: Sequence[str]
    kafka: dict[str, str] = field(init=False)
    windows: Windows = field(init=False)
    interval: str | None = field(init=False)
    """Between batches, as Spark spells it; None: only up to the end."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kafka", java_settings(self.security))
        object.__setattr__(self, "windows", _windows(self.window))
        object.__setattr__(self, "interval", _interval(self))
        if self.archive is not None and not self.batch:
            raise Refused("--archive is read as a whole; add --batch")
        if (self.to == "kafka") != (self.to_topic is not None):
            raise Refused("--to kafka and --to-topic go together")
        for pair in self.conf:
            name, equals, value = pair.partition("=")
            if not (name and equals and value):
                raise Refused(f"--conf {pair}: write NAME=VALUE, like spark.driver.memory=2g")
        if self.to == "kafka" and self.job == "archive":
            raise Refused("--to kafka: an archive is Parquet; leave --to out")

    @property
    def folder(self) -> str:
        """A bounded run and a stream have tables of their own: neither replaces the other's."""
        return f"{self.out.rstrip('/')}/{self.job}{'-batch' if self.batch else ''}"

    @property
    def checkpoints(self) -> str:
        return self.checkpoint or f"{self.out.rstrip('/')}/checkpoints/{self.job}"

    def about(self) -> dict[str, Any]:
        """What a checkpoint is good for."""
        topics = sorted({topic for s in self.topology.streams.values() for topic in _of(s)})
        found = brokers_at(self.brokers, self.security)
        return {
            "job": self.job,
            "window": self.window,
            "keys": list(self.key),
            "sums": list(self.sum),
            "quantiles": list(self.quantile),
            "schema": self.schema,
            "results": list(self.results),
            "topics": found.topic_ids(topics),
        }


def session(asked: Asked) -> SparkSession:
    settings = {name: value for name, _, value in (pair.partition("=") for pair in asked.conf)}
    if asked.master is not None:
        settings["spark.master"] = asked.master
    return new_session(f"inorder {asked.job}", jars(), settings)


def tables(asked: Asked, spark: SparkSession) -> list[Table]:
    topics: Topics = KafkaTopics(
        spark, asked.brokers, not asked.batch, asked.kafka, asked.max_per_batch
    )
    if asked.archive is not None:
        topics = ArchivedTopics(spark, asked.archive.rstrip("/"))
    found = JOBS[asked.job](topics, asked.topology, _wanted(asked))
    names = [table.name for table in found]
    strange = [name for name in asked.table if name not in names]
    if strange:
        raise Refused(f"--table {strange[0]}: {asked.job} has {', '.join(names)}")
    return [table for table in found if not asked.table or table.name in asked.table]


def output(asked: Asked) -> Output:
    if asked.to_topic is not None:
        return Topic(asked.brokers, asked.to_topic, asked.kafka)
    return Console() if asked.to == "console" else Folder(asked.folder)


def _wanted(asked: Asked) -> Wanted:
    wanted = Wanted(
        windows=asked.windows,
        keys=tuple(asked.key),
        measures=Measures(tuple(asked.sum), tuple(asked.quantile)),
        schema=None if asked.schema is None else schema_of(asked.schema),
    )
    if not asked.results:
        return wanted
    return Wanted(**{**wanted.__dict__, "results": tuple(asked.results)})


def _interval(asked: Asked) -> str | None:
    if asked.until_caught_up:
        return None
    return _spelled(_window(f"tumbling {asked.every}", "--every").size_ns)


def _windows(text: str) -> Windows:
    found = _window(text, "--window")
    if found.kind == "count":
        raise Refused("--window count: Spark's windows are of time; write tumbling 10s")
    every = _spelled(found.every_ns) if found.kind == "sliding" else None
    return Windows(found.kind, _spelled(found.size_ns), every)


def _window(text: str, option: str) -> Any:
    try:
        query = QueryConfig.model_validate({"window": text, "aggregate": {"n": "count()"}})
    except ValidationError as error:
        raise Refused(f"{option} {text}: {error.errors()[0]['msg']}") from None
    return query.window


def _spelled(length_ns: int) -> str:
    if length_ns % 1_000:
        raise Refused(f"{length_ns} ns: Spark counts in microseconds; write whole ones")
    return f"{length_ns // 1_000} microseconds"


def _of(stream: Any) -> tuple[str, str]:
    return stream.input, stream.output
