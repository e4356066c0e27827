"""Examples: which records are results, and how all others are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

import topology.base.result
from inorder.contract import retraction_headers
from sinks import result as kind
from sinks.result import MAX_ID_CHARS, MAX_REVISION, Malformed, Result, parse
from tests.sinks.results import fields, record
from tests.sinks.written import WRITTEN
from topology.records.json_lines import encode_line, make_result_line


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.found_by)
def test_each_kind_of_result_is_parsed(written: topology.base.result.Result) -> None:
    value = encode_line(make_result_line(written))
    assert parse(value, written.id.encode()) == Result(
        written.id,
        written.query,
        written.op,
        written.revision,
        written.final,
        written.confidence,
        written.start_ns,
        written.end_ns,
        value,
    )


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.found_by)
def test_tombstone_matches_full_retract(
    written: topology.base.result.Result,
) -> None:
    line = make_result_line(replace(written, op="retract"))
    key, headers = written.id.encode(), retraction_headers(line)
    found, whole = parse(None, key, headers), parse(encode_line(line), key)
    assert isinstance(found, Result)
    assert isinstance(whole, Result)
    assert found == replace(whole, record=found.record)
    assert parse(found.record) == found  # The journal of files reads it like this.


def refused(value: bytes | None, key: bytes | None = None, headers: Any = ()) -> Malformed:
    found = parse(value, key, headers)
    assert isinstance(found, Malformed)
    return found


RETRACTED = dict(retraction_headers(make_result_line(replace(WRITTEN[0], op="retract"))))


@pytest.mark.parametrize(
    ("key", "headers", "reason"),
    [
        (b"i", {}, kind.VALUE_MISSING),
        (b"i", {"op": b"emit"}, kind.VALUE_MISSING),
        (b"i", {"op": b"retract"}, kind.FIELD_MISSING),
        (b"i", {**RETRACTED, "revision": b"high"}, kind.FIELD_WRONG),
        (b"i", {**RETRACTED, "revision": b"-1"}, kind.FIELD_WRONG),
        (b"i", {**RETRACTED, "revision": b"9" * 5_000}, kind.FIELD_WRONG),
        (b"i", {**RETRACTED, "revision": None}, kind.FIELD_WRONG),
        (b"i", {**RETRACTED, "confidence": b"\xff"}, kind.FIELD_WRONG),
        (b"i", {**RETRACTED, "start": b"21"}, kind.INTERVAL_BACKWARDS),
        (b"", RETRACTED, kind.FIELD_WRONG),
        (None, RETRACTED, kind.FIELD_WRONG),
        (b"\xff", RETRACTED, kind.KEY_NOT_ID),
    ],
)
def test_bad_tombstone_is_malformed(
    key: bytes | None, headers: dict[str, bytes | None], reason: str
) -> None:
    assert refused(None, key, [*headers.items()]).reason == reason


def test_optional_fields_can_be_missing() -> None:
    given = fields()
    for name in ("start", "end", "events", "values"):
        del given[name]
    found = parse(orjson.dumps(given))
    assert isinstance(found, Result)
    assert (found.start_ns, found.end_ns) == (None, None)


def test_record_becomes_one_line() -> None:
    given = orjson.dumps(fields(query="a\nb"), option=orjson.OPT_INDENT_2)
    found = parse(given.replace(b"\n", b"\r\n"))
    assert isinstance(found, Result)
    assert b"\n" not in found.record
    assert b"\r" not in found.record
    assert orjson.loads(found.record) == fields(query="a\nb")


def without(name: str) -> bytes:
    given = fields()
    del given[name]
    return orjson.dumps(given)


@pytest.mark.parametrize(
    ("value", "reason", "told"),
    [
        (None, kind.VALUE_MISSING, "no value"),
        (b"", kind.NOT_JSON, "not JSON"),
        (b"{", kind.NOT_JSON, "column"),
        (b'{"id": "\xff"}', kind.NOT_JSON, "not JSON"),
        (b'{"id": "\\ud800"}', kind.NOT_JSON, "not JSON"),
        (b"[" * 100_000, kind.NOT_JSON, "not JSON"),
        (b"[]", kind.NOT_OBJECT, "not an object"),
        (b"null", kind.NOT_OBJECT, "not an object"),
        *((without(name), kind.FIELD_MISSING, name) for name in fields() if name in {
            "id", "query", "op", "revision", "final", "confidence"
        }),
        (record(""), kind.FIELD_WRONG, "id"),
        (record("x" * (MAX_ID_CHARS + 1)), kind.FIELD_WRONG, "id"),
        (record(op="delete"), kind.FIELD_WRONG, "op"),
        (record(revision=-1), kind.FIELD_WRONG, "revision"),
        (record(revision=MAX_REVISION + 1), kind.FIELD_WRONG, "revision"),
        (orjson.dumps(fields() | {"revision": 1.5}), kind.FIELD_WRONG, "revision"),
        (orjson.dumps(fields() | {"revision": 1.0}), kind.FIELD_WRONG, "revision"),
        (orjson.dumps(fields() | {"revision": "1"}), kind.FIELD_WRONG, "revision"),
        (record(final="yes"), kind.FIELD_WRONG, "final"),
        (record(confidence="maybe"), kind.FIELD_WRONG, "confidence"),
        (record(start=2**63), kind.FIELD_WRONG, "start"),
        (record(end="noon"), kind.FIELD_WRONG, "end"),
        (record(events=[1]), kind.FIELD_WRONG, "events"),
        (record(values=[1]), kind.FIELD_WRONG, "values"),
        (record(start=2, end=1), kind.INTERVAL_BACKWARDS, "start is after end"),
    ],
)  # fmt: skip
def test_malformed_value_has_a_reason(value: bytes | None, reason: str, told: str) -> None:
    found = refused(value)
    assert found.reason == reason
    assert told in found.detail
    assert "delete" not in found.detail, "a dead letter has no content"


@pytest.mark.parametrize("key", [b"", b"b", b"\xff"])
def test_key_must_be_the_id(key: bytes) -> None:
    found = refused(record("a"), key)
    assert (found.reason, found.id) == (kind.KEY_NOT_ID, "a")


def test_malformed_record_keeps_its_id() -> None:
    assert refused(b'{"id": "a"}').id == "a"
    assert refused(b'{"id": 7}').id is None


def test_largest_values_are_accepted() -> None:
    assert isinstance(parse(record("x" * MAX_ID_CHARS, MAX_REVISION)), Result)
    assert isinstance(parse(record(start=-(2**63), end=2**63 - 1)), Result)
