"""Examples: a window query counts values and windows that it refuses, leaves out or gives up."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Output, window_query
from tests.topology.queries.window.streams import MS, START, event, watermark
from topology.base.event import Event
from topology.base.result import CONFIRMED
from topology.queries.window.aggregates.built_in import RANKED
from topology.queries.window.operator import Windows

COUNT = (Output("n", "count"),)
SIZE = 10 * MS


def end(operator: Windows, now_ns: int) -> list[Any]:
    return list(operator.on_end(now_ns).results)


def tumbling(*functions: str, **settings: Any) -> Windows:
    """Return windows with aggregates of `v`, each named after its function."""
    outputs = [
        Output(name, name, ("v",), 500_000 * (name == "quantile"), ("v",) if name in RANKED else ())
        for name in functions
    ]
    return Windows("default", window_query("q", "tumbling", outputs, SIZE, SIZE, **settings))


def payloads(operator: Windows, values: Iterable[Any]) -> Any:
    """Return the result of the window with all the given payloads."""
    events = [event("s", seq, 1 + seq / 1_000, value) for seq, value in enumerate(values)]
    operator.on_batch(events, START + MS)
    (result,) = end(operator, START + MS)
    return result


def test_unusable_values_are_counted() -> None:
    operator = tumbling("count", "sum", "distinct")
    numbers: list[Any] = [1, float("nan"), float("-inf"), 10**400, 10**308 * 2]
    others: list[Any] = ["text", True, "\ud800", "x" * 2_000, {}, None]
    values: list[Any] = [{"v": each} for each in numbers + others]
    values += [{}, [], "v", None, b'{"v": 2}', b"{", b""]
    result = payloads(operator, values)
    assert result.values == {"count": len(values), "sum": 3, "distinct": 4}
    figures = operator.figures()
    assert (figures["skipped"], figures["unreadable"]) == (2 * len(values) - 2 - 4, 1)


NOTHING: list[Any] = [{}, {"v": None}, {"v": "8,0"}]


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session", "count"])
@pytest.mark.parametrize("function", ["sum", "squares and sum"])
def test_sum_without_usable_values_is_null(kind: str, function: str) -> None:
    """With `stddev`, the plain case adds events one by one, not in columns."""
    outputs = [Output("sum", "sum", ("v",))]
    outputs += [Output("s", "stddev", ("v",))] * (function != "sum")
    query = window_query("q", kind, outputs, SIZE, SIZE, events=len(NOTHING))
    nothing = payloads(Windows("default", query), NOTHING)
    assert (nothing.values["sum"], nothing.low["sum"], nothing.high["sum"]) == (None, None, None)
    some = payloads(Windows("default", query), [*NOTHING[1:], {"v": 0}])
    assert some.values["sum"] == some.expected["sum"] == 0


@pytest.mark.parametrize(
    ("uncertainty", "expected"),
    [("plain", None), ("expected", 1), ("bounds", None), ("thesis3", 4 / 3), ("ignore", None)],
)
def test_sum_of_a_possible_value_is_null(uncertainty: str, expected: Any) -> None:
    """A quarter of the event's error range is in the window, its corrected timestamp is not."""
    query = window_query(
        "q", "tumbling", [Output("v", "sum", ("v",))], 100 * MS, 100 * MS, uncertainty=uncertainty
    )
    operator = Windows("default", query)
    outside = event("b", 0, 105, {"v": 4})
    outside.error_ns = 10 * MS
    operator.on_batch([event("a", 0, 50, {"v": "text"}), outside], START + 105 * MS)
    first, *_ = end(operator, START + 105 * MS)
    assert first.values["v"] == expected
    if expected is None:
        assert first.low["v"] is first.high["v"] is first.expected["v"] is None
    assert (first.confidence == CONFIRMED) == (uncertainty == "ignore")


def test_sum_beyond_a_double_is_null() -> None:
    large = 8e307
    result = payloads(tumbling("sum", "avg", "stddev", "max", "min"), [{"v": large}] * 4)
    assert result.values == {"sum": None, "avg": large, "stddev": 0, "max": large, "min": large}


def test_integers_beyond_64_bit_are_floats() -> None:
    result = payloads(tumbling("sum", "last"), [{"v": 2**63 - 1}] * 2)
    assert result.values == {"sum": 2.0**64, "last": 2**63 - 1}
    assert isinstance(result.values["sum"], float)


def test_key_above_bound_is_left_out() -> None:
    operator = tumbling("count", key=("k",), max_windows=2)
    events = [event("s", seq, 1, {"k": seq % 3}) for seq in range(9)]
    operator.on_batch(events, START + MS)
    figures = operator.figures()
    assert (figures["windows"], figures["refused"]) == (2, 3)
    results = [(result.key, result.values["count"]) for result in end(operator, START + MS)]
    assert results == [(0, 3), (1, 3)]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_emitted_windows_make_room(kind: str) -> None:
    """A gap holds the completeness frontier forever, and windows still continue."""
    config = window_query("q", kind, COUNT, SIZE, SIZE, max_windows=3, finals=True)
    operator = Windows("default", config)
    results: list[Any] = []
    for seq in range(20):
        at_ms = seq * 25 + 1
        for one in (event("s", seq, at_ms, {}), watermark(at_ms, at_ms, 0)):
            results += operator.on_batch([one], one.at_ns).results
        assert operator.figures()["windows"] <= 3
    results += end(operator, START + 500 * MS)
    assert operator.figures()["given_up"] > 10
    assert operator.figures()["refused"] == 0
    finals = [result for result in results if result.final]
    assert len({result.start_ns for result in finals}) == 20
    assert all(result.values == {"n": 1} for result in results)


