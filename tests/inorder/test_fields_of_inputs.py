"""Examples: an `Ordering` and a replay read mappings by the stream's `fields`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from inorder import OrderedEvent, RawEvent
from inorder.engine import Ordering, Record, replay
from inorder.records import DeadRecord

S = 1_000_000_000
FIELDS = (
    "fields: {source: payload.device, seq: payload.n, ts: payload.at, arrival: payload.received}"
)
ONE = "streams: {default: {clock: {unsynced: trust}, reorder: {start: zero}, ts_unit: s, %s}}"
TOPOLOGY = ONE % FIELDS
VALUE = {"device": "d1", "n": 0, "at": 1, "v": 3}


def fed(topology: str, *given: Mapping[str, Any] | RawEvent) -> list[Record]:
    order = Ordering(topology)
    return [*order.feed(*given), *order.close()]


def replayed(topology: str, *given: Mapping[str, Any] | RawEvent) -> list[Record]:
    return [*replay(topology, given)]


@pytest.mark.parametrize("run", [fed, replayed])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (VALUE, ("d1", 1 * S, VALUE)),
        (MappingProxyType(VALUE), ("d1", 1 * S, VALUE)),
        ({"payload": VALUE}, ("d1", 1 * S, VALUE)),
        ({"source": "x", "seq": 0, "ts": 2, "payload": VALUE}, ("x", 2, VALUE)),
        ({"source": "x", "seq": 0, "ts": 2, "payload": {"v": 1}}, ("x", 2, {"v": 1})),
        ({"source": "x", "seq": 0, "ts": 2}, ("x", 2, None)),
        (RawEvent(source="x", seq=0, ts_ns=2), ("x", 2, None)),
        ({**VALUE, "payload": 7}, ("d1", 1 * S, {**VALUE, "payload": 7})),
    ],
    ids=["value", "a mapping", "in payload", "a line of dump", "a line", "bare", "event", "column"],
)
def test_mapping_is_read_as_value_or_line(
    run: Callable[..., list[Record]], given: Any, wanted: tuple[str, int, Any]
) -> None:
    (event,) = run(TOPOLOGY, given)
    assert isinstance(event, OrderedEvent)
    assert (event.source, event.ts_ns, event.payload) == wanted


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"devise": "d1", "n": 0, "at": 1}, "`payload.device` is missing"),
        ({"payload": {"devise": "d1", "n": 0, "at": 1}}, "`payload.device` is missing"),
        ({"device": "d1", "n": "two", "at": 1}, "`payload.n` is"),
        ({**VALUE, "received": "soon"}, "`payload.received` is"),
        ({"device": "d1", "seq": 0, "at": 1}, "`payload.n` is missing"),
        ({"source": "x", "stream": ["a"], "payload": VALUE}, "`stream` is"),
    ],
)
def test_bad_field_is_named_by_path(value: dict[str, Any], said: str) -> None:
    (dead,) = fed(TOPOLOGY, value)
    assert isinstance(dead, DeadRecord)
    assert said in dead.detail


@pytest.mark.parametrize(
    ("value", "at_ns"),
    [
        ({**VALUE, "received": 5}, 5 * S),
        ({"payload": {**VALUE, "received": 5}}, 5 * S),
        ({"payload": VALUE, "arrival": 6 * S}, 6 * S),
        ({**VALUE, "arrival": 6 * S}, 1 * S),
    ],
)
def test_arrival_comes_from_field_or_line(value: dict[str, Any], at_ns: int) -> None:
    (event,) = fed(TOPOLOGY, value)
    assert isinstance(event, OrderedEvent)
    assert event.at_ns == at_ns


def test_preset_selects_the_payload() -> None:
    topology = ONE % "fields: {preset: cloudevents-structured}"
    value = {"source": "c", "sequence": "0", "time": "2026-01-01T00:00:00Z", "data": {"v": 1}}
    (event,) = fed(topology, value)
    assert isinstance(event, OrderedEvent)
    assert (event.source, event.payload) == ("c", {"v": 1})


def test_value_goes_to_stream_with_fields() -> None:
    plain = "clock: {unsynced: trust}, reorder: {start: zero}"
    topology = f"streams: {{a: {{input: a, {plain}}}, b: {{{plain}, ts_unit: s, {FIELDS}}}}}"
    line = {"stream": "a", "source": "x", "seq": 0, "ts": 1, "device": "d1"}
    found = fed(topology, VALUE, line)
    assert {(e.stream, e.source) for e in found if isinstance(e, OrderedEvent)} == {
        ("b", "d1"), ("a", "x")
    }  # fmt: skip


def test_stream_field_selects_stream() -> None:
    plain = "clock: {unsynced: trust}, reorder: {start: zero}, ts_unit: s"
    fields = FIELDS.replace("{", "{stream: payload.kind, ", 1)
    topology = f"streams: {{a: {{{plain}, {fields}}}, b: {{{plain}, {fields}}}}}"
    found = fed(topology, {**VALUE, "kind": "a"}, {**VALUE, "kind": "b"})
    assert {e.stream for e in found if isinstance(e, OrderedEvent)} == {"a", "b"}


def test_values_need_the_same_fields() -> None:
    """If two streams have different `fields`, a value without a stream is a dead letter."""
    other = FIELDS.replace("payload.device", "payload.machine")
    topology = f"streams: {{a: {{input: a, {FIELDS}}}, b: {{input: b, {other}}}}}"
    (dead,) = fed(topology, VALUE)
    assert isinstance(dead, DeadRecord)
    assert "`source` is missing" in dead.detail


def test_restore_keeps_repeated_hour() -> None:
    """A restored Ordering still recognises that the clocks go back between two events."""
    topology = ONE % f"ts_zone: Europe/Berlin, {FIELDS}"
    begin = 1_792_888_200  # This is 02:30 in summer time, half an hour before the clocks go back.

    def value(seq: int, at: str) -> dict[str, Any]:
        return {"device": "d1", "n": seq, "at": at, "received": at}

    first, second = value(0, "2026-10-25T02:30:00"), value(1, "2026-10-25T02:10:00")
    whole, broken, again = (Ordering(topology) for _ in range(3))
    expected = [*whole.feed(first), *whole.feed(second), *whole.close()]
    before = broken.feed(first)
    again.restore(broken.snapshot())
    assert [*before, *again.feed(second), *again.close()] == expected
    times = [each.ts_ns for each in expected if isinstance(each, OrderedEvent)]
    assert times == [begin * S, (begin + 40 * 60) * S]
