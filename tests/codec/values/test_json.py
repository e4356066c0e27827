"""Examples of exact and refused JSON values, and the law that picked fields match those of the
whole value.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.values.json import UNREADABLE, decode, make_pick, odd_number
from codec.values.payloads import decode_json, make_reader
from topology.records import values
from topology.records.values import UNDECODABLE, Pick, ValueFault


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("17", 17),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("17.0", Decimal("17.0")),
        ("0.1000000000000000055", Decimal("0.1000000000000000055")),
        ('{"a":1,"a":2}', {"a": 2}),
        ("null", None),
    ],
)
def test_numbers_are_exact(text: str, value: object) -> None:
    found = decode(text.encode())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"1 2",
        b"NaN",
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b"[" * 100_000,
        b"1" * 5_000,
        b"1e9999999999999999999",
        b"-1e-9999999999999999999",
    ],
)
def test_invalid_json_is_refused(value: bytes) -> None:
    for read in (decode, make_pick([("a",)])):
        with pytest.raises(ValueFault) as refused:
            read(value)
        assert refused.value.reason == UNDECODABLE


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_non_json_number_is_named(number: str) -> None:
    value = f'{{"a": "{number}x", "b": [{number}]}}'.encode()
    for read in (decode, make_pick([("a",)])):
        with pytest.raises(ValueFault) as refused:
            read(value)
        assert f"JSON has no number {number}: write null" in refused.value.detail
    assert odd_number(value.replace(f"[{number}]".encode(), b"1")) is None


def test_many_quotes_are_scanned() -> None:
    assert odd_number(b'"' + b'\\"' * 1_000_000) is None


def test_deep_nesting_does_not_crash() -> None:
    for depth in (300, 600, 900, 5_000):
        for decoder in (decode, decode_json):
            value = b'{"d":' + b"[" * depth + b"]" * depth + b"}"
            with suppress(ValueError):
                make_reader(decoder, ("d",))(value)


def test_tombstone_is_null() -> None:
    assert decode(None) is None
    assert make_pick([("a",), ()])(None) == [None, None]


# The law replaces "%" by one of TEXTS.
KEYS = st.sampled_from(["a", "b", "c", "a.b", 'q"', "\N{SNOWMAN}", "", "%"])
LEAVES = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.booleans(), st.just("%"))
VALUES: Any = st.recursive(
    LEAVES, lambda of: st.one_of(st.lists(of, max_size=3), st.dictionaries(KEYS, of, max_size=4))
)
PATHS = st.lists(st.one_of(KEYS, st.integers(0, 2)), max_size=3).map(tuple)
SOUND = [b"", "\N{SNOWMAN}".encode(), rb"\ud83d\ude00"]
NOT_UTF8 = [b"\xff", b"\x80", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]
TEXTS = [*SOUND, *NOT_UTF8, rb"\ud800", rb"\udc00x", rb"\ud800\ud800", rb"\uD8"]


def outcome(pick: Pick, text: bytes) -> list[Any] | str:
    try:
        return list(pick(text))
    except ValueFault as fault:
        return fault.reason


@given(VALUES, st.lists(PATHS, min_size=1, max_size=4), st.sampled_from(TEXTS))
def test_law_picked_fields_match_the_whole(value: Any, paths: list[Any], text: bytes) -> None:
    content = json.dumps(value).encode().replace(b"%", text)
    assert outcome(make_pick(paths), content) == outcome(values.picking(decode, paths), content)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("place", [b'"x":"%"', b'"%":2', b'"x":[{"%":"y"},["%"]]', b'"n":"%"'])
def test_only_valid_utf8_is_accepted(place: bytes, text: bytes) -> None:
    content = b'{"a":1,' + place.replace(b"%", text) + b"}"
    pick = make_pick([("a",), ("n",)])
    assert pick.structured is not None
    for read in (decode, pick, pick.structured):
        with nullcontext() if text in SOUND else pytest.raises((ValueFault, *UNREADABLE)):
            read(content)
