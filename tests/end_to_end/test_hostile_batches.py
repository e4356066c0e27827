"""End to end, an example table: record batches with any bytes that a broker accepts.

Each becomes dead letters with its offsets, and the events after it are emitted.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from codec.batches import RecordBatch
from codec.compression import GZIP, LZ4, ZSTD, compress
from inorder import SequencedProducer
from inorder.contract import PRESETS
from inorder.signing_keys import SigningKey, signing_key
from tests.codec.logs import Headers, batch, framed, record, varint
from tests.end_to_end.raw_sending import first_batches, send_batches
from tests.end_to_end.records import events_of, letters_of, read_all
from tests.end_to_end.replaying import dump
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.topics import large_input
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.worker import at_work
from tests.services import SharedKafka, UniqueName

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MASTER = bytes(range(32))
FAR = 1 << 30
SKIPPABLE = bytes.fromhex("502a4d18") + bytes(4)
MANY = varint(1 << 24) + b"\x00\x01" * (1 << 24)


def event(source: str, seq: int, *more: tuple[bytes, bytes | None], delta: int = 0) -> bytes:
    return record(None, b"{}", headers_of(source, seq, *more), offset_delta=delta)


def headers_of(source: str, seq: int, *more: tuple[bytes, bytes | None]) -> Headers:
    stamp = (b"ts", b"%d" % time.time_ns())
    return [(b"sourceId", source.encode()), (b"seqNum", b"%d" % seq), stamp, *more]


def packed(compression: int, payload: bytes, count: int = 1) -> bytes:
    return batch([], attributes=compression, count=count, payload=payload)


def hostile() -> list[tuple[str, bytes, list[tuple[int, str]]]]:
    """Return names, batches and their dead letters: the offsets from the first one, and the
    reasons.
    """
    good = event("bad", 0)
    bomb = compress(ZSTD, framed(b"\x00\x00\x00\x01\x01" + MANY))
    unreadable = [(0, "record_unreadable")]
    return [
        ("a header's name that is no UTF-8",
         batch([event("bad", 0, (b"\xff", b"x"))], attributes=0), unreadable),
        ("bytes behind the end of gzip",
         packed(GZIP, gzip.compress(good) + b"tail"), unreadable),
        ("16 million headers in a zstd frame", packed(ZSTD, bomb), unreadable),
        ("the same behind a skippable frame", packed(ZSTD, SKIPPABLE + bomb), unreadable),
        ("offsets far ahead",
         batch([record(None, None, [], offset_delta=FAR + at) for at in range(3)], attributes=0),
         [(at, "record_unreadable") for at in range(3)]),
        ("an offset that goes back",
         batch([record(None, None, [], offset_delta=at) for at in (0, -5, 2)], attributes=0),
         [(0, "source_missing"), (1, "record_unreadable"), (2, "source_missing")]),
    ]  # fmt: skip


def clock_words() -> list[bytes]:
    """Return batches for a compacted topic, where a broker accepts no record without a key."""
    unnamed = record(b"honest", b"{}", [(b"\xff", b"x")])
    tail = gzip.compress(record(b"honest", b"{}", [])) + b"tail"
    return [batch([unnamed], attributes=0), packed(GZIP, tail)]


def test_events_follow_a_hostile_batch(
    kafka: SharedKafka, settles: Settles, tmp_path: Path
) -> None:
    """Number 1 comes last, after a kill of the stage. Until then all others are buffered, and the
    new stage reads them again, past the hostile batches.
    """
    setting = settles.fused(
        raw=large_input(kafka), stream="reorder: {start: zero, rule: fixed, max_wait: 40s}"
    )
    clock = setting.topology.topics.clock
    table = hostile()
    large = record(None, os.urandom(4_300_000), headers_of("honest", len(table) + 2))
    with at_work(setting) as worker:
        emitted = Emitted(setting)
        send_batches(setting.bootstrap, clock, clock_words())
        sent = [batch([event("honest", 0)], attributes=0)]
        for seq, (_, log, _) in enumerate(table, start=2):
            sent += [log, batch([event("honest", seq)], attributes=0)]
        sent.append(batch([large], attributes=LZ4))
        offsets = send_batches(setting.bootstrap, setting.raw, sent)
        wanted = [
            (base + place, reason)
            for base, (_, _, ends) in zip(offsets[1::2], table, strict=False)
            for place, reason in ends
        ]
        emitted.wait_for(1 + len(wanted))
        worker.kill_stage(0)
        last = batch([event("honest", 1)], attributes=0)
        send_batches(setting.bootstrap, setting.raw, [last])
        emitted.wait_for(len(table) + 3 + len(wanted))
        emitted.close()
        assert worker.ask("live")[0] == 200
    assert "Traceback" not in worker.log
    assert sorted(names(setting)) == [("honest", 0, seq) for seq in range(len(table) + 3)]
    assert dead(setting) == wanted
    assert dump(setting, tmp_path / "raw.jsonl") == len(table) + 3 + len(wanted)


def test_negative_offset_is_dead_letter(settles: Settles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INORDER_MASTER_KEYS", MASTER.hex())
    setting = settles.fused(stream="signed: true")
    sly = [event("x", 0), event("press-7", 0, delta=-1_000), event("x", 2, delta=2)]
    sent = [batch(sly, attributes=0), batch([signed()], attributes=0)]
    with at_work(setting):
        base = send_batches(setting.bootstrap, setting.raw, sent)[0]
        wait_out(setting, 4)
    assert names(setting) == [("press-7", 0, 0)]
    reasons = ("unsigned", "record_unreadable", "unsigned")
    assert dead(setting) == [(base + at, reason) for at, reason in enumerate(reasons)]


def test_forged_id_drops_no_event(kafka: SharedKafka, unique_name: UniqueName) -> None:
    """A broker detects duplicates by the producer's id and number in a batch, which any sender can
    forge.
    """
    topic = unique_name("raw")
    kafka.create_topic(topic, 1)
    key = SigningKey.parse(signing_key(MASTER, "source", "press-7"))
    with SequencedProducer(kafka.bootstrap, topic, "press-7", signing_key=key) as producer:
        producer.send(b"{}")
        producer.flush()
        sent = RecordBatch(first_batches(kafka.bootstrap, topic))
        producer_id = (sent.producer_id, sent.producer_epoch, sent.base_sequence + 1)
        if sent.producer_id >= 0:
            forged = batch([event("x", 9)], attributes=0, producer=producer_id)
            send_batches(kafka.bootstrap, topic, [forged])
        producer.send(b"{}")
        producer.flush()
    stored = [dict(record.headers)["sourceId"] for record in read_all(kafka.bootstrap, topic)]
    assert stored.count(b"press-7") == 2


def signed() -> bytes:
    """Return an event that the source itself has signed."""
    key = SigningKey.parse(signing_key(MASTER, "source", "press-7"))
    plain: list[tuple[str, bytes | None]] = [
        ("sourceId", b"press-7"), ("seqNum", b"0"), ("ts", b"0"),
    ]  # fmt: skip
    signature = key.signature(PRESETS["plain"], plain, b"{}")
    headers = [(name.encode(), value) for name, value in [*plain, ("sig", signature)]]
    return record(None, b"{}", headers)


def names(setting: Setting) -> Sequence[tuple[str, int, int]]:
    return [each.name for each in events_of(setting)]


def dead(setting: Setting) -> list[tuple[int, str]]:
    return [(letter["offset"], letter["reason"]) for letter in letters_of(setting)]
