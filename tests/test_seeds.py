"""Examples of `tests.seeds`: a day's share, a span of days, and that workers share the day."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import seeds

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("text", "days"), [("0", [0]), ("7", [7]), ("0-2", [0, 1, 2]), ("38-39", [38, 39])]
)
def test_a_day_or_a_span_of_days(text: str, days: list[int]) -> None:
    assert list(seeds.days_of(text)) == days


def test_the_days_share_out_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    for day in range(seeds.DAYS):
        monkeypatch.setattr(seeds, "TODAY", seeds.days_of(str(day)))
        found += seeds.seeds_of_today(3)
    monkeypatch.setattr(seeds, "TODAY", seeds.days_of(f"0-{seeds.DAYS - 1}"))
    assert found == list(seeds.seeds_of_today(3)) == list(range(3 * seeds.DAYS))


@pytest.mark.parametrize("given", [{}, {seeds.VARIABLE: "4"}])
def test_processes_that_a_run_starts_have_its_day(given: dict[str, str]) -> None:
    inner = f"{sys.executable} -c 'from tests.seeds import TEXT; print(TEXT)'"
    outer = (
        f"from tests.seeds import TEXT; import os; print(TEXT, flush=True); os.system({inner!r})"
    )
    environ = {key: value for key, value in os.environ.items() if key != seeds.VARIABLE}
    command = [sys.executable, "-c", outer]
    done = subprocess.run(
        command, cwd=ROOT, env=environ | given, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.split()
    assert first == second
    assert 0 <= int(first) < seeds.DAYS
    assert not given or first == "4"
