"""Examples: results of windows, when they are emitted, and how they are corrected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.kit.queries import Output, window_query
from tests.kit.runs import results_of
from tests.topology.queries.window.streams import MS, START, event, watermark
from topology.base.event import Event
from topology.base.result import CONFIRMED, EMIT, UNCERTAIN, UPDATE
from topology.config import parse
from topology.queries.window import Function
from topology.queries.window.operator import Windows
from topology.stage.stage import Stage

COUNT = (Output("n", "count"),)
SUM = (Output("sum", "sum", ("v",)),)


def windows(
    kind: str,
    *,
    ms: int = 0,
    every_ms: int = 0,
    ordered: bool = True,
    functions: Any = None,
    **settings: Any,
) -> Windows:
    sizes = {"size_ns": ms * MS, "every_ns": (every_ms or ms) * MS}
    known = {"outputs": SUM, "new_source_allowance_ns": 0}
    config = window_query("q", kind, **{**sizes, **known, **settings})
    return Windows("default", config, functions=functions, ordered=ordered)


def end(operator: Windows, at_ms: int) -> list[Any]:
    return list(operator.on_end(START + at_ms * MS).results)


def on_time(operator: Windows, at_ms: int) -> list[Any]:
    return list(operator.on_time(START + at_ms * MS).results)


def brief(results: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return each result's operation, revision, start and end in ms, and its only value.

    A final result also has `!`.
    """
    return [
        (
            result.op,
            result.revision,
            (result.start_ns - START) / MS,
            (result.end_ns - START) / MS,
            *result.values.values(),
            *("!" if result.final else ""),
        )
        for result in results
    ]


def v(source: str, seq: int, ref_ms: float, value: Any, **how: Any) -> Event:
    return event(source, seq, ref_ms, {"v": value}, **how)


def test_event_past_its_end_closes_window() -> None:
    operator = windows("tumbling", ms=10)
    assert not results_of(operator, v("a", 0, 1, 5), v("a", 1, 9, 7), v("a", 2, 10, 1))
    assert operator.next_deadline_ns() == START + 10 * MS  # The instant is not over.
    assert brief(on_time(operator, 10)) == [(EMIT, 0, 0, 10, 12)]
    assert operator.next_deadline_ns() is None
    results = results_of(operator, v("a", 3, 22, 7), v("a", 4, 29, 1, at_ms=40))
    assert [result.at_ns for result in results] == [START + 22 * MS]


def test_watermark_closes_window_as_final() -> None:
    operator = windows("tumbling", ms=10)
    results_of(operator, v("a", 0, 1, 5), watermark(20, 10, 10))
    assert brief(on_time(operator, 20)) == [(EMIT, 0, 0, 10, 5, "!")]
    assert operator.figures()["windows"] == 0


def test_clock_errors_delay_closing() -> None:
    operator = windows("tumbling", ms=10)
    assert not results_of(operator, v("a", 0, 5, 5, error_ms=2), v("a", 1, 11, 5, error_ms=2))
    results = results_of(operator, v("a", 2, 12, 5, error_ms=2), v("a", 3, 15, 5, error_ms=2))
    assert brief(results) == [(EMIT, 0, 0, 10, 5)]
    assert results[0].expected == {"sum": 5 + 5 / 4}
    assert (results[0].low, results[0].high) == ({"sum": 5}, {"sum": 10})
    assert results[0].confidence == UNCERTAIN


def test_late_events_make_one_update() -> None:
    """Both events belong to one instant."""
    operator = windows("tumbling", ms=10)
    late = [v("b", seq, 3, 100, at_ms=25, late="gap") for seq in (0, 1)]
    assert not results_of(operator, v("a", 0, 1, 5), v("a", 1, 12, 7))
    results = results_of(operator, *late, v("a", 2, 26, 0))
    assert brief(results) == [(EMIT, 0, 0, 10, 5), (UPDATE, 1, 0, 10, 205)]


def test_lateness_makes_result_final() -> None:
    """A result becomes final after the allowed lateness even if something is missing."""
    operator = windows("tumbling", ms=10, changes_for_ns=50 * MS, finals=True)
    marks = [watermark(at, to, 0) for at, to in ((20, 20), (59, 59), (61, 60), (62, 61))]
    results = results_of(operator, v("a", 0, 1, 5), *marks)
    assert brief(results) == [(EMIT, 0, 0, 10, 5), (UPDATE, 1, 0, 10, 5, "!")]
    assert {result.confidence for result in results} == {UNCERTAIN}


