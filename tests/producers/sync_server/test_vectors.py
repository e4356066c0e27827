"""Examples: the conformance vectors are read as another program would read them.

The program on the protocol's page runs too. The bytes are parsed and signed here by the offsets in
docs/reference/sync_protocol.md, not by the code under test.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import re
import struct
from typing import Any

import pytest

from inorder.sync.packet import Packet, encode_body, parse
from producers.sync_server.vectors import KINDS, PATH, build_vectors
from tests import ROOT
from tests.inorder.sync.sockets import serving

PAGE = ROOT / "docs/reference/sync_protocol.md"
FILE: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
EXCHANGES = [pytest.param(each, id=each["about"]) for each in FILE["exchanges"]]
REFUSED = [pytest.param(each, id=each["about"]) for each in FILE["refused"]]
PLACES = {
    "status": (6, "B"),
    "key_id": (8, "I"),
    "round": (12, "I"),
    "epoch": (16, "Q"),
    "segment": (24, "I"),
    "nonce": (32, "Q"),
    "t1": (40, "q"),
    "t2": (48, "q"),
    "t3": (56, "q"),
    "t4": (64, "q"),
    "mono": (72, "q"),
}


def test_file_is_up_to_date() -> None:
    assert build_vectors() == FILE, (
        "run: python -m producers.sync_server.vectors, if the change is meant"
    )


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_fields_have_their_offsets(
    exchange: dict[str, Any],
) -> None:
    kinds = [each["kind"] for each in exchange["packets"]]
    assert kinds == ["REQ", "RSP", "REPORT", "ACK"]
    for each in exchange["packets"]:
        raw, fields = bytes.fromhex(each["packet"]), each["fields"]
        assert len(raw) == 176
        assert raw[:6] == b"IOTS\x01" + bytes([1 + kinds.index(each["kind"])])
        for name, (at, form) in PLACES.items():
            assert struct.unpack_from(f">{form}", raw, at) == (fields[name],), name
        name_bytes = fields["source"].encode()
        assert raw[7] == len(name_bytes)
        assert raw[80:144] == name_bytes.ljust(64, b"\0")
        assert raw[144:160].hex() == fields["cookie"]
        assert raw[160:].hex() == fields["signature"]
        packet = parse(raw)
        assert isinstance(packet, Packet)
        assert KINDS[packet.kind] == each["kind"]
        assert encode_body(packet) + packet.signature == raw


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_signatures_and_cookies_are_right(exchange: dict[str, Any]) -> None:
    own = bytes.fromhex(exchange["server_secret"])
    secret = exchange["secret"] and bytes.fromhex(exchange["secret"])
    for each in exchange["packets"]:
        raw = bytes.fromhex(each["packet"])
        signed = hmac.new(secret, raw[:160], hashlib.sha256).digest()[:16] if secret else bytes(16)
        assert raw[160:] == signed
        sealed = raw[7:64] + bytes(8) + raw[72:144]
        cookie = hmac.new(own, sealed, hashlib.sha256).digest()[:16]
        assert raw[144:160] == (bytes(16) if each["kind"] == "REQ" else cookie)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_round_gives_bounds_and_offset(exchange: dict[str, Any]) -> None:
    fields = exchange["packets"][2]["fields"]
    t1, t2, t3, t4 = (fields[name] for name in ("t1", "t2", "t3", "t4"))
    assert exchange["lower"] == t3 - t4
    assert exchange["upper"] == t2 - t1
    assert exchange["offset"] == (t2 - t1 + t3 - t4) // 2
    assert exchange["round_trip"] == (t4 - t1) - (t3 - t2) > 0


@pytest.mark.parametrize("refused", REFUSED)
def test_bad_packet_has_its_reason(refused: dict[str, Any]) -> None:
    assert parse(bytes.fromhex(refused["packet"])) == refused["reason"]


def test_program_on_page_runs() -> None:
    ((code, printed),) = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.S
    )
    said = io.StringIO()
    with serving() as server, contextlib.redirect_stdout(said):
        exec(compile(code.replace("4123", str(server.port)), "sync_protocol.md", "exec"), {})
    assert said.getvalue() == printed
    assert [sample.source for sample in server.taken] == ["press-7"]
