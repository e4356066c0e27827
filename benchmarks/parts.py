"""Where the time of the fused stage goes, per event and part.

The very classes of the worker, without the broker and without asyncio: record batches as
the codec at work decodes them, the inlet, the operators, what is held, output batches,
metrics, and a checkpoint every `CHECKPOINT_BATCHES` polls. Each part is timed over a
whole poll, so the timer costs nothing. What is missing against the worker is the way
between the threads, the sockets, and the commit.
"""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

import codec
from agents.kafka.fetching import MAX_POLL_RECORDS
from agents.kafka.whole_batches import Fetched
from agents.process.garbage import GC_THRESHOLDS
from agents.stage.arrangement import arrange, topics_of
from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS, ArrivalClock
from agents.stage.delivery import MAX_BATCH_BYTES
from agents.stage.outbox import Outbox
from agents.state import changelog
from agents.state.held import STAMPED_FROM, HeldPages
from agents.watch.metrics.partition import PartitionMetrics
from agents.watch.metrics.worker import Metrics
from benchmarks.backlog import SPEED, VALUE_BYTES
from benchmarks.tables import Page, Table, thousands
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from inorder.header_writer import HeaderWriter
from inorder.signing_keys import SigningKey, signing_key
from topology.config import HeaderConfig, parse
from topology.model.event import Event
from topology.model.operator import Changes, Operator
from topology.model.outcome import Step

QUICK_EVENTS: Final = 50_000
FULL_EVENTS: Final = 300_000
CHECKPOINT_BATCHES: Final = 2
APPENDED_ROWS: Final = 250
"""In one record batch of the input; they share an append time."""

# Where a record batch (format 2) has its fields, in bytes.
BASE_OFFSET_AT: Final = 0
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
TIMESTAMP_TYPE_BIT: Final = 3

TOPOLOGY: Final = "streams: {default: {%s}}\nstages: [reorder+merge]\ntopics: {partitions: 1}\n"
SOURCE: Final = TopicPartition("events.raw", 0)
MASTER: Final = bytes(range(32))
PREFIX: Final = ""
"""With `--signed` all sources sign by one key; what is checked costs the same for each its own."""

T = TypeVar("T")


