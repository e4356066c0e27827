"""Examples of `tests.seeds`: the days share out the seeds, and the cases that take turns."""

from __future__ import annotations

import pytest

from tests import seeds


def test_the_days_share_out_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    for day in range(seeds.DAYS):
        monkeypatch.setattr(seeds, "TODAY", seeds.days_of(str(day)))
        found += seeds.seeds_of_today(3)
    monkeypatch.setattr(seeds, "TODAY", seeds.days_of(f"0-{seeds.DAYS - 1}"))
    assert found == list(seeds.seeds_of_today(3)) == list(range(3 * seeds.DAYS))


@pytest.mark.parametrize("turns", [2, 3])
def test_so_many_days_have_each_case_once(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
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
