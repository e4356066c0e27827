"""What it costs to read source, number, time and type out of values, against headers.

The fused stage of `benchmarks.parts`, with the same values of 150 bytes: once with the contract's
four headers, then with none and a mapping, in JSON, Avro and Protobuf. Rounds take turns in one
process; the ratios are of events per CPU second, of the codec alone (record batches to events, and
events to record batches) and of the whole stage.
"""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import fastavro
import orjson
from aiokafka.producer.message_accumulator import BatchBuilder
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
FIELDS: Final = (
    "fields: {source: payload.device, seq: payload.n, ts: payload.time, type: payload.kind}"
)
WAYS: Final = {
    "headers": "",
    "mapped JSON": FIELDS,
    "mapped Avro": f"format: avro, schema: {{file: SCHEMA}}, {FIELDS}",
    "mapped Protobuf": (
        f"format: protobuf, schema: {{file: SCHEMA, message: Telemetry}}, {FIELDS}"
    ),
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Telemetry",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "time", "type": "long"},
        {"name": "kind", "type": "string"},
        {"name": "note", "type": "string"},
    ],
}
STRING: Final = FieldDescriptorProto.TYPE_STRING
INT64: Final = FieldDescriptorProto.TYPE_INT64


def descriptors() -> Any:
    """The same as `SCHEMA`, for Protobuf."""
    found = FileDescriptorSet()
    file = found.file.add(name="plant.proto", syntax="proto3")
    message = file.message_type.add(name="Telemetry")
    kinds = {"string": STRING, "long": INT64}
    for number, field in enumerate(SCHEMA["fields"], start=1):
        optional = FieldDescriptorProto.LABEL_OPTIONAL
        kind = kinds[field["type"]]
        message.field.add(name=field["name"], number=number, type=kind, label=optional)
    return found


class Values:
    """Values of each way, of as many bytes; their schemas lie in the folder."""

    def __init__(self, folder: Path) -> None:
        self._avro = fastavro.parse_schema(SCHEMA)
        made = descriptors()
        (folder / "mapped Avro").write_bytes(orjson.dumps(SCHEMA))
        (folder / "mapped Protobuf").write_bytes(made.SerializeToString())
        pool = DescriptorPool()
        pool.Add(made.file[0])
        self._message: Any = GetMessageClass(pool.FindMessageTypeByName("Telemetry"))
        self.streams = {
            way: stream.replace("SCHEMA", f"'{folder / way}'") for way, stream in WAYS.items()
        }

    def value(self, way: str, row: Row, ts_ns: int) -> bytes:
        value = {"device": row.source, "n": row.seq, "time": ts_ns, "kind": "reading", "note": ""}
        short = self._encoded(way, value)
        value["note"] = "x" * (VALUE_BYTES - len(short) - NOTE_FRAMING_BYTES.get(way, 0))
        return self._encoded(way, value)

    def _encoded(self, way: str, value: dict[str, Any]) -> bytes:
        if way == "mapped Avro":
            content = io.BytesIO()
            fastavro.schemaless_writer(content, self._avro, value)
            return content.getvalue()
        if way == "mapped Protobuf":
            encoded: bytes = self._message(**value).SerializeToString()
            return encoded
        return orjson.dumps(value)


NOTE_FRAMING_BYTES: Final = {"mapped Avro": 1, "mapped Protobuf": 2}
"""More than of an empty note."""


def polls(rows: Sequence[Row], watch: Stopwatch, way: str, values: Values) -> Iterator[list[Any]]:
    """Records as the client decodes them."""
    for begin in range(0, len(rows), MAX_POLL_RECORDS):
        end = min(begin + MAX_POLL_RECORDS, len(rows))
        log = b"".join(
            _appended(rows, at, min(at + APPENDED_ROWS, end), way, values)
            for at in range(begin, end, APPENDED_ROWS)
        )
        yield watch.time("decode", partial(decoded, log))


def _appended(rows: Sequence[Row], begin: int, end: int, way: str, values: Values) -> bytes:
    writer = HeaderWriter(HeaderConfig())
    batch = BatchBuilder(16 << 20, 0)
    first_ns = rows[0].arrival_ns
    for row in rows[begin:end]:
        ts_ns = first_ns + (row.ts_ns - first_ns) // SPEED
        value = values.value(way, row, ts_ns)
        headers: Any = []
        if way == "headers":
            headers = writer.write(row.source, row.seq, ts_ns=ts_ns, epoch=None, type="reading")
        batch.append(timestamp=0, key=b"default", value=value, headers=headers)
    return as_kept(batch, rows, begin, end)


def measured(rows: Sequence[Row], way: str, values: Values) -> tuple[float, float]:
    """CPU seconds of the codec, and of all."""
    watch = Stopwatch()
    pipeline = Pipeline(watch, values.streams[way])
    for number, records in enumerate(polls(rows, watch, way, values), start=1):
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
    with TemporaryDirectory() as folder:
        values = Values(Path(folder))
        for _ in range(rounds):
            for way, taken in seconds.items():
                taken.append(measured(rows, way, values))
    title = f"Mapped values and headers: {len(rows):,} events, {rounds} rounds in turn"
    columns = ("way", "codec: events per CPU second", "stage: events per CPU second")
    table = Table(title, columns)
    medians = {way: [median(each) for each in zip(*s, strict=True)] for way, s in seconds.items()}
    for way, found in medians.items():
        table.add(way, *(thousands(len(rows) / each) for each in found))
    for way in list(WAYS)[1:]:
        pairs = zip(medians["headers"], medians[way], strict=True)
        table.add(f"ratio of {way}", *(f"{one / other:.2f}" for one, other in pairs))
    Page().table(table)
