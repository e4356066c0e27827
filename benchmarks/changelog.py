"""What a stage writes of its state for an event, and how long a restore reads what none compacted.

A partition of the fused stage works on `--minutes` of 300 sources in turn, 500 events a second, a
checkpoint after each tenth of a second of them: as many records and transactions as in that time,
written as quickly as they can be. Nothing of the changelog is compacted and no local copy is left.
Then the partition is opened anew. `B an event` are keys and values, as `inorder_checkpoint_bytes`
has them; `B written` is the size of the batches that a worker sends for them, compressed.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import click
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

import codec
from agents.kafka.brokers import Brokers
from agents.kafka.log_reader import LogReader
from agents.kafka.partition_queue import PolledBatch
from agents.stage.arrangement import arrange, topics_of
from agents.stage.arrival import LOG_APPEND_TIME
from agents.stage.delivery import COMPRESSION, MAX_BATCH_BYTES, Checkpoint
from agents.stage.outbox import Outbox
from agents.stage.partition import Partition
from agents.stage.services import Services
from agents.watch.metrics.worker import Metrics
from benchmarks.tables import Page, Table, count
from cli.local.kafka import create_topic
from codec.compression import MAX_OWN_BYTES
from infra.kafka import missing, new_broker
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig, parse

SOURCE: Final = TopicPartition("events.raw", 0)
TOPOLOGY: Final = (
    "streams: {default: {}}\nstages: [reorder+merge]\ncheckpoint: 1ns\nstate: memory\n"
)
RATE_HZ: Final = 500
SOURCES: Final = 300
CHECKPOINT_MS: Final = 100
START_MS: Final = 1_700_000_000_000
MARKER: Final = 1
COLUMNS: Final = (
    "minutes",
    "events",
    "keys an event",
    "B an event",
    "B written",
    "records",
    "restore s",
)


@dataclass(slots=True)
class InputRecord:
    """The fields of a record that an inlet reads."""

    offset: int
    timestamp: int
    headers: Any
    key: bytes = b"default"
    value: bytes = b"{}"
    timestamp_type: int = LOG_APPEND_TIME


class ToChangelog:
    """A delivery that writes the changes in transactions, and drops the outputs."""

    def __init__(self, bootstrap: str, changelog: tuple[str, int]) -> None:
        self._topic, self._partition = changelog
        settings = {"bootstrap.servers": bootstrap, "compression.type": "snappy", "linger.ms": 0}
        self._producer = Producer({**settings, "transactional.id": "benchmark", "log_level": 0})
        self._producer.init_transactions()
        self.keys = self.bytes = self.written_bytes = self.end = 0

    async def start(self) -> None:
        return

    async def renew(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        return

    def new_batch(self) -> Any:
        return codec.new_batch(MAX_BATCH_BYTES, COMPRESSION, is_transactional=True)

    async def commit(self, checkpoint: Checkpoint) -> int:
        outbox = Outbox(self.new_batch)
        self._producer.begin_transaction()
        for key, value in checkpoint.changes.items():
            self._producer.produce(self._topic, value, key, self._partition)
            outbox.add((self._topic, self._partition), key, value, None, [])
            self.bytes += len(key) + len(value or b"")
        for filled in outbox.take().values():
            for batch in filled:
                batch.close()
                self.written_bytes += len(batch._build())
        self._producer.commit_transaction()
        self.keys += len(checkpoint.changes)
        position = self.end + len(checkpoint.changes)
        self.end = position + MARKER
        return position


def batches(minutes: float) -> Any:
    """One for each checkpoint."""
    rng, writer = Random(1), HeaderWriter(HeaderConfig())
    numbers = [0] * SOURCES
    offset, at_ms = 0, START_MS
    per_batch = RATE_HZ * CHECKPOINT_MS // 1_000
    for _ in range(int(minutes * 60_000 / CHECKPOINT_MS)):
        records: list[Any] = []
        for at in range(per_batch):
            source = rng.randrange(SOURCES)
            ns = (at_ms + at * CHECKPOINT_MS // per_batch) * 1_000_000
            headers = writer.write(f"machine-{source:04d}", numbers[source], ts_ns=ns, epoch=0)
            numbers[source] += 1
            records.append(InputRecord(offset, ns // 1_000_000, tuple(headers)))
            offset += 1
        at_ms += CHECKPOINT_MS
        yield PolledBatch(SOURCE, records, offset, offset, None)


async def measured(bootstrap: str, minutes: float) -> tuple[str, ...]:
    topology = parse(TOPOLOGY)
    stage = topology.stages[0]
    arrangement = arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))
    changelog = arrangement.changelog(SOURCE)
    for topic in (SOURCE.topic, changelog[0]):
        create_topic(bootstrap, topic, 1)
    read = dict.fromkeys((SOURCE.topic, changelog[0]), MAX_OWN_BYTES)
    logs = LogReader(Brokers(bootstrap, is_embedded=False), arrangement.group, read)
    await logs.start()
    delivery = ToChangelog(bootstrap, changelog)
    metrics = Metrics(CollectorRegistry())
    services = Services(logs, metrics, lambda _: delivery, lambda _: None)
    first = Partition(SOURCE, arrangement, services)
    await first.open()
    first.next_offset = 0
    events = 0
    for batch in batches(minutes):
        await first.take(batch)
        first.pulse()
        await first.settle()
        events += len(batch.records)
    await first.abandon()
    second = Partition(SOURCE, arrangement, services)
    began_s = time.monotonic()
    await second.open()
    restore_s = time.monotonic() - began_s
    assert second.next_offset == events
    await second.abandon()
    await logs.stop()
    return (
        f"{minutes:g}",
        count(events),
        f"{delivery.keys / events:.2f}",
        f"{delivery.bytes / events:.0f}",
        f"{delivery.written_bytes / events:.0f}",
        count(delivery.end),
        f"{restore_s:.2f}",
    )


@click.command("changelog")
@click.option("--minutes", type=float, default=2.0, show_default=True)
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
def command(minutes: float, markdown: Path | None) -> None:
    """Bytes of state for each event, and a restore without compaction and without a copy."""
    page = Page(markdown)
    absent = missing()
    if absent:
        page.say(f"left out: {absent}")
        return
    table = Table("a changelog that nobody has compacted", COLUMNS)
    with tempfile.TemporaryDirectory() as folder, new_broker(Path(folder) / "kafka") as broker:
        table.add(*asyncio.run(measured(broker.bootstrap, minutes)))
    page.table(table)
