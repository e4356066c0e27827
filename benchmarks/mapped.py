"""What it costs to read source, number, time and type out of JSON values, against headers.

The fused stage of `benchmarks.parts`, with the same values of 150 bytes: once with the contract's
four headers, once with none and a mapping. Rounds take turns in one process; the ratios are of
events per CPU second, of the codec alone (record batches to events, and events to record batches)
and of the whole stage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, Final

import click
import orjson
from aiokafka.producer.message_accumulator import BatchBuilder

from agents.kafka.fetching import MAX_POLL_RECORDS
from agents.process.garbage import GC_THRESHOLDS
from benchmarks.backlog import SPEED
from benchmarks.parts import (
    APPENDED_ROWS,
    CHECKPOINT_BATCHES,
    Pipeline,
    Stopwatch,
    as_kept,
    decoded,
)
from benchmarks.tables import Page, Table, thousands
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from inorder.header_writer import HeaderWriter
from topology.config import HeaderConfig

VALUE_BYTES: Final = 150
QUICK_EVENTS: Final = 40_000
FULL_EVENTS: Final = 200_000
ROUNDS: Final = 5
CODEC_PARTS: Final = ("decode", "inlet", "outlet", "checkpoint: build batches")
WAYS: Final = {
    "headers": "",
    "mapped JSON": (
        "fields: {source: payload.device, seq: payload.n, ts: payload.time, type: payload.kind}"
    ),
}


def value_of(row: Row, ts_ns: int) -> bytes:
    value = {"device": row.source, "n": row.seq, "time": ts_ns, "kind": "reading", "note": ""}
    value["note"] = "x" * (VALUE_BYTES - len(orjson.dumps(value)))
    return orjson.dumps(value)


def polls(rows: Sequence[Row], watch: Stopwatch, way: str) -> Iterator[list[Any]]:
    """Records as the client decodes them."""
    for begin in range(0, len(rows), MAX_POLL_RECORDS):
        end = min(begin + MAX_POLL_RECORDS, len(rows))
        log = b"".join(
            _appended(rows, at, min(at + APPENDED_ROWS, end), way)
            for at in range(begin, end, APPENDED_ROWS)
        )
        yield watch.time("decode", partial(decoded, log))


def _appended(rows: Sequence[Row], begin: int, end: int, way: str) -> bytes:
    writer = HeaderWriter(HeaderConfig())
    batch = BatchBuilder(16 << 20, 0)
    first_ns = rows[0].arrival_ns
    for row in rows[begin:end]:
        ts_ns = first_ns + (row.ts_ns - first_ns) // SPEED
        value = value_of(row, ts_ns)
        headers: Any = []
        if way == "headers":
            headers = writer.write(row.source, row.seq, ts_ns=ts_ns, epoch=None, type="reading")
        batch.append(timestamp=0, key=b"default", value=value, headers=headers)
    return as_kept(batch, rows, begin, end)


def measured(rows: Sequence[Row], way: str) -> tuple[float, float]:
    """CPU seconds of the codec, and of all."""
    watch = Stopwatch()
    pipeline = Pipeline(watch, WAYS[way])
    for number, records in enumerate(polls(rows, watch, way), start=1):
        pipeline.take(records)
        if number % CHECKPOINT_BATCHES == 0:
            pipeline.checkpoint()
    return sum(watch.seconds.get(part, 0.0) for part in CODEC_PARTS), sum(watch.seconds.values())


@click.command("mapped")
@click.option("--full", is_flag=True, help=f"{FULL_EVENTS:,} events instead of {QUICK_EVENTS:,}.")
@click.option("--rounds", default=ROUNDS, show_default=True)
def command(full: bool, rounds: int) -> None:
    """Events per CPU second by a mapping and by headers."""
    rows = crowd(FULL_EVENTS if full else QUICK_EVENTS, delayed=0.12).rows
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, taken in seconds.items():
            taken.append(measured(rows, way))
    title = f"Mapped JSON and headers: {len(rows):,} events, {rounds} rounds in turn"
    columns = ("way", "codec: events per CPU second", "stage: events per CPU second")
    table = Table(title, columns)
    medians = {way: [median(each) for each in zip(*s, strict=True)] for way, s in seconds.items()}
    for way, found in medians.items():
        table.add(way, *(thousands(len(rows) / each) for each in found))
    pairs = zip(medians["headers"], medians["mapped JSON"], strict=True)
    table.add("ratio", *(f"{one / other:.2f}" for one, other in pairs))
    Page().table(table)


def main(arguments: Sequence[str]) -> None:
    command.main(list(arguments), prog_name="benchmarks mapped", standalone_mode=False)
