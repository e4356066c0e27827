"""Foreign records read by a mapping: the conformance table as examples.

Law: a mapping reads the same as headers with the same content.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.values.json import decode, make_pick
from inorder.contract import HeaderContract
from tests.kit.conformance import MAPPING, cases_of, fields_of
from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Malformed
from topology.records.checker import Reading
from topology.records.field_reader import FieldReader
from topology.records.header_reader import HeaderReader
from topology.records.mapping import FIELD_PRESETS, Fields
from topology.records.reasons import REASONS
from topology.records.where import parse_where

AT_NS = 5_000_000_000
fields_in = attrgetter("source", "seq", "ts_ns", "type", "epoch", "stream", "kind")


def reader_of(mapping: dict[str, str], **more: Any) -> Any:
    return FieldReader(fields_of(mapping), decode, make_pick, **more)


def said(found: Event | Malformed) -> dict[str, Any] | str:
    if isinstance(found, Malformed):
        return found.reason
    epoch = None if found.epoch == NO_EPOCH else found.epoch
    kept = {name: getattr(found, name) for name in ("source", "seq", "ts_ns", "type")}
    return kept | {"epoch": epoch}


@pytest.mark.parametrize(("case", "mapping", "value", "expected"), cases_of("json"))
def test_mapping_reads_conformance_table(
    case: str, mapping: dict[str, str], value: bytes | None, expected: Any
) -> None:
    for reader in (reader_of(mapping), FieldReader(fields_of(mapping), decode)):
        assert said(reader.read((), None, value, AT_NS)) == expected, case


def test_local_time_is_nearest_to_record() -> None:
    mapping = {"source": "payload.s", "seq": "payload.n", "ts": "payload.t"}
    reader = reader_of(mapping | {"ts_zone": "America/Denver"})
    value = b'{"s": "a", "n": 1, "t": "2022-11-06 01:30:00"}'
    early_ns, late_ns = 1_667_719_800_000_000_000, 1_667_723_400_000_000_000
    middle_ns = (early_ns + late_ns) // 2
    found = [reader.read((), None, value, at_ns).ts_ns for at_ns in (1, middle_ns, middle_ns + 1)]
    assert found == [early_ns, early_ns, late_ns]
    skipped = reader.read((), None, value.replace(b"2022-11-06 01", b"2022-03-13 02"), 1)
    assert skipped.reason == "ts_not_a_time"
    assert "where clocks were set forward past it; write the time with its offset" in skipped.detail


def test_mapping_reads_key_header_and_topic() -> None:
    fields = Fields(
        source=parse_where("key"),
        seq=parse_where("header.n"),
        type=parse_where('="temp"'),
        stream=parse_where("topic"),
        epoch=parse_where("partition"),
    )
    reader: Any = FieldReader(fields, decode, topic="plant")
    headers = [("n", b"0012"), ("sourceId", b"liar"), ("kind", b"progress"), ("trace", b"x")]
    found = reader.read(headers, b"press-7", b"no JSON at all", AT_NS, partition=3)
    assert fields_in(found) == ("press-7", 12, AT_NS, "temp", 3, "plant", "")
    assert reader.headers(found, headers) == [
        ("sourceId", b"press-7"), ("seqNum", b"12"), ("ts", b"%d" % AT_NS), ("type", b"temp"),
        ("epoch", b"3"), ("streamId", b"plant"), ("n", b"0012"), ("trace", b"x"),
    ]  # fmt: skip
    assert said(reader.read(headers, None, None, AT_NS)) == "source_missing"
    assert said(reader.read(headers, b"\xff", None, AT_NS)) == "source_undecodable"
    twice = [("n", b"1"), ("n", b"2")]
    assert said(reader.read(twice, b"k", None, AT_NS)) == "seq_repeated"


def test_formatted_key_has_fields() -> None:
    fields = Fields(source=parse_where("key.id"), seq=parse_where("payload"))
    reader: Any = FieldReader(fields, decode, decode_key=decode)
    found = reader.read((), b'{"id":"s1"}', b"17", AT_NS)
    assert fields_in(found) == ("s1", 17, AT_NS, "", NO_EPOCH, "default", "")
    assert not found.is_stamped
    assert said(reader.read((), b"{", b"17", AT_NS)) == "key_undecodable"


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b'{"a":{"b":1}}', "source_missing", "missing: `payload.a.b` has no `c`; write it"),
        (b"{}", "source_missing", "`payload.a.b.c` is missing: `payload` has no `a`; write it"),
        (b'{"a":{"b":{"c":"secret","c":[]}}}', "source_not_text", "`payload.a.b.c` is not text;"),
    ],
)
def test_dead_letter_names_place_not_value(value: bytes, reason: str, detail: str) -> None:
    reader = reader_of({"source": "payload.a.b.c", "seq": '="1"'})
    found = reader.read((), None, value, AT_NS)
    assert found.reason == reason
    assert detail in found.detail
    assert "secret" not in found.detail


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("payload.n", b'{"device":"s1","temp":2}', ": `payload` has no `n`"),
        ("payload.`a.b`[1].n", b'{"a.b":[1,{"m":2}]}', ": `payload.`a.b`[1]` has no `n`"),
        ("payload.a[3]", b'{"a":[1]}', ": `payload.a` has no `[3]`"),
        ("payload.n", None, ": the value is null"),
        ("header.n", b"{}", ""),
    ],
)
def test_missing_number_has_one_remedy(place: str, value: bytes | None, why: str) -> None:
    found = reader_of({"source": '="a"', "seq": place}).read((), None, value, AT_NS)
    assert found.detail == (f"`{place}` is missing{why}; " + REASONS["seq_missing"].remedy)


def test_dead_letter_keeps_readable_fields() -> None:
    found = reader_of(MAPPING).read((), None, b'{"device":"s1","n":7,"boot":1}', AT_NS)
    assert (found.source, found.seq, found.epoch, found.stream) == ("s1", 7, 1, "default")


def test_all_faults_are_named_in_order() -> None:
    found = reader_of(MAPPING).read((), None, b'{"n":1.5,"time":true,"boot":-1}', AT_NS)
    assert found.reason == "source_missing"
    assert found.detail.count(";") >= 3


def test_stream_by_time_needs_no_number() -> None:
    reader = reader_of({**MAPPING, "stream": "payload.s"}, reading=Reading(frozenset({"slow"})))
    assert said(reader.read((), None, b'{"device":"s1","time":1,"s":"fast"}', 0)) == "seq_missing"
    found = reader.read((), None, b'{"device":"s1","n":"x","time":1,"s":"slow"}', 0)
    assert fields_in(found) == ("s1", 0, 1_000_000, "", NO_EPOCH, "slow", "")
    assert reader.own_seq(found) is None


def test_structured_cloudevent_is_read() -> None:
    reader: Any = FieldReader(FIELD_PRESETS["cloudevents-structured"], decode, make_pick)
    event = {"source": "/s1", "sequence": "7", "time": "1970-01-01T00:00:01Z", "type": "t"}
    found = reader.read((), None, json.dumps(event).encode(), AT_NS)
    assert fields_in(found) == ("/s1", 7, 1_000_000_000, "t", NO_EPOCH, "default", "")
    del event["time"]
    found = reader.read((), None, json.dumps(event).encode(), AT_NS)
    assert found.ts_ns == AT_NS


SOURCES = st.one_of(st.text(max_size=300), st.integers(), st.none(), st.just(["x"]))
NUMBERS = st.one_of(st.integers(0, 2**64), st.from_regex(r"\A[0-9a]{0,22}\Z"), st.none())
TIMES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.just("1970-01-01T00:00:01Z"), st.just("soon"), st.none()
)


@given(SOURCES, NUMBERS, TIMES, st.one_of(st.none(), st.text(max_size=9)), NUMBERS)
def test_law_mapping_reads_like_headers(
    source: Any, seq: Any, ts: Any, type_: Any, epoch: Any
) -> None:
    """Law: both read the same event, or give a dead letter for the same field."""
    value = {"device": source, "n": seq, "time": ts, "kind": type_, "boot": epoch}
    fields = fields_of({**MAPPING, "ts_unit": "ns"})
    found = FieldReader(fields, decode, make_pick).read((), None, json.dumps(value).encode(), AT_NS)
    names = {"sourceId": source, "seqNum": seq, "ts": ts, "type": type_, "epoch": epoch}
    headers = [(name, str(each).encode()) for name, each in names.items() if each is not None]
    event = HeaderReader(HeaderContract()).read(headers, AT_NS, AT_NS, 0, None, None)
    field = found.reason.partition("_")[0] if isinstance(found, Malformed) else ""
    if field == "ts" and ts is None:  # A mapped time is never the broker's.
        return
    if field == "source" and isinstance(source, list):
        return
    assert vars_of(event) == vars_of(found)


def vars_of(event: Any) -> Any:
    if hasattr(event, "reason"):
        return event.reason.partition("_")[0]
    return event.stream, event.source, event.epoch, event.seq, event.ts_ns, event.type, event.kind
