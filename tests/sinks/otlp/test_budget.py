"""Examples: the steps of an event in a fused stage, in two, and in one that finds results."""

from __future__ import annotations

from typing import Any

import pytest

from sinks.otlp import budget as budgeting
from sinks.otlp.budget import Budget, Steps
from sinks.otlp.sampling import Sampling
from topology.model.event import Event
from topology.model.result import (
    CONFIRMED,
    EMIT,
    UPDATE,
    JoinResult,
    MatchResult,
    Member,
    Partner,
    Result,
    WindowResult,
)

ALL = Sampling(1)
FUSED = ("reorder", "clock", "merge")


def event(seq: int = 0, *, ref: int = 90, arrival: int = 100, at: int = 100) -> Event:
    made = Event("default", "s", 0, seq, ref, arrival)
    made.at_ns = at
    return made


def passing(budget: Budget, one: Event, *steps: tuple[str, int]) -> Steps:
    """The event goes by these operators at these instants."""
    budget.entered([one])
    for operator, at_ns in steps:
        one.at_ns = at_ns
        budget.left(operator, [one])
    return budget.take()


def test_a_fused_stage_knows_all_its_steps() -> None:
    budget = Budget(ALL, FUSED, clock=lambda: 105)
    (one,) = passing(budget, event(), ("reorder", 120), ("clock", 120), ("merge", 150)).travelled
    assert (one.ref_time_ns, one.arrival_ns, one.reordered_ns, one.merged_ns) == (90, 100, 120, 150)
    assert one.reorders
    assert one.read_ns == 105
    assert not budget.take()


def test_two_stages_each_know_theirs() -> None:
    (one,) = passing(Budget(ALL, FUSED[:2]), event(), ("reorder", 120), ("clock", 120)).travelled
    assert (one.reordered_ns, one.merged_ns, one.reorders) == (120, None, True)
    merges = Budget(ALL, ["merge"], clock=lambda: 140)
    (one,) = passing(merges, event(at=120), ("merge", 150)).travelled
    assert (one.reordered_ns, one.merged_ns, one.reorders) == (120, 150, False)
    assert one.read_ns == 140


def test_one_whose_begin_is_not_known_is_told_without_it() -> None:
    budget = Budget(ALL, FUSED)
    held = event(at=150)
    budget.left("merge", [held])  # it waited there when the partition was opened
    (one,) = budget.take().travelled
    assert (one.reordered_ns, one.merged_ns, one.read_ns) == (None, 150, None)


def found(kind: type[Result], query: str = "q", op: str = EMIT, **more: object) -> Result:
    plain: tuple[Any, ...] = ("default", query, "id", op, 0, False, CONFIRMED, 50, 200, {})
    return kind(*(170, *plain), **more)  # type: ignore[arg-type]


def test_the_first_result_that_names_an_event_is_told() -> None:
    budget = Budget(ALL, ["pattern", "join"])
    budget.entered([event(at=150), event(7, at=150)])
    match = found(MatchResult, members=[Member("a", "s", 0, 0, 90), Member("b", "other", 0, 7, 95)])
    row = found(JoinResult, "row", partners=[Partner("a", "default", "s", 0, 7, 90)])
    budget.found([match, row, match])
    first, second = budget.take().results
    assert (first.who[3], first.query, first.found_by) == (0, "q", "pattern")
    assert (first.merged_ns, first.at_ns) == (150, 170)
    assert (second.who[3], second.query, second.found_by) == (7, "row", "join")
    budget.found([match, found(MatchResult, op=UPDATE)])
    assert not budget.take()


def test_a_window_stands_for_the_events_whose_time_it_holds() -> None:
    budget = Budget(ALL, [*FUSED, "window"], keyed=["sessions"])
    for seq, ref in ((0, 49), (1, 50), (2, 199), (3, 200)):
        passing(budget, event(seq, ref=ref), ("reorder", 120), ("merge", 150))
    budget.found([found(WindowResult, key="a"), found(WindowResult, key="b")])
    assert [told.who[3] for told in budget.take().results] == [1, 2]
    budget.found([found(WindowResult, "sessions", key="a")])
    assert not budget.take(), "whose key is another's is not known"


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgeting, "MAX_GOING", 10)
    monkeypatch.setattr(budgeting, "MAX_STEPS", 4)
    budget = Budget(ALL, FUSED)
    events = [event(seq) for seq in range(16)]
    budget.left("reorder", events)
    assert budget.left_out == 6
    budget.left("merge", events)
    steps = budget.take()
    assert len(steps.travelled) == 4
    assert budget.left_out == 18


def test_of_those_that_reorder_holds_the_oldest_gives_way_uncounted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been late, or a copy: then it never leaves."""
    monkeypatch.setattr(budgeting, "MAX_GOING", 2)
    budget = Budget(ALL, FUSED)
    budget.entered([event(seq) for seq in range(5)])
    assert budget.left_out == 0


def test_of_those_that_wait_for_results_the_oldest_gives_way_uncounted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgeting, "MAX_GOING", 2)
    budget = Budget(ALL, [*FUSED, "window"])
    for seq in range(3):
        passing(budget, event(seq, ref=50 + seq), ("reorder", 120), ("merge", 150))
    budget.found([found(WindowResult, key=None)])
    assert [told.who[3] for told in budget.take().results] == [1, 2]
    assert budget.left_out == 0
