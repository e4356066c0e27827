"""Examples: what a window query refuses, leaves out and gives up; all of it is counted."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.queries import Output, window_query
from tests.topology.window.streams import MS, START, event, watermark
from topology.config import Aggregate, Window, parse
from topology.model.event import Event
from topology.window.operator import Windows

COUNT = (Output("n", "count"),)
SIZE = 10 * MS


def end(operator: Windows, now_ns: int) -> list[Any]:
    return list(operator.on_end(now_ns).results)


def test_a_query_of_the_topology_file_is_what_the_operator_takes() -> None:
    topology = parse(
        "streams: {pitch: {}}\n"
        "queries:\n"
        "  speed: {window: sliding 10s every 2s, key: payload.player.id, early: 5ns,"
        ' aggregate: {p: "quantile(payload.v, 0.9)", n: count()}}\n'
    )
    query = topology.queries["speed"]
    assert (query.name, query.stream, query.key) == ("speed", "pitch", "payload.player.id")
    assert query.outputs == {
        "p": Aggregate("quantile", ("v",), 900_000),
        "n": Aggregate("count"),
    }
    assert query.windows == Window("sliding", 10**10, 2 * 10**9)
    assert (query.emits_every_ns, query.changes_for_ns) == (5, 600 * 10**9)
    Windows("pitch", query)


def test_values_that_are_none_are_left_out_and_counted() -> None:
    outputs = (Output("n", "count"), Output("sum", "sum", ("v",)), Output("d", "distinct", ("v",)))
    operator = Windows("default", window_query("q", "tumbling", outputs, SIZE, SIZE))
    payloads: list[Any] = [
        {"v": 1},
        {"v": float("nan")},
        {"v": float("-inf")},
        {"v": 10**400},
        {"v": 10**308 * 2},
        {"v": "text"},
        {"v": True},
        {"v": "\ud800"},
        {"v": "x" * 2_000},
        {"v": {}},
        {"v": None},
        {},
        [],
        "v",
        None,
        b'{"v": 2}',
        b"{",
        b"",
    ]
    events = [event("s", seq, 1, payload) for seq, payload in enumerate(payloads)]
    operator.on_batch(events, START + MS)
    (result,) = end(operator, START + MS)
    assert result.values == {"n": len(payloads), "sum": 3, "d": 4}
    figures = operator.figures()
    assert (figures["skipped"], figures["unreadable"]) == (2 * len(payloads) - 2 - 4, 1)


def test_sums_beyond_a_double_are_told_as_none() -> None:
    outputs = tuple(Output(name, name, ("v",)) for name in ("sum", "avg", "stddev", "max", "min"))
    operator = Windows("default", window_query("q", "tumbling", outputs, SIZE, SIZE))
    large = 8e307
    events = [event("s", seq, 1, {"v": large}) for seq in range(4)]
    operator.on_batch(events, START + MS)
    (result,) = end(operator, START + MS)
    assert result.values == {"sum": None, "avg": large, "stddev": 0, "max": large, "min": large}


def test_whole_numbers_beyond_64_bit_are_told_as_floats() -> None:
    outputs = (Output("sum", "sum", ("v",)), Output("last", "last", ("v",)))
    operator = Windows("default", window_query("q", "tumbling", outputs, SIZE, SIZE))
    operator.on_batch([event("s", seq, 1, {"v": 2**63 - 1}) for seq in range(2)], START + MS)
    (result,) = end(operator, START + MS)
    assert result.values == {"sum": 2.0**64, "last": 2**63 - 1}
    assert isinstance(result.values["sum"], float)


def test_one_key_too_many_is_left_out_and_hurts_no_other() -> None:
    config = window_query("q", "tumbling", COUNT, SIZE, SIZE, key=("k",), max_windows=2)
    operator = Windows("default", config)
    events = [event("s", seq, 1, {"k": seq % 3}) for seq in range(9)]
    operator.on_batch(events, START + MS)
    figures = operator.figures()
    assert (figures["windows"], figures["refused"]) == (2, 3)
    results = end(operator, START + MS)
    assert [(result.key, result.values) for result in results] == [(0, {"n": 3}), (1, {"n": 3})]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_what_was_told_makes_room_for_what_is_open(kind: str) -> None:
    """A hole holds C for ever; windows go on all the same."""
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


def test_a_window_with_too_much_that_is_unsure_is_told_without_bounds() -> None:
    config = window_query("q", "tumbling", COUNT, SIZE, SIZE, max_edge_events=5)
    operator = Windows("default", config)
    rng = Random(1)
    events = [event("s", seq, 9 + rng.random() * 2, {}, error_ms=3) for seq in range(40)]
    events.sort(key=lambda each: each.ref_time_ns)
    inside = sum(each.ref_time_ns < START + SIZE for each in events)
    operator.on_batch(events, START + 20 * MS)
    results = end(operator, START + 20 * MS)
    assert [result.values["n"] for result in results] == [inside, 40 - inside]
    assert {(result.low["n"], result.confidence) for result in results} == {(None, "uncertain")}


def test_an_event_of_which_nothing_is_sure_is_told_by_its_reference_time() -> None:
    operator = Windows("default", window_query("q", "tumbling", COUNT, SIZE, SIZE))
    operator.on_batch([event("s", 0, 5, {}, error_ms=1e9)], START + 5 * MS)
    (result,) = end(operator, START + 5 * MS)
    assert (result.values, result.low, result.confidence) == ({"n": 1}, {"n": None}, "uncertain")


OF_ONE = ("avg", "min", "max", "stddev", "quantile", "first", "last")


def near_an_edge(function: str, *events: Event, uncertainty: str = "plain") -> Any:
    """The result of the window that begins at START."""
    outputs = (Output("it", function, ("v",), 500_000 if function == "quantile" else 0),)
    config = window_query("q", "tumbling", outputs, SIZE, SIZE, uncertainty=uncertainty)
    operator = Windows("default", config)
    operator.on_batch(list(events), START + 20 * MS)
    return next(each for each in end(operator, START + 20 * MS) if each.start_ns == START)


@pytest.mark.parametrize("function", OF_ONE)
def test_where_an_event_only_may_be_nothing_is_said_of_its_value(function: str) -> None:
    """Not even that it is sure: another world has the event."""
    said = near_an_edge(function, event("s", 0, 11, {"v": 8}, error_ms=3))
    assert (said.values, said.low, said.high) == ({"it": None},) * 3
    assert said.confidence == "uncertain"


@pytest.mark.parametrize("function", OF_ONE)
def test_where_the_events_inside_lack_the_value_too(function: str) -> None:
    inside, near = event("s", 0, 5, {}), event("s", 1, 11, {"v": 8}, error_ms=3)
    said = near_an_edge(function, inside, near)
    assert (said.values, said.low, said.high) == ({"it": None},) * 3
    assert said.confidence == "uncertain"
    near.value = {}
    said = near_an_edge(function, inside, near)
    assert (said.values, said.confidence) == ({"it": None}, "confirmed")


def test_by_what_is_expected_an_event_that_may_be_inside_has_its_share() -> None:
    """So a mean has a value; what goes by reference time has none."""
    near = event("s", 0, 11, {"v": 8}, error_ms=3)
    mean, most = (near_an_edge(each, near, uncertainty="expected") for each in ("avg", "max"))
    assert (mean.values, mean.low, mean.high) == ({"it": 8},) * 3
    assert (most.values, most.low, most.high) == ({"it": None},) * 3


def test_an_event_that_its_clock_puts_inside_has_a_value() -> None:
    """The first event's time leaves the second, by the same clock, 8 ms to 9.7 ms from START."""
    first = event("s", 0, 8, {}, error_ms=2.2, ts_ms=11.5)
    second = event("s", 1, 11, {"v": 8}, error_ms=3)
    assert near_an_edge("max", first, second).values == {"it": 8}
    second.segment = 1
    assert near_an_edge("max", first, second).values == {"it": None}


def test_a_count_window_keeps_so_much_and_no_more() -> None:
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
def test_the_largest_numbers_count_for_every_aggregate(most: float) -> None:
    """All that a double holds. Those beyond 64 bit cannot be told apart, but for integers that a
    driver hands over as such."""
    functions = ("sum", "avg", "min", "max", "stddev", "quantile", "first", "last", "distinct")
    outputs = tuple(
        Output(each, each, ("v",), 500_000 if each == "quantile" else 0) for each in functions
    )
    operator = Windows("default", window_query("q", "tumbling", outputs, SIZE, SIZE))
    values = (most, -most)
    events = [event("s", n, n / 1000, {"v": value}) for n, value in enumerate(values)]
    operator.on_batch(events, 0)
    (said,) = end(operator, START)
    assert said.values.pop("quantile") == pytest.approx(-most, rel=0.02)
    assert said.values == {
        "sum": 0,
        "avg": 0,
        "min": -most,
        "max": most,
        "stddev": most,
        "first": most,
        "last": -most,
        "distinct": 2 if type(most) is int else 0,
    }