class Stopwatch:
    """CPU seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, part: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        done = work()
        self.add(part, time.process_time() - began)
        return done

    def add(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds


class Timed(Operator):
    """An operator whose batches are timed; no more is asked of it here."""

    def __init__(self, part: str, operator: Operator, watch: Stopwatch) -> None:
        self._part, self._operator, self._watch = part, operator, watch

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        return self._watch.time(self._part, lambda: self._operator.on_batch(events, now_ns))

    def changes(self) -> Changes:
        return self._operator.changes()


class Pipeline:
    """The order of work in `agents.stage.partition`, part by part."""

    def __init__(self, watch: Stopwatch, stream: str = "") -> None:
        topology = parse(TOPOLOGY % stream)
        description = topology.stages[0]
        partitions = dict.fromkeys(topics_of(topology, description), 1)
        arrangement = arrange(topology, description, partitions, (MASTER,))
        self._watch = watch
        self._stage = arrangement.operators(SOURCE)
        self._stage.keep_moved()
        for chain in self._stage.chains.values():
            for node in chain.nodes:
                node.operator = Timed(node.name, node.operator, watch)
        self._inlet = arrangement.inlet(SOURCE)
        self._outlet = arrangement.outlet(SOURCE)
        self._side = arrangement.side_outlet(SOURCE)
        self._clock = ArrivalClock(topology.tick_lag_ns)
        self._outbox = Outbox(
            partial(codec.new_batch, MAX_BATCH_BYTES, None, is_transactional=True)
        )
        self._held = HeldPages(topology.spill_after_ns, STAMPED_FROM, self._stage.waiting_places)
        metrics = Metrics(CollectorRegistry())
        self._metrics = PartitionMetrics(metrics, "reorder+merge", SOURCE, self._stage.chains)
        self.changelog_bytes = 0

    def take(self, records: Sequence[Any]) -> None:
        watch = self._watch
        read = watch.time("inlet", lambda: self._inlet.read(records, self._clock))
        before = sum(watch.seconds.values())
        began = time.process_time()
        step = self._stage.on_batch(read.events, self._clock.now_ns)
        inside = sum(watch.seconds.values()) - before
        watch.add("chain", time.process_time() - began - inside)
        begin = read.events[0].offset
        watch.time("held", lambda: self._held.took(read.events))
        watch.time("metrics", lambda: self._metrics.received(read.events, read.dead))
        watch.time("outlet", lambda: self._outlet.put_all(step.released, self._outbox))
        watch.time("held", lambda: self._held.let_go(step.released, before=begin))
        watch.time("held", lambda: self._held.let_go(self._stage.take_moved(), before=begin))
        watch.time("metrics", lambda: self._metrics.emitted(step))

    def checkpoint(self) -> None:
        watch = self._watch
        changes = watch.time("checkpoint: changes", self._stage.changes)
        held = watch.time("checkpoint: held", lambda: dict(self._held.changes(self._clock.now_ns)))
        encoded = watch.time("checkpoint: encode", lambda: changelog.encoded({**changes, **held}))
        self.changelog_bytes += sum(len(k) + len(v or b"") for k, v in encoded.items())
        batches = self._outbox.take()
        builders = [builder for some in batches.values() for builder in some]
        watch.time("checkpoint: build batches", lambda: [each._build() for each in builders])


def polls(rows: Sequence[Row], watch: Stopwatch, *, signed: bool = False) -> Iterator[list[Any]]:
    """Records as the client decodes them, `MAX_POLL_RECORDS` at a time."""
    for begin in range(0, len(rows), MAX_POLL_RECORDS):
        end = min(begin + MAX_POLL_RECORDS, len(rows))
        log = b"".join(
            _appended(rows, at, min(at + APPENDED_ROWS, end), signed=signed)
            for at in range(begin, end, APPENDED_ROWS)
        )
        yield watch.time("decode", partial(decoded, log))


def _appended(rows: Sequence[Row], begin: int, end: int, *, signed: bool) -> bytes:
    """A record batch as the broker keeps it: with its offset, and its append time."""
    key = SigningKey.parse(signing_key(MASTER, "prefix", PREFIX)) if signed else None
    headers = HeaderWriter(HeaderConfig(), key)
    batch = BatchBuilder(16 << 20, 0)
    value = bytes(VALUE_BYTES)
    first_ns = rows[0].arrival_ns
    for row in rows[begin:end]:
        ts_ns = first_ns + (row.ts_ns - first_ns) // SPEED
        contract = headers.write(row.source, row.seq, ts_ns=ts_ns, epoch=0, value=value)
        batch.append(timestamp=0, key=b"default", value=value, headers=contract)
    return as_kept(batch, rows, begin, end)


def as_kept(batch: Any, rows: Sequence[Row], begin: int, end: int) -> bytes:
    """A filled batch as the broker has it, of these rows."""
    first_ns = rows[0].arrival_ns
    log = bytearray(batch._build())
    append_ms = (first_ns + (rows[end - 1].arrival_ns - first_ns) // SPEED) // NS_PER_MS
    struct.pack_into(">q", log, BASE_OFFSET_AT, begin)
    struct.pack_into(">h", log, ATTRIBUTES_AT, LOG_APPEND_TIME << TIMESTAMP_TYPE_BIT)
    struct.pack_into(">q", log, MAX_TIMESTAMP_AT, append_ms)
    return bytes(log)


def decoded(log: bytes) -> list[Any]:
    records = PartitionRecords(
        SOURCE, codec.memory_records(log), [], 0, None, None, check_crcs=False, isolation_level=1
    )
    return Fetched(records).take(MAX_POLL_RECORDS)


def measure(events: int, delayed: float, *, signed: bool = False) -> tuple[Stopwatch, int]:
    rows = crowd(events, delayed=delayed).rows
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    watch = Stopwatch()
    pipeline = Pipeline(watch, "signed: true" if signed else "")
    for number, records in enumerate(polls(rows, watch, signed=signed), start=1):
        pipeline.take(records)
        if number % CHECKPOINT_BATCHES == 0:
            pipeline.checkpoint()
    return watch, len(rows)


@click.command("parts")
@click.option("--full", is_flag=True, help=f"{FULL_EVENTS:,} events instead of fewer.")
@click.option("--events", type=click.IntRange(1))
@click.option("--delayed", type=float, multiple=True, default=(0.0, 0.01, 0.12))
@click.option("--signed", is_flag=True, help="Each record signed, and checked.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Append the table here.")
def command(
    full: bool,
    events: int | None,
    delayed: tuple[float, ...],
    signed: bool,
    markdown: Path | None,
) -> None:
    """CPU per event of each part of the fused stage, without a broker."""
    page = Page(markdown)
    length = events or (FULL_EVENTS if full else QUICK_EVENTS)
    found = [measure(length, share, signed=signed) for share in delayed]
    columns = ("part", *(f"us/event, crowd {share:.0%}" for share in delayed))
    table = Table("the fused stage, part by part", columns)
    for part in found[0][0].seconds:
        table.add(part, *(f"{1e6 * watch.seconds[part] / n:.2f}" for watch, n in found))
    totals = [(sum(watch.seconds.values()), n) for watch, n in found]
    table.add("all", *(f"{1e6 * seconds / n:.2f}" for seconds, n in totals))
    table.add("events per CPU second", *(thousands(n / seconds) for seconds, n in totals))
    page.table(table)
