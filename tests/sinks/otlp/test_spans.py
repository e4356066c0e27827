"""Examples: the spans of an event are one trace whoever makes them, and the budget adds up."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from sinks.otlp.budget import FirstResult, Steps, Travelled
from sinks.otlp.spans import BUDGET, Span, spans

WHO = ("default", "press-7", 2, 17)
FUSED = Travelled(WHO, "beat", 90, 3, 85, 100, "", 120, 150, reorders=True, read_ns=104)
APPLICATION = "plant"


def made(
    *travelled: Travelled, results: tuple[FirstResult, ...] = (), committed_ns: int = 180
) -> list[Span]:
    steps = Steps(list(travelled), list(results))
    return [span for each in spans(APPLICATION, steps, committed_ns) for span in each]


def assert_adds_up(found: list[Span], order: tuple[str, ...] = BUDGET) -> None:
    """What is below the root fills it, in this order, without a hole."""
    (root,) = (span for span in found if not span.parent_id)
    parts = [span for span in found if span.parent_id == root.span_id and span.name in BUDGET]
    parts.sort(key=lambda span: (span.start_ns, order.index(span.name)))
    assert [span.name for span in parts] == list(order)
    assert (parts[0].start_ns, parts[-1].end_ns) == (root.start_ns, root.end_ns)
    assert all(one.end_ns == other.start_ns for one, other in pairwise(parts))
    assert sum(span.end_ns - span.start_ns for span in parts) == root.end_ns - root.start_ns


def test_the_budget_of_a_fused_stage() -> None:
    found = made(FUSED)
    assert_adds_up(found)
    took = {span.name: span.end_ns - span.start_ns for span in found}
    assert took == {
        "transit": 10,
        "unread": 4,
        "reorder": 16,
        "clock": 0,
        "merge": 30,
        "deliver": 30,
        "event": 90,
    }
    (root,) = (span for span in found if not span.parent_id)
    assert root.attributes["inorder.source"] == "press-7"
    (clock,) = (span for span in found if span.name == "clock")
    assert clock.attributes == {"inorder.offset_ns": 5, "inorder.error_ns": 3}


APART = ("transit", "reorder", "clock", "unread", "merge", "deliver")


def test_two_stages_make_one_trace() -> None:
    first = dataclasses.replace(FUSED, merged_ns=None)
    second = dataclasses.replace(FUSED, reorders=False, read_ns=141)
    apart = [*made(first, committed_ns=140), *made(second)]
    assert {span.trace_id for span in apart} == {made(FUSED)[0].trace_id}
    assert_adds_up(apart, APART)
    (reorder,) = (span for span in apart if span.name == "reorder")
    below = [span for span in apart if span.parent_id == reorder.span_id]
    took = [(span.name, span.start_ns, span.end_ns) for span in below]
    assert took == [("unread", 100, 104), ("deliver", 120, 140)]
    assert len({span.span_id for span in apart}) == len(apart)


def test_a_backlog_is_unread_and_not_delivered() -> None:
    """The stage decides at instants that are over: 1000 later the event had not been read."""
    behind = dataclasses.replace(FUSED, read_ns=1_100)
    found = made(behind, committed_ns=1_103)
    assert_adds_up(found)
    took = {span.name: span.end_ns - span.start_ns for span in found}
    assert (took["unread"], took["reorder"], took["merge"], took["deliver"]) == (1_000, 0, 0, 3)

    found = made(dataclasses.replace(behind, merged_ns=None), committed_ns=1_103)
    took = {span.name: span.end_ns - span.start_ns for span in found}
    assert (took["unread"], took["reorder"], took["deliver"]) == (1_000, 20, 3)
    apart = [*found, *made(dataclasses.replace(behind, reorders=False, read_ns=1_104))]
    assert_adds_up(apart, APART)


@pytest.mark.parametrize(
    "change",
    [
        {"ref_time_ns": 104},
        {"ref_time_ns": 125},
        {"merged_ns": 119},
        {"late": "gap", "arrival_ns": 150, "reordered_ns": 150},
    ],
)
def test_clocks_that_disagree_still_add_up(change: dict[str, object]) -> None:
    found = made(dataclasses.replace(FUSED, **change), committed_ns=118)  # type: ignore[arg-type]
    assert_adds_up(found)
    assert all(span.end_ns >= span.start_ns for span in found)


def test_what_is_not_known_is_left_out() -> None:
    found = made(dataclasses.replace(FUSED, reordered_ns=None, reorders=False))
    assert [span.name for span in found] == ["deliver", "event"]


def test_results_stand_below_the_event_each_query_for_itself() -> None:
    results = tuple(FirstResult(WHO, query, "window", 150, 1_000) for query in ("a", "b"))
    found = made(FUSED, results=results)
    (root,) = (span for span in found if not span.parent_id)
    windows = [span for span in found if span.name == "window"]
    assert {span.parent_id for span in windows} == {root.span_id}
    assert [(span.start_ns, span.end_ns) for span in windows] == [(150, 1_000)] * 2
    assert len({span.span_id for span in found}) == len(found)
    assert [span.attributes["inorder.query"] for span in windows] == ["a", "b"]


def test_other_events_and_applications_are_other_traces() -> None:
    other = dataclasses.replace(FUSED, who=("default", "press-7", 2, 18))
    steps = Steps([FUSED])
    (elsewhere,) = spans("another", steps, 180)
    traces = {made(FUSED)[0].trace_id, made(other)[0].trace_id, elsewhere[0].trace_id}
    assert len(traces) == 3
