"""Examples: records are read from lines and from the topics of a worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inorder.contract import retraction_headers
from inorder.given import records_of
from inorder.header_writer import HeaderWriter
from inorder.records import (
    ClockOffset,
    ClockSample,
    OrderedEvent,
    RawEvent,
    RetractRecord,
    WindowRecord,
    current,
    ordered_event,
    record_of,
)
from tests.sinks import written
from topology.base.event import WATERMARK, Event
from topology.base.outcome import Step
from topology.base.result import (
    Finding,
    MatchResult,
    MatchSetResult,
    Member,
    MemberRange,
    Overflow,
    Partner,
    WindowResult,
)
from topology.base.result import JoinResult as Joined
from topology.config import HeaderConfig
from topology.records import header_writer
from topology.records.json_lines import encode_line, make_event_line, make_result_line

HEAD: dict[str, Any] = {**written.HEAD, "op": "emit", "revision": 0, "final": False}
SHARED = (
    *("query", "stream", "at_ns", "id", "values", "key"),
    *("low", "probability", "shown", "count"),
)
"""The attributes that a result and its record have in common, where they exist."""


PRESS = Member("a", "press", 0, 7, 3)


def window(revision: int, op: str, n: int, id_: str = "i") -> WindowRecord:
    told = {**HEAD, "id": id_, "op": op, "revision": revision, "values": {"n": n}}
    result = WindowResult(**told)
    record = record_of(make_result_line(result))
    assert isinstance(record, WindowRecord)
    return record


def test_direct_record_matches_its_line() -> None:
    """A run in this process builds its records directly; the printed line is the definition."""
    bounds: dict[str, Any] = {"low": {"n": 1}, "high": {"n": 3}, "expected": {"n": 2.0}}
    for told in (HEAD, {**HEAD, "key": "a", **bounds}, {**HEAD, "op": "retract", "final": True}):
        result = WindowResult(**told)
        assert records_of(Step(9, results=[result])) == [record_of(make_result_line(result))]


def test_table_messages_are_read() -> None:
    """Messages from confluent-kafka have methods, those from other clients attributes."""
    line = make_result_line(WindowResult(**{**HEAD, "op": "retract", "revision": 2, "final": True}))
    value = encode_line(make_result_line(WindowResult(**HEAD)))
    shown = SimpleNamespace(key=b"i", value=value, headers=[])
    gone = SimpleNamespace(
        key=lambda: b"i", value=lambda: None, headers=lambda: retraction_headers(line)
    )
    first, last = record_of(shown), record_of(gone)
    told = {**HEAD, "op": "retract", "revision": 2, "final": True, "values": {}, "key": None}
    assert last == RetractRecord(**told)
    assert [*current([first])] == ["i"]
    assert current([first, last]) == current([last, first]) == {}
    for headers in (None, [], [("op", b"retract")], [("op", b"emit")]):
        with pytest.raises(ValueError, match="not a record of inorder|lacks"):
            record_of(SimpleNamespace(key=b"i", value=None, headers=headers))


def test_ordered_event_survives_round_trip() -> None:
    event = Event("s", "press", 2, 7, 10, 20, type="A", value={"x": 1})
    event.late = "gap"
    record = record_of(encode_line(make_event_line(event)))
    assert record == OrderedEvent("s", "press", 2, 7, 10, 10, 0, "A", {"x": 1}, "gap", 20)


@pytest.mark.parametrize(
    "result",
    [
        WindowResult(**HEAD, key=[1], low={"n": 1}, high={"n": 3}, expected={"n": 2.0}),
        MatchResult(**HEAD, members=[Member("a", "press", 0, 7, 3)], key="k"),
        MatchSetResult(
            **{**HEAD, "op": "update", "values": {}},
            count=3,
            ranges=[MemberRange("a", 2, PRESS, Member("a", "press", 0, 8, 4))],
            joined=[MemberRange("a", 1, PRESS, PRESS)],
            key=["k"],
        ),
        Joined(**HEAD, partners=[Partner("a", "s", "press", 0, 7, 3)], probability=0.5),
        Overflow(9, "s", "q", Member("a", "press", 0, 7, 3), 4),
    ],
)
def test_each_kind_of_result_is_read(result: Finding) -> None:
    record = record_of(make_result_line(result))
    for name in SHARED:
        assert getattr(record, name, None) == getattr(result, name, None), name
    if not isinstance(record, WindowRecord):
        assert "alias='a', source='press', epoch=0, seq=7, ref_time_ns=3" in repr(record)


@pytest.mark.parametrize("line", [b"[]", b"{}", b'{"kind": "other"}', b'{"kind": "window"}'])
def test_foreign_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="kind"):
        record_of(line)


def test_highest_revision_is_current() -> None:
    records = [
        window(1, "update", 3),
        window(0, "emit", 2),
        window(0, "emit", 1, "gone"),
        window(1, "retract", 1, "gone"),
    ]
    assert {id_: each.values for id_, each in current(records).items()} == {"i": {"n": 3}}


def text(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


@pytest.mark.parametrize("config", [HeaderConfig(), HeaderConfig(preset="cloudevents")])
def test_ordered_event_is_read_from_headers(config: HeaderConfig) -> None:
    event = Event("default", "press", 2, 7, 1_500, 20, type="A")
    event.ref_time_ns, event.error_ns, event.late = 1_600, 5, "merge_new"
    sent = HeaderWriter(config).write("press", 7, ts_ns=1_500, epoch=2, type="A")
    original = [(name, text(value)) for name, value in sent]
    headers = header_writer.HeaderWriter(config).write_ordered(event, original)
    record = ordered_event(headers, b'{"x": 1}', config)
    expected = ("default", "press", 2, 7, 1_500, 1_600, 5, "A", {"x": 1}, "merge_new", 20)
    assert record == OrderedEvent(*expected)
    if config.preset == "plain":
        confluent = SimpleNamespace(headers=lambda: headers, value=lambda: b'{"x": 1}')
        aiokafka = SimpleNamespace(headers=headers, value=b'{"x": 1}')
        assert ordered_event(confluent) == ordered_event(aiokafka) == record


def test_watermark_is_no_event() -> None:
    mark = Event("default", "", 0, 0, 5, 6, kind=WATERMARK)
    headers = header_writer.HeaderWriter(HeaderConfig()).write_control(mark, 0)
    assert ordered_event(headers, None) is None
    with pytest.raises(ValueError, match="refTs is missing"):
        ordered_event([("sourceId", b"s")], b"{}")


def test_input_gives_its_line() -> None:
    assert RawEvent(source="s", seq=1, ts_ns=2).line() == {"source": "s", "seq": 1, "ts": 2}
    sample = ClockSample(source="s", t1_ns=1, t2_ns=2, t3_ns=3, t4_ns=4, arrival_ns=9)
    assert sample.line()["clock"] == "s"
    assert sample.line()["arrival"] == 9
    assert ClockOffset(source="s", at_ns=1, offset_ns=None).line()["offset"] is None
    with pytest.raises(ValueError, match="kind 'other' is not known"):
        RawEvent(source="s", kind="other")
