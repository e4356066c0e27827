"""Examples: all ways of speculation give the same results, and ours is early."""

from __future__ import annotations

import pytest

from benchmarks.speculation import (
    COLUMNS,
    RUNS,
    count_differences,
    measure_load_step,
    run_all,
    stream,
)

PURE, *_ = RUNS
OURS = "frontier, budget of 50 %: ours"


@pytest.mark.parametrize(("kind", "cut"), [("stalls", 75), ("jitter", 60)])
def test_ways_agree_and_ours_is_early(kind: str, cut: int) -> None:
    found = run_all(stream(60, kind, 1))
    assert list(found) == list(RUNS)
    for output in found.values():
        assert count_differences(found[PURE], output) == 0
        assert output.total(lambda level: level.late) == 0
    assert int(COLUMNS["cut"](found[OURS], found[PURE]).rstrip("%")) >= cut


def test_differing_run_is_found() -> None:
    found = run_all(stream(20, "stalls", 1))
    wrong = found[OURS]._replace(current=dict(list(found[OURS].current.items())[1:]))
    assert count_differences(found[PURE], wrong) == 1


def test_load_step_has_both_controls() -> None:
    names = [row[0].partition(":")[0] for row in measure_load_step().rows]
    assert names == ["tcp", "tcp", "budget", "budget"]
