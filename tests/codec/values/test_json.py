"""JSON values: examples of what is exact and what is refused, and the law that wanted fields alone
are read as from the whole."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.values.json import decode, picking
from codec.values.payloads import plain_json, reading
from topology.wire import values
from topology.wire.values import UNDECODABLE, ValueFault


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
def test_what_is_no_json_is_refused(value: bytes) -> None:
    for read in (decode, picking([("a",)])):
        with pytest.raises(ValueFault) as refused:
            read(value)
        assert refused.value.reason == UNDECODABLE


def test_a_payload_nested_too_deep_is_unreadable_to_queries() -> None:
    for depth in (300, 600, 900, 5_000):
        for decoder in (decode, plain_json):
            value = b'{"d":' + b"[" * depth + b"]" * depth + b"}"
            with suppress(ValueError):
                reading(decoder, ("d",))(value)


def test_a_tombstone_is_nothing() -> None:
    assert decode(None) is None
    assert picking([("a",), ()])(None) == [None, None]


KEYS = st.sampled_from(["a", "b", "c", "a.b", 'q"', "\N{SNOWMAN}", ""])
LEAVES = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.booleans())
VALUES: Any = st.recursive(
    LEAVES, lambda of: st.one_of(st.lists(of, max_size=3), st.dictionaries(KEYS, of, max_size=4))
)
PATHS = st.lists(st.one_of(KEYS, st.integers(0, 2)), max_size=3).map(tuple)


@given(VALUES, st.lists(PATHS, min_size=1, max_size=4))
def test_wanted_fields_are_read_as_from_the_whole(value: Any, paths: list[Any]) -> None:
    """A law."""
    text = json.dumps(value).encode()
    assert list(picking(paths)(text)) == list(values.picking(decode, paths)(text))