def test_many_edge_events_leave_no_bounds() -> None:
    operator = tumbling("count", max_edge_events=5)
    rng = Random(1)
    events = [event("s", seq, 9 + rng.random() * 2, {}, error_ms=3) for seq in range(40)]
    events.sort(key=lambda each: each.ref_time_ns)
    inside = sum(each.ref_time_ns < START + SIZE for each in events)
    operator.on_batch(events, START + 20 * MS)
    results = end(operator, START + 20 * MS)
    assert [result.values["count"] for result in results] == [inside, 40 - inside]
    assert {(result.low["count"], result.confidence) for result in results} == {(None, "uncertain")}


def test_huge_error_uses_corrected_timestamp() -> None:
    operator = tumbling("count")
    operator.on_batch([event("s", 0, 5, {}, error_ms=1e9)], START + 5 * MS)
    (result,) = end(operator, START + 5 * MS)
    assert (result.values, result.low) == ({"count": 1}, {"count": None})
    assert result.confidence == "uncertain"


OF_ONE = ("avg", "min", "max", "stddev", "quantile", "first", "last", "max_by", "min_by")


def near_an_edge(function: str, *events: Event, uncertainty: str = "plain") -> Any:
    """Return the result of the window that begins at START."""
    operator = tumbling(function, uncertainty=uncertainty)
    operator.on_batch(list(events), START + 20 * MS)
    return next(each for each in end(operator, START + 20 * MS) if each.start_ns == START)


@pytest.mark.parametrize("function", OF_ONE)
@pytest.mark.parametrize("inside", [[], [event("s", 0, 5, {})]], ids=["none", "one without it"])
def test_possible_event_leaves_value_unknown(function: str, inside: list[Event]) -> None:
    """Even the lack of a value is uncertain, since the event is inside in another world."""
    near = event("s", 1, 11, {"v": 8}, error_ms=3)
    said = near_an_edge(function, *copies(inside), near)
    assert (said.values, said.low, said.high) == ({function: None},) * 3
    assert said.confidence == "uncertain"
    near.value = {}
    assert near_an_edge(function, *copies(inside), near).confidence == "confirmed"


def test_expected_mean_counts_the_share() -> None:
    """A mean therefore has a value, and a maximum has none."""
    near = event("s", 0, 11, {"v": 8}, error_ms=3)
    mean, most = (near_an_edge(each, near, uncertainty="expected") for each in ("avg", "max"))
    assert (mean.values, mean.low, mean.high) == ({"avg": 8},) * 3
    assert (most.values, most.low, most.high) == ({"max": None},) * 3


def test_clock_can_put_event_inside() -> None:
    """Given the first event, the second of the same clock is 8 ms to 9.7 ms after START."""
    first = event("s", 0, 8, {}, error_ms=2.2, ts_ms=11.5)
    second = event("s", 1, 11, {"v": 8}, error_ms=3)
    assert near_an_edge("max", first, second).values == {"max": 8}
    second.segment = 1
    assert near_an_edge("max", first, second).values == {"max": None}


def test_count_window_memory_is_bounded() -> None:
    config = window_query("q", "count", COUNT, events=10, max_recount=4)
    operator = Windows("default", config)
    results: list[Any] = []
    for seq in range(25):
        results += operator.on_batch([event("s", seq, seq, {})], START + seq * MS).results
        assert operator.figures()["retained"] <= 4
    assert [result.values for result in results] == [{"n": 10}] * 2
    late = event("z", 0, 3, {}, at_ms=30, late="gap")
    operator.on_batch([late], late.at_ns)
    assert operator.figures()["expired"] == 1


@pytest.mark.parametrize("most", [1.7976931348623157e308, 9e307, int(1.7976931348623157e308)])
def test_largest_numbers_count_everywhere(most: float) -> None:
    """Values are the largest that a double can hold.

    Integers beyond 64 bit cannot be distinguished from floats, unless a driver passes them as
    integers.
    """
    said = payloads(tumbling("sum", "distinct", *OF_ONE), [{"v": most}, {"v": -most}])
    assert said.values.pop("quantile") == pytest.approx(-most, rel=0.02)
    assert said.values == {
        "sum": 0,
        "avg": 0,
        "min": -most,
        "max": most,
        "stddev": most,
        "first": most,
        "last": -most,
        "max_by": most,
        "min_by": -most,
        "distinct": 2 if type(most) is int else 0,
    }
