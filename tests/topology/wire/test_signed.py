"""Examples and laws: what is not signed by the source that it names is dead, and takes no place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.contract import PRESETS
from inorder.signing_keys import SigningKey, signing_key
from topology.config import HeaderConfig
from topology.flow.stage import placeholder
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.header_reader import HeaderReader
from topology.wire.signed import FORGED, UNSIGNED, SignatureCheck

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
    """The reason; and whatever it is, no place in the sequence is taken."""
    assert isinstance(found, Malformed)
    assert placeholder(found) is None
    assert (found.at_ns, found.offset) == (9, 4)
    return found.reason


def test_what_its_source_has_signed_passes_as_it_is() -> None:
    headers = sealed(SOUND)
    item = READER.read(headers, 0, 9, 4, None, VALUE)
    assert check().admit(item, headers, VALUE) is item
    for kind in (b"heartbeat", b"bye"):
        word = [*SOUND, ("kind", kind)]
        assert isinstance(outcome(sealed(word, None), None), Event)


def test_without_a_signature_nothing_passes() -> None:
    found = outcome(SOUND)
    assert refused(found) == UNSIGNED
    assert (found.source, found.stream) == ("press-7", "plant")
    assert "number 17, epoch 3" in found.detail
    assert "inorder keys" in found.detail
    assert refused(outcome([*SOUND, ("sig", None)])) == UNSIGNED
    assert refused(outcome([*SOUND, ("sig", b"")])) == FORGED


def test_a_stream_that_is_not_signed_is_left_alone() -> None:
    elsewhere = [header for header in SOUND if header[0] != "streamId"]
    assert isinstance(outcome(elsewhere), Event)
    assert isinstance(outcome([*elsewhere, ("sig", b"whatever")]), Event)


def test_law_a_record_of_which_a_signed_part_is_gone_or_new_is_dead() -> None:
    """The next law turns the bits of those that stay."""
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
def test_law_no_bit_of_a_signed_record_can_be_turned(data: st.DataObject) -> None:
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
        assert found.stream not in {"plant", "by_time"}  # the stream's own name was what changed
    elif found.stream in {"plant", "by_time"}:
        assert refused(found) in {FORGED, UNSIGNED}


def test_headers_change_places_and_foreign_ones_come_and_go() -> None:
    headers = sealed(SOUND)
    assert isinstance(outcome([("trace", b"1"), *reversed(headers), ("trace", b"2")]), Event)


@pytest.mark.parametrize(
    "again", [("seqNum", b"17"), ("seqNum", b"18"), ("sig", b"x"), ("ts", b"1")]
)
def test_a_header_that_stands_there_twice_bears_nothing_out(again: tuple[str, bytes]) -> None:
    for headers in ([*sealed(SOUND), again], [again, *sealed(SOUND)]):
        assert refused(outcome(headers)) == FORGED


def test_another_sources_key_is_none() -> None:
    assert refused(outcome(sealed(SOUND, by=key("press-8")))) == FORGED
    assert refused(outcome(sealed(SOUND, by=key(master=FOREIGN)))) == FORGED


def test_the_key_of_a_prefix_speaks_for_all_that_begin_so() -> None:
    for prefix in ("", "p", "press-", "press-7"):
        assert isinstance(outcome(sealed(SOUND, by=key(prefix, "prefix"))), Event)
    for prefix in ("press-8", "press-70", "x"):
        assert refused(outcome(sealed(SOUND, by=key(prefix, "prefix")))) == FORGED
    (*_, (_, by_prefix)) = sealed(SOUND, by=key("press-7", "prefix"))
    as_own = by_prefix.replace(b":7:", b":")
    assert refused(outcome([*SOUND, ("sig", as_own)])) == FORGED  # a prefix is not the source


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
def test_a_signature_of_another_form_is_none(form: Callable[[bytes], bytes]) -> None:
    (*_, (_, sig)) = sealed(SOUND)
    assert refused(outcome([*SOUND, ("sig", form(sig))])) == FORGED


def test_masters_change_places_without_a_gap() -> None:
    """Add the new one, hand out keys of it, take the old one away."""
    by_old, by_new = sealed(SOUND, by=key(master=OLDER)), sealed(SOUND)
    both = check(MASTER, OLDER)
    for headers in (by_old, by_new, by_old, by_old, by_new):
        assert isinstance(outcome(headers, by=both), Event)
    assert refused(outcome(by_old)) == FORGED
    assert refused(outcome(sealed(SOUND, by=key(master=FOREIGN)), by=both)) == FORGED


def test_what_cannot_be_read_takes_its_place_only_if_it_is_signed() -> None:
    broken = [header if header[0] != "ts" else ("ts", b"soon") for header in SOUND]
    found = outcome(sealed(broken))
    assert found.reason == "ts_unreadable"
    assert placeholder(found) is not None
    assert refused(outcome(broken)) == UNSIGNED
    assert refused(outcome([*broken, ("sig", b"x")])) == FORGED
    assert refused(outcome(sealed(SOUND)[1:])) == FORGED  # of no source


def test_a_time_that_is_not_signed_is_dead_in_its_place() -> None:
    """The record's own timestamp would stand for it, which anybody writes who copies the record."""
    timeless = [header for header in SOUND if header[0] != "ts"]
    found = outcome(sealed(timeless))
    assert found.reason == "ts_missing"
    assert "write its time into the header `ts`" in found.detail
    assert placeholder(found) is not None
    assert refused(outcome(timeless)) == UNSIGNED


def test_a_record_of_an_order_by_time_is_signed_as_it_stands_there() -> None:
    """Its number is the offset, whatever it says; what it says is signed all the same."""
    headers: Headers = [("sourceId", b"press-7"), ("ts", b"5"), ("streamId", b"by_time")]
    assert isinstance(outcome(sealed(headers)), Event)
    assert refused(outcome([*sealed(headers), ("seqNum", b"5")])) == FORGED


def test_the_table_of_keys_has_a_bound() -> None:
    one = SignatureCheck(NAMES, ["plant"], [MASTER], max_keys=3)
    guess = ("sig", b"hmac-sha256-128:" + b"0" * 32)
    for number in range(10):
        claimed = [("sourceId", b"s%d" % number), *SOUND[1:], guess]
        assert refused(outcome(claimed, by=one)) == FORGED
        assert len(one._macs) <= 3
    assert isinstance(outcome(sealed(SOUND), by=one), Event)