def test_early_results_follow_arrival_clock() -> None:
    operator = windows("tumbling", ms=100, early_ns=20 * MS)
    assert not results_of(operator, v("a", 0, 1, 5), v("a", 1, 9, 7))
    operator.on_time(START + 9 * MS)
    assert operator.next_deadline_ns() == START + 20 * MS
    (early,) = on_time(operator, 30)
    assert (early.at_ns, early.confidence) == (START + 20 * MS, UNCERTAIN)
    assert brief([early]) == [(EMIT, 0, 0, 100, 12)]
    assert operator.next_deadline_ns() is None  # Nothing has changed since.
    closed = results_of(operator, v("a", 2, 101, 1), v("a", 3, 102, 1))
    assert brief(closed) == [(UPDATE, 1, 0, 100, 12)]


def test_query_without_key_reads_no_payload() -> None:
    operator = windows("tumbling", ms=10, outputs=COUNT)
    results_of(operator, event("s", 0, 1, b"not read at all"))
    (result,) = end(operator, 99)
    assert (result.key, result.values, operator.figures()["unreadable"]) == (None, {"n": 1}, 0)


def test_user_aggregate_is_evaluated() -> None:
    product = Function(lambda: 1, lambda state, value: state * value, lambda a, b: a * b)
    outputs = (Output("p", "product", ("v",)),)
    functions = {"product": product}
    operator = windows("sliding", ms=20, every_ms=10, outputs=outputs, functions=functions)
    results = results_of(operator, v("a", 0, 1, 3), v("a", 1, 11, 5), v("a", 2, 12, "no number"))
    values = [result.values["p"] for result in results + end(operator, 12)]
    assert values == [3, 15, 5]


def test_user_aggregate_is_seldom_read() -> None:
    """An aggregate is read only for a window without a value, if having one matters."""
    asked: list[int] = []

    def value(state: int) -> int:
        asked.append(state)
        return state

    total = Function(lambda: 0, lambda a, b: a + b, lambda a, b: a + b, value)
    outputs = (Output("t", "total", ("v",)),)
    operator = windows("tumbling", ms=100, outputs=outputs, functions={"total": total})
    results_of(operator, v("a", 0, 50, 8, error_ms=1), v("b", 0, 95, 4, error_ms=10))
    first, *_ = end(operator, 95)
    assert first.values == {"t": 12}
    assert 4 not in asked


def test_unordered_events_close_nothing() -> None:
    """Only watermarks close windows if events come in any order."""
    operator = windows("tumbling", ms=10, ordered=False)
    assert not results_of(operator, v("a", 0, 55, 1), v("b", 0, 3, 1, at_ms=56), v("c", 0, 57, 1))
    results = results_of(operator, watermark(58, 10, 10), watermark(59, 11, 11))
    assert brief(results) == [(EMIT, 0, 0, 10, 1, "!")]


VALUES = {"plain": 12, "ignore": 12, "expected": 11, "bounds": 12, "thesis3": 32 / 3}


@pytest.mark.parametrize(("uncertainty", "value"), VALUES.items())
def test_event_at_edge_leaves_sum_uncertain(uncertainty: str, value: Any) -> None:
    """One event is in the middle, and the other is inside for three quarters of its error."""
    operator = windows("tumbling", ms=100, uncertainty=uncertainty)
    results_of(operator, v("a", 0, 50, 8, error_ms=1), v("b", 0, 95, 4, error_ms=10))
    first, *_ = end(operator, 95)
    assert first.values["sum"] == pytest.approx(value, rel=1e-12)
    told = [each["sum"] for each in (first.expected, first.low, first.high)]
    assert told == ([12, 12, 12] if uncertainty == "ignore" else [11, 8, 12])
    assert first.confidence == (CONFIRMED if uncertainty == "ignore" else UNCERTAIN)


def test_each_query_has_its_own_lateness() -> None:
    topology = parse(
        "streams: {default: {}}\nqueries:\n"
        "  short: {window: tumbling 10ms, aggregate: {n: count()}, correct_for: 20ms}\n"
        "  long: {window: tumbling 10ms, aggregate: {n: count()}}\n"
    )
    stage = Stage(topology, ["window"])
    events = [event("a", 0, 5, {}), event("a", 2, 15, {})]
    late = event("a", 1, 7, {}, at_ms=60, late="gap")
    missing = watermark(50, 50, 8)  # An event before 8 ms is missing.
    emitted = results_of(stage, *events, missing, late, event("a", 3, 70, {}))
    updates = {(each.query, each.values["n"]) for each in emitted if each.op == UPDATE}
    assert updates == {("long", 2)}
    assert {each.query for each in emitted if each.op == EMIT} == {"short", "long"}
