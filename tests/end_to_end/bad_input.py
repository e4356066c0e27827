"""Producers' mistakes and their outcomes: one table, read by people and tests.

Each case has its own source. That source sends a sound number 0, then number 1 as the case
specifies, then a sound number 2. `outcome` is the outcome of number 1:

* `emitted`: it is emitted in sequence.

* `late`: it is emitted with a late mark (policy `late: pass`), as its time is long past.

* `duplicate`, `control`: it is counted, and not emitted.

* Any other outcome is the reason of its dead letter.

With `hole` the record does not show that it is number 1. Number 1 then counts as missing, and
number 2 is buffered until the gap is given up. Otherwise the dead letter takes the place of number
1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.end_to_end.records import Headers

EMITTED: Final = "emitted"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
CONTROL: Final = "control"

MB: Final = 1_000_000
S: Final = 1_000_000_000
HOUR_NS: Final = 3_600 * S
SOUND: Final = b'{"x": 1}'


@dataclass(frozen=True)
class Case:
    """A record with a mistake.

    `headers` are added to those of a sound record, and `without` removes some. `ts_ahead_ns` is the
    timestamp relative to now, or None for no `ts` header.
    """

    what: str
    outcome: str
    headers: tuple[tuple[str, bytes | None], ...] = ()
    without: tuple[str, ...] = ()
    value: bytes | None = SOUND
    value_bytes: int = 0
    key: bytes | None = b"key"
    ts_ahead_ns: int | None = 0
    hole: bool = False

    def record(self, source: str, seq: int, now_ns: int) -> tuple[bytes | None, Headers]:
        """Return the value and the headers."""
        sound: Headers = [("sourceId", source.encode()), ("seqNum", b"%d" % seq)]
        if self.ts_ahead_ns is not None:
            sound.append(("ts", b"%d" % (now_ns + self.ts_ahead_ns)))
        kept = [header for header in sound if header[0] not in self.without]
        value = b"v" * self.value_bytes if self.value_bytes else self.value
        return value, [*kept, *self.headers]


def header(what: str, name: str, value: bytes | None, outcome: str, *, hole: bool = False) -> Case:
    """Return a case whose header `name` has this value."""
    return Case(what, outcome, ((name, value),), (name,), hole=hole)


CASES: Final = (
    # Source
    Case("no headers at all", "source_missing", (), ("sourceId", "seqNum", "ts"), hole=True),
    Case("no source", "source_missing", (), ("sourceId",), hole=True),
    header("an empty source", "sourceId", b"", "source_empty", hole=True),
    header("a source without a value", "sourceId", None, "source_empty", hole=True),
    header("a source that is not UTF-8", "sourceId", b"\xff\xfe", "source_undecodable", hole=True),
    header("a source of 257 bytes", "sourceId", b"s" * 257, "source_huge", hole=True),
    Case("two sources", "source_repeated", (("sourceId", b"another"),), hole=True),
    # Sequence number
    Case("no number", "seq_missing", (), ("seqNum",), hole=True),
    header("an empty number", "seqNum", b"", "seq_empty", hole=True),
    header("a word for a number", "seqNum", b"one", "seq_not_integer", hole=True),
    header("a broken number", "seqNum", b"1.5", "seq_not_integer", hole=True),
    header("a number in hexadecimal", "seqNum", b"0x1", "seq_not_integer", hole=True),
    header("a number with a space", "seqNum", b" 1", "seq_not_integer", hole=True),
    header("a negative number", "seqNum", b"-1", "seq_negative", hole=True),
    header("a number of 2^63", "seqNum", b"%d" % 2**63, "seq_huge", hole=True),
    header("a number of 400 digits", "seqNum", b"1" * 400, "seq_huge", hole=True),
    Case("the same number twice in one record", "seq_repeated", (("seqNum", b"1"),)),
    Case("two numbers", "seq_repeated", (("seqNum", b"7"),), hole=True),
    header("a number with leading zeros", "seqNum", b"0001", EMITTED),
    Case(
        "the number of the event before",
        DUPLICATE,
        (("seqNum", b"0"),),
        ("seqNum",),
        ts_ahead_ns=-60 * S,  # A new timestamp would make it a restart.
        hole=True,
    ),
    # Stream
    header("a stream that nobody knows", "streamId", b"nowhere", "unknown_stream", hole=True),
    header("an empty stream", "streamId", b"", "stream_empty", hole=True),
    header("a stream that is not UTF-8", "streamId", b"\xff", "stream_undecodable", hole=True),
    # Epoch
    header("a word for an epoch", "epoch", b"new", "epoch_not_integer"),
    header("a negative epoch", "epoch", b"-1", "epoch_negative"),
    header("an epoch of 2^63", "epoch", b"%d" % 2**63, "epoch_huge"),
    # Time
    Case("no time", EMITTED, ts_ahead_ns=None),
    header("an empty time", "ts", b"", "ts_empty"),
    header("a word for a time", "ts", b"yesterday", "ts_unreadable"),
    header("a time of 30 digits", "ts", b"9" * 30, "ts_huge"),
    header("the time 0: the year 1970", "ts", b"0", LATE),
    header("a time before 1970", "ts", b"-1000000000", LATE),
    header("the year 1970 in words", "ts", b"1970-01-01T00:00:00Z", LATE),
    header("the year 2200", "ts", b"2200-01-01T00:00:00Z", "ahead"),
    Case("an hour and a half ahead", "ahead", ts_ahead_ns=3 * HOUR_NS // 2),
    # Kind
    header("a type that is not UTF-8", "type", b"\xff", "type_undecodable"),
    header("a kind that nobody knows", "kind", b"watermark", "kind_unknown"),
    header("a heartbeat", "kind", b"heartbeat", CONTROL),
    # Payload
    Case("no value", EMITTED, value=None),
    Case("an empty value", EMITTED, value=b""),
    Case("bytes that are no text", EMITTED, value=b"\xff\xfe\x00"),
    Case("text that is no JSON", EMITTED, value=b"{"),
    Case("10 MB", EMITTED, value_bytes=10 * MB),
    Case("more than 16 MiB", "record_huge", value_bytes=17 * MB),
    Case("no key", EMITTED, key=None),
    Case("an empty key", EMITTED, key=b""),
    # Headers that do not matter
    Case("headers of its own, one twice", EMITTED, (("trace", b"1"), ("trace", b"2"))),
    Case("a header without a value", EMITTED, (("trace", None),)),
    Case("headers that only stages write", EMITTED, (("refTs", b"7"), ("late", b"gap"))),
)
