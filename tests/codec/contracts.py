"""Seeded records of topics, mostly as they should be: what the laws of events and of writing
run over."""

from __future__ import annotations

import random
from typing import Final

from codec.face import ORDERED, RAW, SEQUENCED
from inorder.contract import HeaderContract
from tests.codec.logs import APPEND_TIME, NAMES, NOW_MS, VALUES, batch, record, seeded_headers
from tests.codec.ways import Setting

STREAMS: Final = (None, b"default", b"s", b"\xce\xbc", b"timed")
TIMES: Final = (b"5000000", b"1700000000", b"2024-05-01T12:00:00.25Z", b"2024-02-30T00:00:00Z")


def seeded_setting(dice: random.Random) -> Setting:
    contract = dice.choice((
        HeaderContract(), HeaderContract("cloudevents"), HeaderContract(ts_unit="ms"),
        HeaderContract(ts_unit="s"), HeaderContract(source="host", epoch="boot"),
    ))  # fmt: skip
    return Setting(
        contract,
        dice.choice(((), (), ("timed",), ("default", "timed"))),
        dice.choice((None, "gzip", "snappy", "lz4", "zstd")),
        dice.random() < 0.2,
    )


def seeded_topic_log(dice: random.Random, topic: str, setting: Setting) -> bytes:
    """One or two batches of records that a topic might hold."""
    log = b""
    for number in range(dice.choice((1, 2))):
        count = dice.choice((1, 5, 30))
        records = [
            record(
                dice.choice((None, b"k", b"key")),
                dice.choice(
                    (None, b"", b"{}", dice.randbytes(40), bytes(880 if topic == RAW else 50))
                ),
                headers_of(dice, topic, setting),
                delta_ms=dice.choice((0, 0, 3)),
                offset_delta=at,
                in_headers=dice.choice((0,) * 9 + (1, 3)),
            )
            for at in range(count)
        ]
        log += batch(
            records,
            base_offset=100 * number,
            attributes=dice.choice((APPEND_TIME, APPEND_TIME, 0)) | dice.choice((0, 2, 3, 4)),
            first_ms=dice.choice((NOW_MS, NOW_MS, 0, -1)),
            latest_ms=NOW_MS + number,
        )
    return log


def headers_of(
    dice: random.Random, topic: str, setting: Setting
) -> list[tuple[bytes, bytes | None]]:
    names = setting.contract.names()
    headers: list[tuple[bytes, bytes | None]] = [
        (names.source.encode(), dice.choice((b"a", b"b%d" % dice.randrange(9), b"\xce\xbc"))),
        (names.seq.encode(), b"%d" % dice.choice((0, 7, 42, 1 << 40))),
    ]
    optional = (
        (names.epoch, dice.choice((b"0", b"1", b"5", b"01"))),
        (names.ts, dice.choice(TIMES)),
        (names.stream, dice.choice(STREAMS) or b"default"),
        (names.type, dice.choice((b"reading", b"", None))),
        ("trace", dice.choice((b"x", None))),
    )
    headers += [(name.encode(), value) for name, value in optional if dice.random() < 0.4]
    if dice.random() < 0.3:
        dice.shuffle(headers)
    if topic in {SEQUENCED, ORDERED}:
        headers += stamps(dice, topic)
    if dice.random() < 0.2:
        _spoil(dice, headers, names.kind.encode())
    return headers


def stamps(dice: random.Random, topic: str) -> list[tuple[bytes, bytes | None]]:
    def moment() -> bytes:
        return b"%d" % dice.choice((0, 5_000_000, -3, 1_700_000_000_000_000_000))

    found: list[tuple[bytes, bytes | None]] = [
        (b"refTs", moment()),
        (b"err", dice.choice((b"0", b"9"))),
        (b"segment", dice.choice((b"0", b"2"))),
    ]
    found += [(b"arrival", moment())] if topic == SEQUENCED else []
    found += [(b"at", moment())]
    found += [(b"lane", dice.choice((b"0", b"2")))] if topic == SEQUENCED else []
    return found + ([(b"late", b"gap")] if dice.random() < 0.1 else [])


def _spoil(dice: random.Random, headers: list[tuple[bytes, bytes | None]], kind: bytes) -> None:
    at = dice.randrange(len(headers))
    how = dice.randrange(6)
    if how == 0:
        del headers[at]
    elif how == 1:
        headers.insert(at, dice.choice(headers))
    elif how == 2:
        headers[at] = (headers[at][0], dice.choice(VALUES))
    elif how == 3:
        words = (b"heartbeat", b"bye", b"watermark", b"progress", b"blocked", b"no", None)
        headers.append((kind, dice.choice(words)))
    elif how == 4:
        headers.insert(at, (dice.choice(NAMES), dice.choice(VALUES)))
    else:
        headers += seeded_headers(dice)
