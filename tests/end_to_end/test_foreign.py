"""End to end: a topic that others made (JSON values, no headers, CreateTime) goes through a worker
as it is, exactly once under kill -9, and its dump replayed gives the same answer; without a word
about arrivals it is refused.

`tick_lag` is long, as in test_same_answer."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from agents.exits import Exit
from benchmarks.workloads import crowd
from benchmarks.workloads.rows import Row
from cli.local.poll import wait_until
from inorder import rfc3339
from tests.end_to_end.oracle import Evidence, checked
from tests.end_to_end.records import Headers, Read, Sender, contract, read_all
from tests.end_to_end.replaying import differences, dump, replay, said
from tests.end_to_end.setting import Setting, fused
from tests.end_to_end.trouble import Trouble, play
from tests.end_to_end.worker import running, worker_on
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 8_000
SPEED = 0.25
MAPPING = "fields: {source: payload.device.id, seq: payload.n, ts: payload.time}"
TIMEOUT_S = 60.0
CALM = "tick_lag: 3s\n"


class Foreigner(Sender):
    """Sends what others do, with a header that means something else to us. A time has all its
    digits: the oracle knows one order of events of one instant, and a newcomer cannot keep it."""

    def record_of(self, row: Row, ts_ns: int) -> tuple[bytes, Headers]:
        at = rfc3339.spelled(ts_ns)
        value = {"device": {"id": row.source}, "n": row.seq, "time": at, "note": "\xe4"}
        return orjson.dumps(value), [("kind", b"telemetry"), ("trace", b"%d" % row.seq)]


def settled(kafka: SharedKafka, folder: Path, stream: str) -> Setting:
    raw = f"telemetry-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(raw, 1, {"message.timestamp.type": "CreateTime"})
    return fused(kafka.bootstrap, folder, raw=raw, stream=stream, more=CALM)


def time_of(value: dict[str, Any]) -> int:
    ts_ns = rfc3339.parse_ns(value["time"].encode())
    assert ts_ns is not None
    return ts_ns


def as_ours(record: Read) -> Read:
    value = orjson.loads(record.value or b"")
    headers = contract(value["device"]["id"], value["n"], time_of(value))
    return record._replace(headers=headers)


def test_exactly_once_with_the_original_bytes_and_the_same_answer(
    kafka: SharedKafka, tmp_path: Path
) -> None:
    setting = settled(kafka, tmp_path, f"arrival: timestamp, {MAPPING}")
    rows = crowd(EVENTS).rows
    sender = Foreigner(setting, rows, speed=SPEED)
    play(setting, tmp_path, rows, SPEED, [(0.3, Trouble.kill_worker)], sender=sender)
    topics = setting.topology.topics
    names = (setting.ordered, topics.late, topics.dead, topics.gaps)
    ordered, late, dead, gaps = (read_all(setting.bootstrap, name) for name in names)
    raw = [as_ours(record) for record in read_all(setting.bootstrap, setting.raw)]
    verdict = checked(Evidence(raw, ordered, late, dead, gaps))
    print(verdict)
    assert not verdict.faults, verdict
    lines = tmp_path / "raw.jsonl"
    assert dump(setting, lines) == len(raw)
    assert differences(said(ordered), replay(setting, lines)) == []
    (event, *_) = [record for record in ordered if not record.is_control]
    assert event.header("trace") == str(event.number("seqNum"))
    assert event.header("ts") == str(time_of(orjson.loads(event.value or b"")))


def test_a_topic_without_append_time_has_to_say_when_records_arrive(
    kafka: SharedKafka, tmp_path: Path
) -> None:
    setting = settled(kafka, tmp_path, MAPPING)
    rows = crowd(100).rows
    Foreigner(setting, rows).start().finish()
    worker = worker_on(setting, tmp_path)
    with running(worker, may_start=[worker]):
        wait_until(lambda: not worker.alive, TIMEOUT_S, "the worker's refusal")
        assert worker.exit_code() == Exit.REFUSED
        assert "write streams: {default: {arrival: timestamp}}" in worker.log
