"""Examples: a window query that is restored without a state begins in the middle of its stream."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.queries import Output, beginnings_in, window_query
from tests.kit.runs import results_of, through_changelog
from tests.topology.queries.window.streams import MS, START, event, watermark
from topology.answer.query.beginning import ALWAYS, UNKNOWN
from topology.base.event import Event
from topology.base.operator import NEVER
from topology.base.result import CONFIRMED, RETRACT, UNCERTAIN
from topology.queries.window.operator import Windows

COUNT = (Output("n", "count"),)
KINDS: dict[str, Any] = {
    "tumbling": {"size_ns": 20 * MS, "every_ns": 20 * MS},
    "sliding": {"size_ns": 20 * MS, "every_ns": 10 * MS},
    "session": {"size_ns": 5 * MS},
    "count": {"events": 3},
}


def added(kind: str, **settings: Any) -> Windows:
    ordered = settings.pop("ordered", True)
    config = window_query("q", kind, COUNT, changes_for_ns=NEVER, **KINDS[kind], **settings)
    operator = Windows("default", config, ordered=ordered, announced=settings.get("early_ns") != 7)
    operator.restore({}, ())
    return operator


def found(operator: Windows, *events: Event) -> list[Any]:
    results = results_of(operator, *events) + list(operator.on_time(events[-1].at_ns).results)
    return [
        (r.op, (r.start_ns - START) // MS, r.values.get("n"), r.confidence, r.final)
        for r in results
    ]


def test_unknown_beginning_emits_nothing() -> None:
    operator = added("tumbling")
    assert not found(operator, *(event("s", ms, ms) for ms in range(90)))
    assert beginnings_in(operator.snapshot()) == [[[hex(UNKNOWN)]]]
    assert not operator.on_end(START + 90 * MS).results


def test_first_ordered_event_sets_beginning() -> None:
    """An event sets the beginning if nothing has been announced before."""
    operator = added("tumbling", early_ns=7)
    late = event("s", 1, 1, late="gap", at_ms=9)
    found(operator, late, event("s", 2, 9, error_ms=2), event("s", 3, 15))
    assert beginnings_in(operator.snapshot()) == [[START + 11 * MS + 1]]


def test_source_errors_delay_the_beginning() -> None:
    operator = added("tumbling")
    said = watermark(10, 10, 10, error_ms=2)
    said.error_all_ns = 12 * MS
    found(operator, said)
    assert beginnings_in(operator.snapshot()) == [[START + 22 * MS + 1]]


def test_session_reaching_back_is_retracted() -> None:
    """A late event extends the session to before the beginning; it stays retracted later."""
    operator = added("session")
    found(operator, watermark(10, 10, 10), event("s", 1, 17))
    assert found(operator, watermark(30, 30, 30)) == [("emit", 17, 1, CONFIRMED, False)]
    late = event("s", 2, 13, at_ms=31, late="gap")
    assert found(operator, late) == [(RETRACT, 17, None, UNCERTAIN, True)]
    again = added("session")
    again.restore(through_changelog(operator.snapshot()), ())
    late = event("s", 3, 19, at_ms=32, late="gap")
    assert found(again, late, watermark(90, 90, 90)) == []


def test_added_count_windows_are_uncertain() -> None:
    """Result ids differ from those of the earlier query."""

    def begun(operator: Windows, ms: int) -> list[Any]:
        events = [event("s", each, each) for each in range(ms, ms + 25)]
        return results_of(operator, watermark(ms, ms, ms), *events)

    first = begun(Windows("default", window_query("q", "count", COUNT, events=3)), 0)
    second, third = begun(added("count"), 25), begun(added("count"), 50)
    assert second[0].start_ns == START + 26 * MS
    assert {r.confidence for r in second + third} == {UNCERTAIN}
    assert {r.values["n"] for r in second + third} == {3}
    ids = {r.id for r in first + second + third}
    assert len(ids) == len(first) + len(second) + len(third)


@pytest.mark.parametrize("kind", KINDS)
def test_existing_query_keeps_no_beginning(kind: str) -> None:
    operator = Windows("default", window_query("q", kind, COUNT, **KINDS[kind]))
    assert beginnings_in(operator.snapshot()) == []
    again = added(kind)
    again.restore(through_changelog(operator.snapshot()), ())
    assert again.beginnings[0].since_ns == ALWAYS
