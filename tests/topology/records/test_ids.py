"""Examples: ids of records and lines, by which REORDER finds duplicates (`fields.id`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codec.values.json import decode, make_pick
from topology.base.event import Event
from topology.records.checker import Reading, digest_of_id
from topology.records.field_reader import FieldReader
from topology.records.line_reader import LineReader, Row
from topology.records.mapping import Fields
from topology.records.packed import pack_as_read, unpack_as_read
from topology.records.where import parse_where

DEFAULT = frozenset({"default"})
BY_TIME = Reading(DEFAULT, ids=DEFAULT)
MIXED = Reading(mixed=DEFAULT, ids=DEFAULT)
FIELDS = Fields(
    parse_where("payload.source"), parse_where("payload.seq"), id=parse_where("payload.id")
)


def found(reading: Reading, **line: Any) -> list[Any]:
    """Return the events or dead letters of a line in our form and of a record in another form."""
    line |= {"source": "a"}
    reader = FieldReader(FIELDS, decode, make_pick, reading=reading)
    return [
        LineReader(reading).read(Row(5, line)),
        reader.read((), None, json.dumps(line).encode(), 0, offset=5),
    ]


@pytest.mark.parametrize(
    ("id_", "text"), [("x", "x"), (7, "7"), ("7", "7"), (True, "true"), ("", ""), (None, "")]
)
@pytest.mark.parametrize("reading", [BY_TIME, MIXED])
def test_id_is_text_or_an_integer(id_: object, text: str, reading: Reading) -> None:
    for event in found(reading, id=id_):
        assert event.digest == (digest_of_id("a", text) if text else 0)
        assert unpack_as_read(pack_as_read(event)).digest == event.digest  # type: ignore[union-attr]


def test_other_id_is_a_dead_letter() -> None:
    assert [dead.reason for dead in found(BY_TIME, id=[1])] == ["id_not_text"] * 2


def test_events_with_numbers_have_no_id() -> None:
    for reading in (MIXED, Reading(ids=DEFAULT)):
        for event in found(reading, id="x", seq=3):
            assert (event.seq, event.digest) == (3, 0)


def test_unmapped_id_can_be_anything() -> None:
    (event, _) = found(Reading(DEFAULT), id={"any": 1})
    assert isinstance(event, Event)


def test_digests_differ_by_source() -> None:
    assert len({digest_of_id(*each) for each in (("a", "b"), ("a", "c"), ("ab", ""))}) == 3
