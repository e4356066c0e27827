"""Law: both codecs read the same from signed records, in the order of the log."""

from __future__ import annotations

from typing import Any

import codec
from agents.stage.arrival import ArrivalClock
from agents.stage.inlet import RawInlet
from codec import plain
from inorder.contract import PRESETS
from inorder.signing_keys import SigningKey, signing_key
from tests.codec.logs import APPEND_TIME, NOW_MS, batch, record
from topology.base.event import DEAD
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader
from topology.records.signed import FORGED, UNSIGNED, SignatureCheck

NAMES = PRESETS["plain"]
MASTER = bytes(range(32))
KEY = SigningKey.parse(signing_key(MASTER, "source", "s1"))
SOUND, LATER, NAKED, MOVED, BROKEN, HUGE, WORD = range(7)
MAX_BYTES = 1_000


def headers_of(case: int, seq: int) -> tuple[list[tuple[str, bytes | None]], bytes]:
    headers: list[tuple[str, bytes | None]] = [("sourceId", b"s1"), ("seqNum", b"%d" % seq)]
    headers.append(("ts", b"soon" if case == BROKEN else b"%d" % (5_000_000 + seq)))
    if case == WORD:
        headers.append(("kind", b"heartbeat"))
    value = bytes(2 * MAX_BYTES) if case == HUGE else b'{"x": %d}' % seq
    if case != NAKED:
        headers.append(("sig", KEY.signature(NAMES, headers, value)))
    if case == MOVED:
        headers[1] = ("seqNum", b"%d" % (seq + 100))
    return headers, value


def log() -> bytes:
    records = []
    for at, case in enumerate((SOUND, NAKED, LATER, MOVED, BROKEN, HUGE, WORD, SOUND)):
        headers, value = headers_of(case, at)
        raw = [(name.encode(), content) for name, content in headers]
        records.append(record(b"k", value, raw, offset_delta=at))
    return batch(records, base_offset=40, attributes=APPEND_TIME, first_ms=NOW_MS, latest_ms=NOW_MS)


def told(records: list[Any]) -> tuple[list[tuple[int, str, int]], list[tuple[int, str]]]:
    check = SignatureCheck(NAMES, ["default"], [MASTER])
    inlet = RawInlet(HeaderReader(HeaderConfig()), MAX_BYTES, check)
    read = inlet.read(records, ArrivalClock(0))
    again = inlet.read_again(records)
    assert [(e.offset, e.seq) for e in again] == [(e.offset, e.seq) for e in read.events]
    events = [(event.offset, event.kind, event.seq) for event in read.events]
    return events, [(dead.offset, dead.reason) for dead in read.dead]


def test_law_codecs_accept_the_same() -> None:
    by_native, by_plain = (
        told(list(make(log()).next_batch() or ()))
        for make in (codec.memory_records, plain.memory_records)
    )
    assert by_native == by_plain
    events, dead = by_native
    assert events == [
        (40, "", 0),
        (42, "", 2),
        (44, DEAD, 4),  # A signed, unreadable record keeps its place.
        (45, DEAD, 5),
        (46, "heartbeat", 6),
        (47, "", 7),
    ]
    assert dead == [(41, UNSIGNED), (43, FORGED), (44, "ts_unreadable"), (45, "record_huge")]
