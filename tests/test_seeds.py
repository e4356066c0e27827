"""Example of `tests.seeds`: the days share out the seeds."""

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
