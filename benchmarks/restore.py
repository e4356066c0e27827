"""How long a worker takes to begin again: with its local copy, and where that is lost.

`--sources` sources have spoken, so the state of the fused stage's partition has some three entries
of each. Then the worker is stopped and started again, in turn with its copy as it was and after the
copy was lost: the folder deleted, Redis flushed. Timed is the restore of the partition, as the
stage's own metric has it, which is what grows with the state; the start of the processes comes on
top. After each start one more event has to come out.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from redis import Redis

import infra.redis
from agents.kafka.stage_topics import changelog_topic
from benchmarks.backlog import Setting, settle
from benchmarks.kafka import APPEND_TIME
from benchmarks.race import Outcome
from benchmarks.tables import Page, Table
from benchmarks.worker import Worker
from cli.local.kafka import create_topic
from cli.local.poll import wait_until
from infra.kafka import missing, new_broker
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig

STAGE: Final = "reorder+merge"
NUMBERS: Final = 2
TIMEOUT_S: Final = 300.0
COLUMNS: Final = ("local copy", "entries", "restore s", "us an entry", "s a million")


@dataclass(frozen=True, slots=True)
class Case:
    """`lose` makes the local copy go away while the worker is down."""

    name: str
    state: str
    lose: Callable[[Path, str], None] = lambda _, __: None


def without_folder(folder: Path, _: str) -> None:
    shutil.rmtree(folder)


def flushed(_: Path, redis_url: str) -> None:
    with Redis.from_url(redis_url) as server:
        server.flushall()


CASES: Final = (
    Case("RocksDB, as it was", "rocksdb"),
    Case("RocksDB, folder deleted", "rocksdb", without_folder),
    Case("Redis, as it was", "redis"),
    Case("Redis, flushed", "redis", flushed),
    Case("none: from the changelog", "memory"),
)


class Begun:
    """A worker on a state of so many sources, which may be killed and begin again."""

    def __init__(self, case: Case, folder: Path, bootstrap: str, redis_url: str) -> None:
        self._case, self._bootstrap, self._redis_url = case, bootstrap, redis_url
        self.raw = f"raw-{uuid.uuid4().hex[:8]}"
        create_topic(bootstrap, self.raw, 1, config=APPEND_TIME)
        more = f"redis: {redis_url}\n" if case.state == "redis" else ""
        self.setting: Setting = settle(folder, bootstrap, self.raw, state=case.state, more=more)
        name = f"worker-{self.raw}"
        self._worker = Worker(name, self.setting, bootstrap, folder, "--instance", "one")
        self._outcome = Outcome(bootstrap, self.setting.output)

    def fill(self, sources: int) -> None:
        self._worker.start()
        for number in range(NUMBERS):
            self._send(sources, number)
        self._wait_out(NUMBERS * sources)

    def again(self, sources: int, turn: int) -> float:
        """Seconds of the restore, after the copy went as the case says."""
        self._worker.stop()
        self._case.lose(self._worker.state, self._redis_url)
        self._worker.start()
        seconds = self._restore_seconds()
        before = self._outcome.records()
        self._send(1, NUMBERS + turn)
        self._wait_out(before + 1)
        return seconds

    def entries(self) -> int:
        """Keys of the changelog that have a value."""
        topic = changelog_topic(self.setting.topology.application, STAGE, self.raw)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "entries",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        known: set[object] = set()
        try:
            while True:
                for message in consumer.consume(5_000, 1.0):
                    error = message.error()
                    if error is None:
                        change = known.discard if message.value() is None else known.add
                        change(message.key())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return len(known)
        finally:
            consumer.close()

    def close(self) -> None:
        self._worker.stop()
        self._outcome.close()

    def _restore_seconds(self) -> float:
        for sample in self._worker.samples():
            if sample.name == "inorder_checkpoint_restore_seconds_sum":
                return float(sample.value)
        raise LookupError("the worker tells no time of a restore")

    def _send(self, sources: int, number: int) -> None:
        headers = HeaderWriter(HeaderConfig())
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        for source in range(sources):
            contract = headers.write(f"s{source:06d}", number, ts_ns=time.time_ns(), epoch=0)
            producer.produce(self.raw, b"{}", b"default", headers=contract)
        if producer.flush(TIMEOUT_S):
            raise TimeoutError(f"the broker did not take {sources} events")

    def _wait_out(self, records: int) -> None:
        what = f"{records} events to come out"
        wait_until(lambda: self._outcome.records() >= records, TIMEOUT_S, what)


@click.command("restore")
@click.option("--sources", type=click.IntRange(1), default=5_000, show_default=True)
@click.option("--turns", type=click.IntRange(1), default=1, show_default=True)
@click.option("--full", is_flag=True, help="100 000 sources, three turns of each.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
def command(sources: int, turns: int, full: bool, markdown: Path | None) -> None:
    """How long the state of a partition takes to be there again."""
    page = Page(markdown)
    absent = missing() or infra.redis.missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    sources, turns = (100_000, 3) if full else (sources, turns)
    table = Table(f"the state of {sources} sources, begun again", COLUMNS)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        broker, redis = new_broker(folder / "kafka"), infra.redis.RedisServer(folder / "redis")
        stack.enter_context(broker)
        stack.enter_context(redis)
        begun = {}
        for case in CASES:
            begun[case.name] = Begun(case, folder, broker.bootstrap, redis.url)
            stack.callback(begun[case.name].close)
            begun[case.name].fill(sources)
        seconds: dict[str, list[float]] = {name: [] for name in begun}
        for turn in range(turns):
            for name, each in begun.items():
                seconds[name].append(each.again(sources, turn))
        for name, each in begun.items():
            entries = each.entries()
            restore_s = sorted(seconds[name])[len(seconds[name]) // 2]
            us = 1e6 * restore_s / entries
            table.add(name, str(entries), f"{restore_s:.2f}", f"{us:.1f}", f"{us:.1f}")
    page.table(table)
