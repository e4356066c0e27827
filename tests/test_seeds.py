"""Examples of `tests.seeds`: days share the seeds, and cases take turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import settings

from tests import seeds


def test_hypothesis_is_random_in_ci() -> None:
    assert not settings().derandomize


def test_days_share_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    for day in range(seeds.DAYS):
        monkeypatch.setattr(seeds, "TODAY", seeds.days_of(str(day)))
        found += seeds.seeds_of_today(3)
    monkeypatch.setattr(seeds, "TODAY", seeds.days_of(f"0-{seeds.DAYS - 1}"))
    assert found == list(seeds.seeds_of_today(3)) == list(range(3 * seeds.DAYS))


@pytest.mark.parametrize("turns", [2, 3])
def test_turns_cover_each_case_once(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    days = []
    monkeypatch.setattr(seeds, "TODAY", seeds.days_of("0"))
    for turn in range(turns):
        monkeypatch.setattr(seeds, "TURN", str(turn))
        days.append([place for place in range(36) if seeds.is_todays(place, turns)])
    assert sorted(place for day in days for place in day) == [*range(36)]
    assert {len(day) for day in days} == {36 // turns}
    assert all({place % turns for place in day} == {*range(turns)} for day in days)
    monkeypatch.setattr(seeds, "TURN", seeds.ALL_TURNS)
    assert all(seeds.is_todays(place, turns) for place in range(36))


TURNS = pytest.mark.in_turns(2).mark
CASES = [f"{function}[{place}]" for function in "abc" for place in range(4)]
MARKS: dict[str, dict[str, Any]] = {
    "a": {seeds.IN_TURNS: TURNS},
    "b": {},
    "c": {seeds.IN_TURNS: TURNS, "chaos": pytest.mark.chaos.mark},
}


@pytest.mark.parametrize(
    ("keyword", "args", "left_out"),
    [
        (
            "",
            ["tests"],
            ["a[1]", "a[2]"],
        ),  # cases of a function that takes turns and is in `make test-all`
        ("a", ["tests"], []),
        ("", ["tests/a.py::a[1]"], []),
    ],
)
def test_cases_of_other_turns_are_left_out(
    monkeypatch: pytest.MonkeyPatch, keyword: str, args: list[str], left_out: list[str]
) -> None:
    monkeypatch.setattr(seeds, "TODAY", seeds.days_of("0"))
    monkeypatch.setattr(seeds, "TURN", "0")
    items: list[Any] = [
        SimpleNamespace(nodeid=case, get_closest_marker=MARKS[case[0]].get) for case in CASES
    ]
    config = Mock()
    config.option.keyword, config.args = keyword, args
    seeds.pytest_collection_modifyitems(config, items)
    assert [item.nodeid for item in items] == [case for case in CASES if case not in left_out]
    calls = config.hook.pytest_deselected.call_args_list
    assert [item.nodeid for call in calls for item in call.kwargs["items"]] == left_out
