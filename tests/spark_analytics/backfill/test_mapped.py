"""Examples: Spark reads foreign topics as the conformance table demands. End to end: a backfill of
an archive that is read by a mapping matches a replay of its dump.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from agents.stage.arrival import NS_PER_MS, ArrivalClock
from spark_analytics.backfill.archived import RecordLines
from tests.agents.stage.test_mapped_inlet import topology_of
from tests.kit.conformance import cases_of
from tests.spark_analytics.answers import assert_refused
from tests.spark_analytics.backfill.outputs import assert_replayed, backfill
from tests.spark_analytics.backfill.test_archived import archive_of, dumped
from tests.spark_analytics.marks import SPARK
from tests.spark_analytics.records import Record
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.records.line_reader import LineReader, Row

pytestmark = [*SPARK]

STAMP_MS = 6_000
BEGIN_MS = 1_700_000_000_000
TOPOLOGY = """\
streams:
  a:
    input: raw
    arrival: timestamp
    fields:
      {source: payload.device, seq: payload.n, ts: payload.time, type: payload.kind,
       payload: payload.of}
    ts_unit: ms
stages: [reorder+merge+window]
queries: {n: {window: tumbling 1s, aggregate: {n: count(), v: sum(payload.v)}}}
"""
BY_ID = TOPOLOGY.replace("seq: payload.n", "id: payload.id").replace(
    "    ts_unit: ms\n", "    ts_unit: ms\n    reorder: {rule: time}\n"
)


@pytest.mark.parametrize(("case", "mapping", "value", "expected"), cases_of("json"))
def test_spark_passes_conformance_table(
    case: str, mapping: dict[str, str], value: bytes | None, expected: Any
) -> None:
    topology = topology_of(mapping)
    record = {
        "topic": "t", "partition": 0, "offset": 9, "key": None, "headers": [],
        "value": value, "stamp_ms": STAMP_MS,
    }  # fmt: skip
    clock = ArrivalClock(0, judges=False)
    clock.now_ns = STAMP_MS * NS_PER_MS
    line = orjson.loads(orjson.dumps(RecordLines(topology).line(record, clock)))
    found = LineReader(topology.reading()).read(Row(1, line))
    if isinstance(expected, str):
        assert isinstance(found, Malformed), case
        assert line["type"]["dead"] == expected
        return
    assert isinstance(found, Event), case
    epoch = NO_EPOCH if expected["epoch"] is None else expected["epoch"]
    assert (found.source, found.seq, found.type, found.epoch) == (
        expected["source"], expected["seq"], expected["type"], epoch,
    )  # fmt: skip
    assert found.ts_ns == expected["ts_ns"]


def foreign(rng: Random) -> list[Record]:
    found = []
    numbers: dict[str, int] = {}
    for offset in range(300):
        at_ms = BEGIN_MS + 20 * offset + rng.randrange(90)
        device = f"press-{rng.randrange(3)}"
        numbers[device] = numbers.get(device, -1) + 1
        value = {
            "device": device,
            "id": numbers[device] // 2,
            "n": "x" if rng.random() < 0.03 else numbers[device],
            "time": at_ms + (0.25 if rng.random() < 0.1 else 0),
            "kind": "stroke",
            "of": {"v": rng.randrange(9), "text": "é"},
        }
        content = json.dumps(value, indent=1).encode() if rng.random() < 0.9 else b"none"
        found.append(Record(b"k", content, [], offset, at_ms, 0, "raw"))
    return found


@pytest.mark.parametrize(
    ("text", "other"), [(TOPOLOGY, "dead"), (BY_ID, "duplicate")], ids=["numbers", "ids"]
)
def test_mapped_backfill_matches_replay(
    text: str, other: str, spark: SparkSession, tmp_path: Path
) -> None:
    records = foreign(Random(3))
    source = archive_of(spark, records, tmp_path / "archive")
    answer = backfill(tmp_path, source, text=text).well()
    assert "producer's time" not in answer.err
    wanted = assert_replayed(tmp_path, dumped(records, tmp_path / "dumped.jsonl", text))
    assert {"event", other, "window"} <= {kind for _, kind in wanted}


def test_future_timestamp_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    records = foreign(Random(3))[:20]
    records[7] = records[7]._replace(stamp_ms=4_000_000_000_000)
    answer = backfill(tmp_path, archive_of(spark, records, tmp_path / "archive"), text=TOPOLOGY)
    assert_refused(answer, 3, "raw/0 has a record whose timestamp is further ahead of now")
