"""Records with the columns of Spark's Kafka source, made without Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.workloads.rows import Row
from topology.base.event import WATERMARK, Event
from topology.config import HeaderConfig
from topology.records.header_reader import Headers
from topology.records.header_writer import HeaderWriter

SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = 1_000_000
S = 1_000_000_000
BEGIN_NS = 1_700_000_000 * S


class Record(NamedTuple):
    """A record of Kafka; `stamp_ms` is its timestamp."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    offset: int
    stamp_ms: int
    partition: int = 0
    topic: str = "t"

    @property
    def log(self) -> str:
        return f"{self.topic}/{self.partition}"


def frame(spark: SparkSession, records: Iterable[Record]) -> DataFrame:
    return spark.createDataFrame([_row(record) for record in records], SCHEMA)


class GivenTopics:
    """Topics with given records; others are empty. `asked` has the topics that were read."""

    streaming = False

    def __init__(
        self, spark: SparkSession, records: Mapping[str, Sequence[Record]] | None = None
    ) -> None:
        self.asked: set[str] = set()
        self._spark = spark
        self._records = records or {}

    def records(self, *topics: str) -> DataFrame:
        self.asked |= {*topics}
        return frame(self._spark, [r for topic in topics for r in self._records.get(topic, ())])


def _row(record: Record) -> tuple[object, ...]:
    stamp = EPOCH + timedelta(milliseconds=record.stamp_ms)
    place = (record.topic, record.partition, record.offset)
    return (record.key, record.value, *place, stamp, 0, list(record.headers))


def raw_records(rows: Sequence[Row]) -> list[Record]:
    """Return rows of a workload in arrival order, as producers write them, with arrival times in
    ms.
    """
    records = []
    for offset, row in enumerate(rows):
        headers: list[tuple[str, bytes | None]] = [
            ("sourceId", row.source.encode()),
            ("seqNum", b"%d" % row.seq),
            ("ts", b"%d" % row.ts_ns),
        ]
        value = b'{"v": %d}' % row.seq
        stamp_ms = row.arrival_ns // MS
        records.append(Record(row.source.encode(), value, headers, offset, stamp_ms, topic="raw"))
    return records


def ordered_records(events: Iterable[Event]) -> list[Record]:
    return list(records_of(events))


def records_of(events: Iterable[Event]) -> Iterator[Record]:
    """Yield events as MERGE writes them, in the order given.

    The value is the sequence number as JSON; a watermark becomes its control record.
    """
    writer = HeaderWriter(HeaderConfig())
    for offset, event in enumerate(events):
        stamp_ms = event.ref_time_ns // MS
        if event.kind == WATERMARK:
            headers = writer.write_control(event, 0)
            yield Record(b"default", None, headers, offset, stamp_ms, topic="ordered")
            continue
        original: list[tuple[str, bytes | None]] = [
            ("streamId", event.stream.encode()),
            ("sourceId", event.source.encode()),
            ("seqNum", b"%d" % event.seq),
            ("ts", b"%d" % event.ts_ns),
        ]
        if event.type:
            original.append(("type", event.type.encode()))
        headers = writer.write_ordered(event, original)
        value = b'{"v": %d}' % event.seq
        key = event.source.encode()
        yield Record(key, value, headers, offset, stamp_ms, topic="ordered")


def watermark(ref_ns: int, at_ns: int, stream: str = "default") -> Event:
    """Return an event with the watermark and the completeness frontier at `ref_ns`."""
    event = Event(stream, "", 0, 0, ref_ns, at_ns, kind=WATERMARK)
    event.complete_ns = ref_ns
    return event


def write_parts(spark: SparkSession, records: Sequence[Record], folder: Path, parts: int) -> None:
    """Write the records as `parts` files, which a stream with one file per batch reads in turn."""
    size = -(-len(records) // parts)
    for part in range(parts):
        begin = part * size
        path = str(folder / f"part={part:03}")
        frame(spark, records[begin : begin + size]).coalesce(1).write.parquet(path)


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a stream over the files of `write_parts`, with one file per batch."""
    reader = spark.readStream.schema(f"{SCHEMA}, part STRING").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).drop("part")


def result(name: str, revision: int, op: str, *, at: int) -> tuple[bytes, bytes]:
    """Return key and value of a window's record."""
    record = {
        "id": name,
        "query": "counted",
        "op": op,
        "revision": revision,
        "final": False,
        "confidence": "confirmed",
        "key": "7",
        "start": 0,
        "end": 10_000_000_000,
        "at": at,
        "values": {"n": revision},
    }
    return name.encode(), json.dumps(record).encode()
