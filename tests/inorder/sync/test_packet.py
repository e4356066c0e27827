"""Laws and examples: packets are encoded and decoded, and no bytes raise an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.sync.packet import (
    BODY_SIZE,
    MAX_SOURCE_BYTES,
    MAX_STAMP_NS,
    NO_SEAL,
    REPORT,
    REQ,
    RSP,
    SIZE,
    UNKNOWN_MONO,
    Packet,
    encode_body,
    parse,
    source_fault,
)
from inorder.sync.reason import Reason
from topology.base.sample import Sample

UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
STAMP = st.integers(-(2**62) + 1, 2**62 - 1)
SEAL = st.binary(min_size=16, max_size=16)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=MAX_SOURCE_BYTES).filter(
    lambda name: len(name.encode()) <= MAX_SOURCE_BYTES
)


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """Draw a packet that can be sent."""
    kind = draw(st.integers(1, 4))
    return Packet(
        kind=kind,
        status=draw(st.integers(0, 2)) if kind == 4 else 0,
        key_id=draw(UINT32),
        round=draw(UINT32),
        epoch=draw(UINT64),
        segment=draw(UINT32),
        nonce=draw(UINT64),
        t1_ns=draw(STAMP),
        t2_ns=0 if kind == REQ else draw(INT64),
        t3_ns=0 if kind == REQ else draw(INT64),
        t4_ns=0 if kind in (REQ, RSP) else draw(STAMP),
        mono_ns=draw(INT64),
        source=draw(NAME),
        cookie=NO_SEAL if kind == REQ else draw(SEAL),
        signature=draw(SEAL),
    )


@given(packets())
def test_parsing_restores_packet(packet: Packet) -> None:
    raw = encode_body(packet) + packet.signature
    assert len(raw) == SIZE
    assert parse(raw) == packet


@given(st.binary(max_size=2 * SIZE))
def test_parsing_raises_for_no_bytes(raw: bytes) -> None:
    """Any bytes give a reason, or a packet that encodes to the same bytes."""
    read = parse(raw)
    assert isinstance(read, Reason) or encode_body(read) + read.signature == raw


@given(packets(), st.integers(0, SIZE - 1), st.integers(1, 255))
def test_encoding_is_unique(packet: Packet, at: int, flip: int) -> None:
    """A change of any byte gives another packet, or none."""
    raw = bytearray(encode_body(packet) + packet.signature)
    raw[at] ^= flip
    read = parse(bytes(raw))
    assert isinstance(read, Reason) or (
        read != packet and encode_body(read) + read.signature == bytes(raw)
    )


@given(packets(), st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=SIZE))
def test_other_length_is_refused(packet: Packet, kept: int, more: bytes) -> None:
    raw = encode_body(packet) + packet.signature
    assert parse(raw[:kept]) is Reason.TRUNCATED
    assert parse(raw + more) is Reason.OVERSIZED


@pytest.mark.parametrize("far_ns", [MAX_STAMP_NS, 2**63 - 1])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("field", ["t1_ns", "t4_ns"])
def test_huge_timestamps_are_refused(field: str, sign: int, far_ns: int) -> None:
    packet = Packet(REPORT, 0, 0, 0, 0, 0, 0, 0, 2**63 - 1, -(2**63), 0, UNKNOWN_MONO, "s1")
    assert MAX_STAMP_NS == 2**62
    nearly = packet._replace(**{field: sign * (MAX_STAMP_NS - 1)})  # type: ignore[arg-type]
    assert parse(encode_body(nearly) + NO_SEAL) == nearly
    beyond = packet._replace(**{field: sign * far_ns})  # type: ignore[arg-type]
    assert parse(encode_body(beyond) + NO_SEAL) is Reason.STAMPS


def test_largest_timestamps_are_plausible() -> None:
    last_ns, in_2100_ns = MAX_STAMP_NS - 1, 4_102_444_800_000_000_000
    for t_ns in (last_ns, -last_ns):
        assert Sample("s1", t_ns, in_2100_ns, in_2100_ns, t_ns, arrival_ns=0).is_plausible(0)


def test_longest_name_has_64_bytes() -> None:
    packet = Packet(REPORT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UNKNOWN_MONO, "ü" * 32)
    assert len(encode_body(packet)) == BODY_SIZE
    for name, size in (("", 0), ("ü" * 32 + "x", 65)):
        with pytest.raises(ValueError, match=f"has {size} bytes"):
            encode_body(packet._replace(source=name))
        assert "shorter name" in str(source_fault(name))
    assert source_fault("ü" * 32) is None
    assert "UTF-8" in str(source_fault("\ud800"))
