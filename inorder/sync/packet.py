"""Read and write the packet of time sync: `SIZE` bytes in both directions, integers big-endian.

    at   bytes  field       REQ   RSP   REPORT  ACK
    0    4      magic       "IOTS", in all
    4    1      version     1, in all
    5    1      kind        1     2     3       4
    6    1      status      0     0     0       s      0 taken, 1 taken before, 2 no room
    7    1      length      of the source's name, 1..64
    8    4      key id      0: no key
    12   4      round       the source's count of rounds, for people
    16   8      epoch       the source's epoch
    24   4      segment     jumps of the source's clock since its start
    28   4      reserved    0
    32   8      nonce       random, new for each REQ
    40   8      t1          REQ sent, source's clock, ns since 1970
    48   8      t2          0     REQ received, server's clock ...
    56   8      t3          0     RSP sent, server's clock ...
    64   8      t4          0     0     RSP received, source's clock ...
    72   8      mono        the source's clock minus its monotonic clock; -2^63: not known
    80   64     source      UTF-8, then zeros
    144  16     cookie      0     the server's seal on the round ...
    160  16     signature   of the bytes before it; 0 without a key

t1 and t4 are less than `MAX_STAMP_NS` from 1970. A field with "..." is copied to the packets on its
right. An answer is never longer than its request.

`parse` accepts any bytes and never raises. A packet has exactly one encoding: `parse` and
`encode_body` are inverse to each other. The module `keys` computes the signatures.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from inorder.sync.reason import Reason

MAGIC: Final = b"IOTS"
VERSION: Final = 1
SIZE: Final = 176
BODY_SIZE: Final = 160
"""The size of the signed part in bytes: the packet without its signature."""

REQ: Final = 1
RSP: Final = 2
REPORT: Final = 3
ACK: Final = 4

TAKEN: Final = 0
TAKEN_BEFORE: Final = 1
NO_ROOM: Final = 2

MAX_SOURCE_BYTES: Final = 64
MAX_UINT32: Final = 2**32 - 1
MAX_INT64: Final = 2**63 - 1
MAX_STAMP_NS: Final = 2**62
"""The maximum distance in ns of a timestamp from 1970, exclusive; it is 146 years.

Readers may reject rounds with timestamps at this distance or more.
"""
NO_KEY: Final = 0
UNKNOWN_MONO: Final = -(1 << 63)
NO_SEAL: Final = bytes(16)
"""The value of an absent cookie or signature."""

LAYOUT: Final = struct.Struct(">4sBBBBIIQIIQqqqqq64s16s16s")
KIND_AT: Final = 5
LENGTH_AT: Final = 7
T2_AT: Final = 48
T4_AT: Final = 64
MONO_AT: Final = 72
COOKIE_AT: Final = 144

_NAME_PADDING: Final = bytes(MAX_SOURCE_BYTES)


class Packet(NamedTuple):
    """A decoded packet. `signature` is as received and has not been checked."""

    kind: int
    status: int
    key_id: int
    round: int
    epoch: int
    segment: int
    nonce: int
    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int
    mono_ns: int
    source: str
    cookie: bytes = NO_SEAL
    signature: bytes = NO_SEAL


def parse(raw: bytes) -> Packet | Reason:
    """Return the packet in the bytes, or the reason why the bytes are not a packet."""
    if len(raw) != SIZE:
        return Reason.TRUNCATED if len(raw) < SIZE else Reason.OVERSIZED
    (
        magic, version, kind, status, length, key_id, round_, epoch, segment, reserved, nonce,
        t1_ns, t2_ns, t3_ns, t4_ns, mono_ns, name, cookie, signature,
    ) = LAYOUT.unpack(raw)  # fmt: skip
    if magic != MAGIC:
        return Reason.MAGIC
    if version != VERSION:
        return Reason.VERSION
    if not REQ <= kind <= ACK:
        return Reason.KIND
    if reserved or not _are_consistent(kind, status, t2_ns, t3_ns, t4_ns, cookie):
        return Reason.FIELDS
    if not (is_stamp(t1_ns) and is_stamp(t4_ns)):
        return Reason.STAMPS
    source = _decode_source(name, length)
    if source is None:
        return Reason.SOURCE
    return Packet(
        kind, status, key_id, round_, epoch, segment, nonce,
        t1_ns, t2_ns, t3_ns, t4_ns, mono_ns, source, cookie, signature,
    )  # fmt: skip


def encode_body(packet: Packet) -> bytes:
    """Return the bytes of the packet that are signed.

    Raises:
        ValueError: The name of the source does not fit.
    """
    name = packet.source.encode()
    if not 1 <= len(name) <= MAX_SOURCE_BYTES:
        raise ValueError(source_fault(packet.source))
    return LAYOUT.pack(
        MAGIC, VERSION, packet.kind, packet.status, len(name), packet.key_id, packet.round,
        packet.epoch, packet.segment, 0, packet.nonce, packet.t1_ns, packet.t2_ns,
        packet.t3_ns, packet.t4_ns, packet.mono_ns, name, packet.cookie, NO_SEAL,
    )[:BODY_SIZE]  # fmt: skip


def is_stamp(time_ns: int) -> bool:
    """Return whether the time is near enough to 1970 for all readers to calculate with it."""
    return abs(time_ns) < MAX_STAMP_NS


def source_fault(source: str) -> str | None:
    """Return the reason why a source of this name cannot use time sync, or None if it can."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        return f"source {source!r}: its name cannot be encoded as UTF-8; give it another name"
    if 1 <= size <= MAX_SOURCE_BYTES:
        return None
    return (
        f"source {source!r}: its name has {size} bytes, but a sync packet has room for 1 to"
        f" {MAX_SOURCE_BYTES}; give it a shorter name, or do not use sync"
    )


def _are_consistent(
    kind: int, status: int, t2_ns: int, t3_ns: int, t4_ns: int, cookie: bytes
) -> bool:
    if status > (NO_ROOM if kind == ACK else TAKEN):
        return False
    if kind == REQ:
        return not (t2_ns or t3_ns or t4_ns) and cookie == NO_SEAL
    return kind != RSP or not t4_ns


def _decode_source(name: bytes, length: int) -> str | None:
    if not 1 <= length <= MAX_SOURCE_BYTES or name[length:] != _NAME_PADDING[length:]:
        return None
    try:
        return name[:length].decode()
    except UnicodeDecodeError:
        return None
