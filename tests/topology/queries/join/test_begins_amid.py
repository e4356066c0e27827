"""Examples: a join that is restored without a state begins in the middle of its streams."""

from __future__ import annotations

from typing import Any

from tests.kit.queries import Field, Side, beginnings_in, join_query
from tests.kit.runs import results_of
from tests.topology.queries.join.streams import MS, START, event, watermark
from topology.answer.query.beginning import UNKNOWN
from topology.base.event import Event
from topology.base.operator import NEVER
from topology.base.result import CONFIRMED
from topology.queries.join.operator import Join
from topology.queries.join.queries import JoinQueries

X, Y = Side("x", "a"), Side("y", "b")
FIELDS = (Field("x", 0, ("n",)), Field("y", 1, ("n",)))


def added(**settings: Any) -> JoinQueries:
    known = {"kind": "interval", "low_ns": -5 * MS, "high_ns": 5 * MS, "changes_for_ns": NEVER}
    join = join_query("q", (X, Y), fields=FIELDS, **{**known, **settings})
    operator = JoinQueries([Join(join)])
    operator.restore({}, ())
    return operator


def found(operator: JoinQueries, *events: Event) -> list[Any]:
    for offset, each in enumerate(events):
        each.offset = offset
    results = results_of(operator, *events) + list(operator.on_time(events[-1].at_ns).results)
    return [(r.op, r.values["x"], r.values["y"], r.confidence) for r in results]


def said(ms: float, *streams: str) -> list[Event]:
    return [watermark(stream, ms, ms) for stream in streams or ("a", "b")]


def test_join_starts_at_watermarks() -> None:
    operator = added(outer="left")
    found(operator, *said(10, "a"), event("a", 1, 50, n=50))
    assert beginnings_in(operator.snapshot()) == [[START + 10 * MS + 1, [hex(UNKNOWN)]]]
    # The partners of an event are in the other stream.
    assert found(operator, *said(60, "b"), *said(90)) == []
    assert found(operator, event("a", 2, 100, n=100), *said(200)) == [
        ("emit", 100, None, CONFIRMED)
    ]


def test_event_before_start_is_dropped() -> None:
    """Before the restart, the event can have been final already."""
    operator = added()
    late = event("a", 1, 8, n=8, at_ms=9, late="gap")
    assert found(operator, late, event("b", 1, 10, n=10), *said(10)) == []
    assert operator.figures()["expired"] == 1
    late = event("a", 2, 11, n=11, at_ms=12, late="gap")
    assert found(operator, event("b", 2, 12, n=12), late) == [
        ("emit", 11, 10, CONFIRMED),
        ("emit", 11, 12, CONFIRMED),
    ]
