"""The course of the Spark benchmarks: the crowd on a real broker, in order, and the truth.

The raw topic holds the workload `crowd` at its own pace or slower (10 000 events a second,
append time is the arrival clock); a worker puts it into the ordered topic. Both are then
read by a plain consumer: what was sent when, and which event stands where, is known record by
record.
"""

from __future__ import annotations

import sys
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

import cli.spark.jars
from agents.kafka.declared import declared
from agents.kafka.topics import create
from benchmarks.backlog import Setting, produce
from benchmarks.race import ROOT
from benchmarks.workloads import crowd
from cli.local.process import NotReady, Process
from topology.config import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEMPLATE: Final = """\
streams:
  default:
    input: raw-{name}
    output: ordered-{name}
    reorder: {{max_wait: {max_wait}}}
    merge: {{max_wait: {max_wait}}}
stages: [reorder+merge]
application: {name}
state: memory
topics:
  partitions: 1
  replication: 1
  gaps: gaps-{name}
  late: late-{name}
  dead: dead-{name}
  clock: clock-{name}
"""
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
    """A record of either topic; `clock_ns` is the arrival clock: append time on the raw
    topic, `at` on the ordered one. A control record has only offset and clock count."""

    offset: int
    clock_ns: int
    source: str = ""
    seq: int = 0
    time_ns: int = 0
    late: bool = False

    @property
    def is_event(self) -> bool:
        return self.source != ""


@dataclass(frozen=True)
class Course:
    folder: Path
    bootstrap: str
    recipe: Recipe
    setting: Setting
    raw: list[Record]
    ordered: list[Record]

    @property
    def raw_topic(self) -> str:
        return self.setting.topology.stream("default").input

    @property
    def ordered_topic(self) -> str:
        return self.setting.output


@dataclass(frozen=True, slots=True)
class Recipe:
    """`slower`: the crowd's time is stretched by that, its delays with it. `max_wait` is what
    the topology says to both operators. `ahead_ns`: sources whose clocks are that far ahead."""

    name: str
    events: int
    slower: int = 1
    max_wait: str = "500ms"
    ahead_ns: Mapping[str, int] = field(default_factory=dict)


def prepare(folder: Path, bootstrap: str, recipe: Recipe) -> Course:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    text = TEMPLATE.format(name=name, max_wait=recipe.max_wait)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    setting = Setting(path, parse(text))
    create(declared(setting.topology), bootstrap, 1)
    raw = setting.topology.stream("default").input
    rows = crowd(recipe.events).rows
    # `produce` lays the workload's time on the wall clock, so stamps stretch with it.
    shifted_ns = {s: ns // recipe.slower for s, ns in recipe.ahead_ns.items()}
    rows = [row._replace(ts_ns=row.ts_ns + shifted_ns.get(row.source, 0)) for row in rows]
    produce(bootstrap, raw, rows, speed=1 / recipe.slower)
    different = len({(row.source, row.seq) for row in rows})
    ordered = _put_in_order(folder / name, bootstrap, setting, different)
    with _reading(bootstrap, raw) as messages:
        return Course(folder, bootstrap, recipe, setting, [_raw(m) for m in messages], ordered)


def clock_at(records: list[Record], end_offset: int) -> int:
    """The arrival clock when all records below `end_offset` had come; they are in order."""
    place = bisect_left(records, end_offset, key=lambda record: record.offset)
    return records[max(0, place - 1)].clock_ns


@contextmanager
def session(folder: Path, **settings: str) -> Iterator[SparkSession]:
    from spark_analytics.session import new_session
    from spark_analytics.tables.catalog import settings as lake_settings

    own = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    jars = [*cli.spark.jars.jars(), *cli.spark.jars.lake_jars("iceberg")]
    wanted = {**SETTINGS, **lake_settings("iceberg"), **own, **settings}
    spark = new_session("inorder benchmarks", jars, wanted)
    try:
        yield spark
    finally:
        spark.stop()


def _put_in_order(folder: Path, bootstrap: str, setting: Setting, different: int) -> list[Record]:
    """What the worker wrote, once every event is out."""
    command = [
        *(sys.executable, "-m", "inorder_engine", "worker", "--topology", str(setting.path)),
        *("--brokers", bootstrap, "--state-dir", str(folder / "state")),
    ]
    folder.mkdir()
    worker = Process("worker", command, folder, {"PYTHONPATH": str(ROOT)})
    worker.start()
    try:
        deadline_s = time.monotonic() + OUT_TIMEOUT_S
        while True:
            with _reading(bootstrap, setting.output) as messages:
                found = [_ordered(message) for message in messages]
            out = sum(record.is_event for record in found)
            if out >= different:
                return found
            if not worker.is_alive() or time.monotonic() > deadline_s:
                raise NotReady(f"{out} of {different} events came out; {worker.tail()}")
            time.sleep(1.0)
    finally:
        worker.stop()


@contextmanager
def _reading(bootstrap: str, topic: str) -> Iterator[Iterator[Any]]:
    """The committed records of the topic's only partition, up to its end."""
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
    raise NotReady("the topic has no end")


def _raw(message: Any) -> Record:
    headers = dict(message.headers())
    clock_ns = message.timestamp()[1] * NS_PER_MS
    source, seq = headers["sourceId"].decode(), int(headers["seqNum"])
    return Record(message.offset(), clock_ns, source, seq, int(headers["ts"]))


def _ordered(message: Any) -> Record:
    headers = dict(message.headers())
    offset, clock_ns = message.offset(), int(headers["at"])
    if "kind" in headers:
        return Record(offset, clock_ns)
    source, seq = headers["sourceId"].decode(), int(headers["seqNum"])
    return Record(offset, clock_ns, source, seq, int(headers["refTs"]), "late" in headers)
