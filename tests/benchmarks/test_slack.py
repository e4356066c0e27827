"""Examples: the benchmarks of the waiting strategies in a form of a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import frontier, probslack
from benchmarks.workloads import D1, soccer
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.windows import CHANGING, STATIC, stream

MEANS_MS = {"CB": (20, 6), "BB": (20, 6), "BZ": (20, 5.56), "ZB": (19.26, 6), "ZZ": (19.26, 5.56)}


@pytest.mark.parametrize("kind", [*STATIC, *CHANGING, "buses"])
def test_streams_are_those_of_the_recipe(kind: str) -> None:
    drawn = stream(kind, 1, 9_000)
    assert drawn == sorted(drawn)
    arrivals = [arrival_ns for _, arrival_ns in drawn]
    assert arrivals == sorted(arrivals)
    if kind in MEANS_MS:
        apart = drawn[-1][0] / len(drawn) / MS
        delay = sum(came - ts for ts, came in drawn) / len(drawn) / MS
        assert (apart, delay) == pytest.approx(MEANS_MS[kind], abs=0.15)


def test_probslack_shows_every_strategy_and_plots(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--events", "1500", "--kind", "BB", "--plots", str(tmp_path)]
    probslack.main([*options, "--table", "kinds", "--table", "ordered"])
    text = capsys.readouterr().out
    for name in ("event-driven", "posterior, threshold", "ours", "Oracle", "MP-K-Slack"):
        assert name in text
    assert (tmp_path / "probslack-BB.png").exists()


def test_the_frontier_trades_late_events_for_hold() -> None:
    rows = soccer(D1.shortened(100)).rows
    subject = frontier.Subject("D1", lambda: rows, (0, 0.1, 1, 100), 100 * MS, 1 * S)
    measured = frontier.measure(subject, rows)
    fixed = [found for point, found in measured if point.strategy == "fixed"]
    assert [one.late for one in fixed] == sorted((one.late for one in fixed), reverse=True)
    assert [one.mean_ns for one in fixed] == sorted(one.mean_ns for one in fixed)
    assert len(frontier.table_of(subject, rows, measured).rows) == len(measured)
