"""Examples: how places in a record are spelled, as a table.

Law: a spelling is read back unchanged.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.records.where import TIMESTAMP, Where, parse_where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("payload.a.b[0].c", Where("payload", ("a", "b", 0, "c"))),
        ("payload.`a.b`.`c d`", Where("payload", ("a.b", "c d"))),
        ("payload", Where("payload")),
        ("key", Where("key")),
        ("key.id", Where("key", ("id",))),
        ("timestamp", TIMESTAMP),
        ("topic", Where("topic")),
        ("partition", Where("partition")),
        ("header.x-device.id", Where("header", ("x-device.id",))),
        ('="press 7"', Where("text", ("press 7",))),
    ],
)
def test_place_is_read_and_spelled_back(text: str, where: Where) -> None:
    assert parse_where(text) == where
    assert str(where) == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("timestamp", ("timestamp",)),
        ("machine.id", ("machine.id",)),
        ("key", ("key",)),
        ("payload", ("payload",)),
        ("payload.machine.id", ("machine", "id")),
    ],
)
def test_bare_name_in_a_file_is_a_column(text: str, path: tuple[str, ...]) -> None:
    assert parse_where(text, on_file=True) == Where("payload", path)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "write header.NAME"),
        ("device", "write payload.device"),
        ("payload.", "at character 8"),
        ("payload..a", "at character 8"),
        ("payload.a[-1]", "at character 10"),
        ("payload.a[x]", "at character 10"),
        ("header.", "write header.NAME"),
        ("=text", 'write ="text"'),
        ("=7", 'write ="text"'),
        ("payload" + ".a" * 40, "deeper than 32"),
        ("x" * 2000, "write header.NAME"),
    ],
)
def test_wrong_place_error_has_a_remedy(text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=".") as refused:
        parse_where(text)
    assert remedy in str(refused.value)


NAMES = st.text(st.characters(exclude_characters="`", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.one_of(st.integers(0, 999), NAMES.map(str)), max_size=9))
def test_law_spelling_is_read_back(steps: list[str | int]) -> None:
    where = Where("payload", tuple(steps))
    if len(str(where)) <= 1_000:
        assert parse_where(str(where)) == where
