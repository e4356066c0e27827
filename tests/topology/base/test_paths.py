"""Examples and a law: a path can contain any name, and its text is read back unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.base.paths import (
    MAX_STEPS,
    format_path,
    guess_path,
    parse_path,
    parse_payload_path,
    split_arguments,
)
from topology.records.where import Where, parse_where

NAMES = st.text(min_size=1, max_size=8) | st.text("`.[] a", min_size=1, max_size=5)


@given(names=st.lists(NAMES, max_size=5))
def test_every_name_survives_text(names: list[str]) -> None:
    path = ("payload", *names)
    text = format_path(path)
    assert parse_payload_path(text) == path
    assert split_arguments(f"{text}, 0.5") == [text, "0.5"]
    if names:
        assert parse_where(text) == Where("payload", (*names,))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", ()),
        (".a", ("a",)),
        (".`Truck No`", ("Truck No",)),
        (".`a.b`[0].c", ("a.b", 0, "c")),
        (".`a``b`", ("a`b",)),
        (".````", ("`",)),
        (".Größe", ("Größe",)),
        ("[7]", (7,)),
    ],
)
def test_path_is_read(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize("text", [".", ".a b", "a", ".a..b", ".``", ".`a", "[x]", ".a`b`", "[0]a"])
def test_path_error_shows_syntax(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path at character .*payload.`a b`"):
        parse_path(text)


@pytest.mark.parametrize(
    "text",
    ["", "payloads", "a.b", "payload.a[0]", "payload[0]", "payload. a", "payload" + ".a" * 33],
)
def test_unreadable_path_is_none(text: str) -> None:
    assert parse_payload_path(text) is None


def test_longest_query_path_is_read() -> None:
    names = ("a",) * MAX_STEPS
    assert parse_payload_path(format_path(("payload", *names))) == ("payload", *names)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Truck No", "payload.`Truck No`"),
        ("payload.Truck No", "payload.`Truck No`"),
        ("Payload.a", "payload.a"),
        ("paylod.a.b", "payload.a.b"),
        ("payload.`a", "payload.a"),
        ("payload.a[0]", "payload.`a[0]`"),
        ("", "it like payload.player"),
        (3, "it like payload.player"),
        ("``", "payload"),
    ],
)
def test_wrong_text_suggests_likely_path(text: object, meant: str) -> None:
    assert guess_path(text) == meant


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a , b", ["a", "b"]),
        ("`a, b`, c", ["`a, b`", "c"]),
        ("`a``, b`", ["`a``, b`"]),
        ("`a, b", ["`a, b"]),
        ("a,", ["a", ""]),
    ],
)
def test_quoted_comma_is_kept(text: str, parts: list[str]) -> None:
    assert split_arguments(text) == parts
