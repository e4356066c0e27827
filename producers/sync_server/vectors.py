"""Writes conformance vectors of the protocol, for authors of clients in other languages.

    python -m producers.sync_server.vectors      # rewrites vectors.json next to this file

The file has complete exchanges: the keys, the fields and bytes of each packet, and the offset
computed from the round. It also has packets that must be refused, each with the reason. The content
depends only on the constants below and on the protocol's implementation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from inorder.sync.keys import GivenKey, KeyRing
from inorder.sync.known import Interval
from inorder.sync.packet import (
    LAYOUT,
    MAX_STAMP_NS,
    NO_SEAL,
    REPORT,
    REQ,
    UNKNOWN_MONO,
    Packet,
    encode_body,
    parse,
)
from inorder.sync.reason import Reason
from producers.sync_server.answering import Answerer

PATH: Final = Path(__file__).with_name("vectors.json")
FORMAT: Final = 1
SECRET: Final = bytes(range(32))
OWN_SECRET: Final = bytes(range(32, 64))
KINDS: Final = {1: "REQ", 2: "RSP", 3: "REPORT", 4: "ACK"}

_PLAIN: Final = Packet(
    kind=REQ,
    status=0,
    key_id=0,
    round=1,
    epoch=0,
    segment=0,
    nonce=0x0123456789ABCDEF,
    t1_ns=10_000,
    t2_ns=0,
    t3_ns=0,
    t4_ns=0,
    mono_ns=UNKNOWN_MONO,
    source="s1",
)
_SIGNED: Final = _PLAIN._replace(
    key_id=7,
    round=4_000_000_000,
    epoch=1_767_225_600,
    segment=3,
    nonce=2**64 - 1,
    t1_ns=1_767_225_600_000_000_001,
    mono_ns=-5,
    source="Prüfstand 7 " + "x" * 51,
)
"""A signed packet with the longest possible name, 64 bytes."""


def build_vectors() -> dict[str, Any]:
    """Return the content of `vectors.json`."""
    return {
        "format": FORMAT,
        "about": "docs/reference/sync_protocol.md; bytes and secrets are hex, times ns",
        "exchanges": [
            _exchange("without a key", _PLAIN, None, (9_005, 9_006, 10_013)),
            _exchange(
                "with a key",
                _SIGNED,
                SECRET,
                (1_767_225_600_250_000_000, 1_767_225_600_250_040_000, 1_767_225_600_001_500_000),
            ),
        ],
        "refused": [
            {"about": about, "packet": raw.hex(), "reason": str(reason)}
            for about, raw, reason in _list_refused()
        ],
    }


def _exchange(
    about: str, request: Packet, secret: bytes | None, stamps: tuple[int, int, int]
) -> dict[str, Any]:
    t2_ns, t3_ns, t4_ns = stamps
    given = [GivenKey(request.key_id, secret)] if secret else None
    keys = KeyRing.holding(given) if given else KeyRing.open_to_all()
    key = keys.of(request.source)
    server = Answerer(keys, lambda _: True, now_ns=lambda: t3_ns, monotonic_s=lambda: 0.0)
    server.renew(OWN_SECRET)

    req = key.sign(encode_body(request))
    rsp = server.answer(req, t2_ns).reply
    assert rsp is not None
    response = parse(rsp)
    assert isinstance(response, Packet)
    unsealed = response._replace(kind=REPORT, t4_ns=t4_ns, signature=NO_SEAL)
    report = key.sign(encode_body(unsealed))
    ack = server.answer(report, 0).reply
    assert ack is not None
    interval = Interval(t3_ns - t4_ns, t2_ns - request.t1_ns)
    return {
        "about": about,
        "secret": secret.hex() if secret else None,
        "server_secret": OWN_SECRET.hex(),
        "packets": [_describe(raw) for raw in (req, rsp, report, ack)],
        "lower": interval.lower_ns,
        "upper": interval.upper_ns,
        "offset": interval.offset_ns,
        "round_trip": (t4_ns - request.t1_ns) - (t3_ns - t2_ns),
    }


def _describe(raw: bytes) -> dict[str, Any]:
    packet = parse(raw)
    assert isinstance(packet, Packet)
    fields = {
        name.removesuffix("_ns"): value.hex() if isinstance(value, bytes) else value
        for name, value in packet._asdict().items()
        if name != "kind"
    }
    return {"kind": KINDS[packet.kind], "fields": fields, "packet": raw.hex()}


def _list_refused() -> list[tuple[str, bytes, Reason]]:
    good = encode_body(_PLAIN) + NO_SEAL
    fields = LAYOUT.unpack(good)

    def replace_field(at: int, value: Any) -> bytes:
        return LAYOUT.pack(*fields[:at], value, *fields[at + 1 :])

    def report(t4_ns: int) -> bytes:
        return encode_body(_PLAIN._replace(kind=REPORT, t4_ns=t4_ns)) + NO_SEAL

    return [
        ("nothing", b"", Reason.TRUNCATED),
        ("a byte short", good[:-1], Reason.TRUNCATED),
        ("a byte long", good + b"\0", Reason.OVERSIZED),
        ("another protocol", replace_field(0, b"NTP4"), Reason.MAGIC),
        ("another version", replace_field(1, 2), Reason.VERSION),
        ("kind 0", replace_field(2, 0), Reason.KIND),
        ("kind 5", replace_field(2, 5), Reason.KIND),
        ("a REQ with a status", replace_field(3, 1), Reason.FIELDS),
        ("the reserved field is not 0", replace_field(9, 1), Reason.FIELDS),
        ("a REQ with t2", replace_field(12, 1), Reason.FIELDS),
        ("a REQ with t3", replace_field(13, 1), Reason.FIELDS),
        ("a REQ with t4", replace_field(14, 1), Reason.FIELDS),
        ("a REQ with a cookie", replace_field(17, b"c" * 16), Reason.FIELDS),
        ("t1 too late", replace_field(11, MAX_STAMP_NS), Reason.STAMPS),
        ("t1 too early", replace_field(11, -MAX_STAMP_NS), Reason.STAMPS),
        ("t4 too late", report(MAX_STAMP_NS), Reason.STAMPS),
        ("t4 too early", report(-MAX_STAMP_NS), Reason.STAMPS),
        ("no name", replace_field(4, 0), Reason.SOURCE),
        ("a name longer than there is room", replace_field(4, 65), Reason.SOURCE),
        ("bytes behind the name", replace_field(4, 1), Reason.SOURCE),
        ("a name that is no UTF-8", replace_field(16, b"\xff\xfe"), Reason.SOURCE),
    ]


def main() -> None:
    PATH.write_text(
        json.dumps(build_vectors(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
