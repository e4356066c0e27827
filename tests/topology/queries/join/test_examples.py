"""Examples: which rows a join emits, when, and how they are corrected."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from tests.kit.queries import Field, Side, join_query
from tests.kit.runs import results_of
from tests.topology.queries.join.streams import MS, START, event, watermark
from topology.base.event import Event
from topology.base.result import CONFIRMED, UNCERTAIN, Overflow
from topology.queries.join.operator import Join
from topology.queries.join.queries import JoinQueries

KEY = ("key",)
X, Y, Z = Side("x", "X", key=KEY), Side("y", "Y", key=KEY), Side("z", "Z", key=KEY)
KNOWN: dict[str, Any] = {"new_source_allowance_ns": 0}
WITHIN: dict[str, Any] = {"kind": "interval", "low_ns": -5 * MS, "high_ns": 10 * MS}
TUMBLING: dict[str, Any] = {"kind": "tumbling", "size_ns": 10 * MS, "every_ns": 10 * MS}


def join(*sides: Side, **settings: Any) -> JoinQueries:
    return JoinQueries([Join(join_query("q", sides or (X, Y), **{**KNOWN, **WITHIN, **settings}))])


x, y, z = (partial(event, stream) for stream in "XYZ")


def watermarks_at(at_ms: float, *streams: str, complete_ms: float | None = None) -> list[Event]:
    """Return watermarks up to that time, of these streams or of all."""
    return [watermark(each, at_ms, at_ms, complete_ms) for each in streams or ("X", "Y", "Z")]


def end(operator: JoinQueries, at_ms: float = 1_000) -> list[Any]:
    return list(operator.on_end(START + round(at_ms * MS)).results)


def rows(results: Iterable[Any]) -> list[str]:
    """Return the rows as texts like `x1 y2`.

    The sign `-` before a row means retracted, and `~` updated. The sign `!` after it means final,
    and `?` uncertain.
    """
    signs = {"emit": "", "retract": "-", "update": "~"}
    return [
        signs[result.op]
        + " ".join(f"{partner.alias}{partner.seq}" for partner in result.partners)
        + "!" * result.final
        + "?" * (result.confidence == UNCERTAIN and result.op != "retract")
        for result in results
    ]


def test_row_comes_with_last_event() -> None:
    operator = join(fields=(Field("v", 0, ("v",)), Field("w", 1, ("v",)), Field("all", 1)))
    (row,) = results_of(operator, x(1, 100, v=7), y(2, 103, at_ms=104))
    assert (row.at_ns, row.op, row.revision, row.final) == (START + 104 * MS, "emit", 0, True)
    assert (row.stream, row.query, row.key, row.confidence) == ("X", "q", "k", CONFIRMED)
    assert (row.start_ns, row.end_ns) == (START + 100 * MS, START + 103 * MS)
    assert row.values == {"v": 7, "w": None, "all": {"key": "k"}}
    assert [tuple(partner) for partner in row.partners] == [
        ("x", "X", "s", 0, 1, START + 100 * MS),
        ("y", "Y", "s", 0, 2, START + 103 * MS),
    ]
    assert row.probability == 1.0


def test_null_row_waits_for_partners() -> None:
    operator = join(outer="left", finals=True)
    assert results_of(operator, x(1, 100), *watermarks_at(110, "Y"), x(2, 111, at_ms=112)) == []
    (row,) = results_of(operator, *watermarks_at(113, "Y", complete_ms=90), x(3, 114))
    assert (rows([row]), row.at_ns) == (["x1?"], START + 113 * MS)
    assert rows(results_of(operator, *watermarks_at(115, "Y", complete_ms=111), x(4, 116))) == [
        "~x1!"
    ]


def test_null_row_comes_1_ns_after_reach() -> None:
    operator = join(outer="left")
    assert results_of(operator, x(1, 100), *watermarks_at(110, "Y"), x(2, 112, at_ms=113)) == []
    assert rows(results_of(operator, *watermarks_at(110 + 1 / MS, "Y"), x(3, 112, at_ms=114))) == [
        "x1!"
    ]


def test_only_partner_streams_are_awaited() -> None:
    operator = join(outer="full")
    results_of(operator, x(1, 100), y(1, 200, at_ms=200))
    assert rows(results_of(operator, *watermarks_at(300, "Y"), x(2, 150, at_ms=301))) == ["x1"]
    assert rows(results_of(operator, *watermarks_at(310, "X"), x(3, 311))) == ["x2!", "y1!"]


def test_late_partner_retracts_null() -> None:
    operator = join(outer="left")
    results_of(operator, x(1, 100))
    assert rows(results_of(operator, *watermarks_at(120, "Y", complete_ms=104), x(2, 121))) == [
        "x1?"
    ]
    late = y(7, 104, at_ms=122, late="gap")
    found = results_of(operator, late)
    assert rows(found) == ["x1 y7!", "-x1!"]
    assert [(row.revision, row.at_ns) for row in found] == [(0, late.at_ns), (1, late.at_ns)]
    assert rows(end(operator)) == ["x2!?"], "what is missing stays so"


def test_late_event_waits_for_its_instant() -> None:
    operator = join(outer="left")
    results_of(operator, x(9, 1), *watermarks_at(200, complete_ms=50))
    late = x(1, 100, at_ms=201, late="gap")
    assert rows(results_of(operator, late, x(2, 101, at_ms=201))) == ["x9!"]
    assert rows(results_of(operator, y(1, 112, at_ms=201, late="gap"))) == []
    assert rows(results_of(operator, y(2, 109, at_ms=201, late="gap"))) == ["x1 y2!", "x2 y2!"]
    assert rows(results_of(operator, *watermarks_at(202))) == []


def test_only_equal_keys_join() -> None:
    operator = join(outer="full")
    events = [x(1, 1, key="a"), y(1, 1, key="b"), y(2, 1, key=1), x(2, 1, key=1.0)]
    (row,) = results_of(operator, *events, x(3, 1, key=None))
    assert (rows([row]), row.key) == (["x2 y2!"], 1)
    assert rows(end(operator)) == ["x1!", "y1!"]
    assert operator.figures()["without_key"] == 1


def test_unreadable_payload_has_no_fields() -> None:
    sides = Side("x", "X"), Side("y", "Y")
    operator = join(*sides, fields=(Field("v", 0, ("v",)), Field("all", 0)))
    broken = x(1, 100)
    broken.value = b"{"
    (row,) = results_of(operator, broken, y(1, 100))
    assert row.values == {"v": None, "all": None}
    assert operator.figures()["unreadable"] == 1


def test_uncertain_times_give_probability() -> None:
    operator = join(uncertainty="expected", outer="left")
    (row,) = results_of(operator, x(1, 100, error_ms=1), y(1, 109, error_ms=1, source="t"))
    assert (rows([row]), round(row.probability, 3)) == (["x1 y1!?"], 0.875)
    assert rows(results_of(operator, y(2, 111, error_ms=1), y(3, 101, error_ms=1))) == ["x1 y3!"]
    results_of(operator, x(2, 200, error_ms=1), y(4, 211, error_ms=1))
    (alone,) = end(operator)
    assert (rows([alone]), round(alone.probability, 3)) == (["x2!?"], 0.875)


def test_restart_keeps_horizon_of_event() -> None:
    """Without the horizon, an uncertain event would bring expired events back."""
    operator = join(changes_for_ns=20 * MS, uncertainty="bounds")
    unsure = y(1, 135, at_ms=152, error_ms=30)
    results_of(
        operator, x(1, 100), *watermarks_at(150, complete_ms=0), x(2, 151), unsure, x(3, 153)
    )
    (mark,) = (key for key in operator.snapshot() if key.endswith(f"wide/{unsure.offset}/"))
    again = join(changes_for_ns=20 * MS, uncertainty="bounds")
    again.restore(operator.snapshot(), list(operator.iter_held()))
    assert again.snapshot()[mark] == operator.snapshot()[mark] == START + 130 * MS


def test_oldest_event_is_given_up() -> None:
    operator = join(outer="left", max_events=2, finals=True)
    results_of(operator, x(1, 100), x(2, 101))
    assert rows(results_of(operator, x(3, 300))) == ["x1!?"]
    assert rows(results_of(operator, y(1, 102))) == ["x2 y1!"]
    figures = operator.figures()
    assert (figures["retained"], figures["given_up"]) == (2, 2)
    assert rows(end(operator)) == ["x3!"]


def test_given_up_event_has_a_row() -> None:
    operator = join(outer="left", max_events=1)
    results_of(operator, *watermarks_at(200, complete_ms=50))
    assert rows(results_of(operator, x(1, 100, at_ms=201, late="gap"))) == []
    assert rows(results_of(operator, x(2, 101, at_ms=201, late="gap"))) == ["x1!?"]
    assert rows(end(operator)) == ["x2?"]


def test_given_up_event_settles_its_rows() -> None:
    """If the rows stayed open, a null row would be emitted for an event that had a partner."""
    operator = join(outer="full", max_events=2)
    assert rows(results_of(operator, y(1, 95), x(1, 100), x(2, 300), x(3, 301))) == ["x1 y1!"]
    assert operator.figures()["given_up"] == 2
    assert rows(end(operator)) == ["x2!", "x3!"]


def test_event_has_at_most_max_rows() -> None:
    operator = join(max_rows=2)
    found = results_of(operator, y(1, 100), y(2, 101), y(3, 102), y(4, 103), x(1, 100))
    assert rows(found[:2]) == ["x1 y1!", "x1 y2!"]
    (overflow,) = found[2:]
    assert isinstance(overflow, Overflow)
    assert overflow.found_by == "join", "else it looks for the topic of patterns"
    assert (overflow.query, overflow.stream, overflow.shown) == ("q", "X", 2)
    assert overflow.member == ("x", "s", 0, 1, START + 100 * MS)
    assert operator.figures()["overflows"] == 1


def test_null_rows_count_towards_max_rows() -> None:
    operator = join(X, Y, Z, outer="left", max_rows=2)
    results_of(operator, y(1, 100), y(2, 101), y(3, 102), x(1, 100))
    *found, overflow = end(operator)
    assert rows(found) == ["x1 y1!", "x1 y2!"]
    assert isinstance(overflow, Overflow)


def test_duplicate_is_only_counted() -> None:
    operator = join()
    assert rows(results_of(operator, x(1, 100), y(1, 100), y(1, 100))) == ["x1 y1!"]
    assert operator.figures()["duplicates"] == 1


def test_changed_query_restarts_empty() -> None:
    operator = join(outer="left")
    first = x(1, 100)
    results_of(operator, first)
    other = JoinQueries([Join(join_query("q", (X, Y), outer="left", **KNOWN, **TUMBLING))])
    other.restore(operator.snapshot(), [first])
    assert rows(results_of(other, y(1, 100))) == []
    assert [key for key, value in other.changes().items() if value is None]


def test_queries_take_turns_at_the_end() -> None:
    """Queries would also take turns if the clock had advanced before the end."""
    configs = [join_query(name, (X, Y), outer="left", **KNOWN, **WITHIN) for name in ("p", "q")]
    operator = JoinQueries([Join(config) for config in configs])
    results_of(
        operator, *watermarks_at(200, complete_ms=50), x(1, 100, at_ms=201, late="gap"), x(2, 201)
    )
    found = end(operator, 201)
    assert rows(found) == ["x1?", "x1?", "x2!?", "x2!?"]
    assert [row.query for row in found] == ["p", "q", "p", "q"]
