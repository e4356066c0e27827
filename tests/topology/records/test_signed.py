"""Examples and laws: a record that its source has not signed is dead, and takes no place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.contract import PRESETS
from inorder.signing_keys import SigningKey, signing_key
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import HeaderConfig
from topology.records.checker import Reading
from topology.records.header_reader import HeaderReader
from topology.records.signed import FORGED, UNSIGNED, SignatureCheck
from topology.stage.stage import make_placeholder

NAMES = PRESETS["plain"]
MASTER, OLDER, FOREIGN = bytes(range(32)), bytes(range(1, 33)), bytes(32)
READER = HeaderReader(HeaderConfig(), Reading(frozenset({"by_time"})))
VALUE = b'{"force": 12.5}'
Headers = list[tuple[str, bytes | None]]

SOUND: Headers = [
    ("sourceId", b"press-7"),
    ("seqNum", b"17"),
    ("ts", b"1700000000000000000"),
    ("epoch", b"3"),
    ("type", b"stroke"),
    ("streamId", b"plant"),
]


def key(name: str = "press-7", scope: str = "source", master: bytes = MASTER) -> SigningKey:
    return SigningKey.parse(signing_key(master, "prefix" if scope == "prefix" else "source", name))


def sealed(headers: Headers, value: bytes | None = VALUE, by: SigningKey | None = None) -> Any:
    return [*headers, ("sig", (by or key()).signature(NAMES, headers, value))]


def check(*masters: bytes) -> SignatureCheck:
    return SignatureCheck(NAMES, ["plant", "by_time"], masters or (MASTER,))


def outcome(headers: Headers, value: bytes | None = VALUE, by: SignatureCheck | None = None) -> Any:
    item = READER.read(headers, 0, 9, 4, None, value)
    return (by or check()).admit(item, headers, value)


def refused(found: Event | Malformed) -> str:
    """Return the reason of a dead letter; assert that it takes no place in the sequence."""
    assert isinstance(found, Malformed)
    assert make_placeholder(found) is None
    assert (found.at_ns, found.offset) == (9, 4)
    return found.reason


def test_signed_record_passes_unchanged() -> None:
    headers = sealed(SOUND)
    item = READER.read(headers, 0, 9, 4, None, VALUE)
    assert check().admit(item, headers, VALUE) is item
    for kind in (b"heartbeat", b"bye"):
        word = [*SOUND, ("kind", kind)]
        assert isinstance(outcome(sealed(word, None), None), Event)


def test_unsigned_record_is_dead() -> None:
    found = outcome(SOUND)
    assert refused(found) == UNSIGNED
    assert (found.source, found.stream) == ("press-7", "plant")
    assert "number 17, epoch 3" in found.detail
    assert "inorder keys" in found.detail
    assert refused(outcome([*SOUND, ("sig", None)])) == UNSIGNED
    assert refused(outcome([*SOUND, ("sig", b"")])) == FORGED


def test_unsigned_stream_is_not_checked() -> None:
    elsewhere = [header for header in SOUND if header[0] != "streamId"]
    assert isinstance(outcome(elsewhere), Event)
    assert isinstance(outcome([*elsewhere, ("sig", b"whatever")]), Event)


def test_law_changed_parts_are_dead() -> None:
    """Signed parts are removed, added or replaced. In the next law, bits are flipped."""
    headers = sealed(SOUND)
    for value in (b"", None, VALUE + b" ", VALUE[:-1]):
        assert refused(outcome(headers, value)) == FORGED
    assert refused(outcome([*headers, ("kind", b"bye")])) == FORGED
    for name, other in (("type", b""), ("streamId", b"by_time")):
        others = [header for header in headers if header[0] != name]
        assert refused(outcome([*others, (name, other)])) == FORGED
    for name in ("sourceId", "seqNum", "ts", "epoch", "type"):
        others = [header for header in headers if header[0] != name]
        assert refused(outcome(others)) in {FORGED, UNSIGNED}


@pytest.mark.slow
@given(st.data())
def test_law_no_bit_can_be_flipped(data: st.DataObject) -> None:
    headers = sealed(SOUND)
    place = data.draw(st.integers(0, len(headers)))
    content = VALUE if place == len(headers) else headers[place][1] or b""
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    turned = bytearray(content)
    turned[bit // 8] ^= 1 << bit % 8
    if place == len(headers):
        found = outcome(headers, bytes(turned))
    else:
        name = headers[place][0]
        found = outcome([*headers[:place], (name, bytes(turned)), *headers[place + 1 :]])
    if isinstance(found, Event):
        assert found.stream not in {"plant", "by_time"}  # The name of the stream was changed.
    elif found.stream in {"plant", "by_time"}:
        assert refused(found) in {FORGED, UNSIGNED}


def test_order_of_headers_is_free() -> None:
    """Foreign headers can be added."""
    headers = sealed(SOUND)
    assert isinstance(outcome([("trace", b"1"), *reversed(headers), ("trace", b"2")]), Event)


@pytest.mark.parametrize(
    "again", [("seqNum", b"17"), ("seqNum", b"18"), ("sig", b"x"), ("ts", b"1")]
)
def test_repeated_header_is_dead(again: tuple[str, bytes]) -> None:
    for headers in ([*sealed(SOUND), again], [again, *sealed(SOUND)]):
        assert refused(outcome(headers)) == FORGED


def test_key_of_other_source_is_refused() -> None:
    assert refused(outcome(sealed(SOUND, by=key("press-8")))) == FORGED
    assert refused(outcome(sealed(SOUND, by=key(master=FOREIGN)))) == FORGED


def test_prefix_key_covers_sources() -> None:
    for prefix in ("", "p", "press-", "press-7"):
        assert isinstance(outcome(sealed(SOUND, by=key(prefix, "prefix"))), Event)
    for prefix in ("press-8", "press-70", "x"):
        assert refused(outcome(sealed(SOUND, by=key(prefix, "prefix")))) == FORGED
    (*_, (_, by_prefix)) = sealed(SOUND, by=key("press-7", "prefix"))
    as_own = by_prefix.replace(b":7:", b":")
    assert refused(outcome([*SOUND, ("sig", as_own)])) == FORGED  # A prefix is not the source.


@pytest.mark.parametrize(
    "form",
    [
        lambda sig: sig.upper(),
        lambda sig: sig.replace(b"-128:", b":"),
        lambda sig: sig.partition(b":")[2],
        lambda sig: sig + b"0",
        lambda sig: sig[:-1],
        lambda sig: sig.replace(b":", b":-1:"),
        lambda sig: sig.replace(b":", b":0007:"),
        lambda sig: sig.replace(b":", b":257:"),
        lambda sig: sig.replace(b":", b"::"),
        lambda sig: b"hmac-sha256-128:" + b"\xff" * 32,
    ],
)
def test_other_signature_form_is_refused(form: Callable[[bytes], bytes]) -> None:
    (*_, (_, sig)) = sealed(SOUND)
    assert refused(outcome([*SOUND, ("sig", form(sig))])) == FORGED


def test_masters_can_be_replaced() -> None:
    """While both masters are valid, keys of the old and the new one pass."""
    by_old, by_new = sealed(SOUND, by=key(master=OLDER)), sealed(SOUND)
    both = check(MASTER, OLDER)
    for headers in (by_old, by_new, by_old, by_old, by_new):
        assert isinstance(outcome(headers, by=both), Event)
    assert refused(outcome(by_old)) == FORGED
    assert refused(outcome(sealed(SOUND, by=key(master=FOREIGN)), by=both)) == FORGED


def test_bad_signed_record_takes_its_place() -> None:
    """An unsigned or wrongly signed record takes no place."""
    broken = [header if header[0] != "ts" else ("ts", b"soon") for header in SOUND]
    found = outcome(sealed(broken))
    assert found.reason == "ts_unreadable"
    assert make_placeholder(found) is not None
    assert refused(outcome(broken)) == UNSIGNED
    assert refused(outcome([*broken, ("sig", b"x")])) == FORGED
    assert refused(outcome(sealed(SOUND)[1:])) == FORGED  # It has no source.


def test_missing_time_is_dead_in_its_place() -> None:
    """Anyone who copies the record can set its own timestamp, so that must not count instead."""
    timeless = [header for header in SOUND if header[0] != "ts"]
    found = outcome(sealed(timeless))
    assert found.reason == "ts_missing"
    assert "write its time into the header `ts`" in found.detail
    assert make_placeholder(found) is not None
    assert refused(outcome(timeless)) == UNSIGNED


def test_record_by_time_is_signed_as_sent() -> None:
    """An offset is the event's number, but a number that the record carries must be signed."""
    headers: Headers = [("sourceId", b"press-7"), ("ts", b"5"), ("streamId", b"by_time")]
    assert isinstance(outcome(sealed(headers)), Event)
    assert refused(outcome([*sealed(headers), ("seqNum", b"5")])) == FORGED


def test_key_table_is_bounded() -> None:
    one = SignatureCheck(NAMES, ["plant"], [MASTER], max_keys=3)
    guess = ("sig", b"hmac-sha256-128:" + b"0" * 32)
    for number in range(10):
        claimed = [("sourceId", b"s%d" % number), *SOUND[1:], guess]
        assert refused(outcome(claimed, by=one)) == FORGED
        assert len(one._macs) <= 3
    assert isinstance(outcome(sealed(SOUND), by=one), Event)
