"""Examples: the benchmarks of the waiting strategies in a form of a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import frontier, probslack
from benchmarks.__main__ import bench
from benchmarks.closing import STRATEGIES
from benchmarks.holding import Holding
from benchmarks.tables import Page
from benchmarks.workloads import D1, soccer
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.windows import CHANGING, STATIC, stream
from topology.published.event_driven import EventDriven

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
    bench(probslack.command, *options, "--table", "kinds", "--table", "ordered")
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


def test_every_kind_and_f_has_a_table_and_a_picture_for_each_measure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench = probslack.Bench(600, 1)
    probslack.everywhere(Page(), bench, tmp_path, ("BB", "ZZ"), (10, 30), (0.1, 0.5))
    text = capsys.readouterr().out
    assert "BB, 0.5" in text
    assert "ZZ, 0.1" in text
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"probslack-all-{what}.png" for what in ("error", "wait", "share", "way")}


def test_what_looks_at_no_delta_runs_once_for_all_and_is_judged_for_each() -> None:
    bench = probslack.Bench(600, 1)
    make = STRATEGIES["ignore"]
    strict = bench.of("ignore", make, "BB", 30, 0.1, early=True)[0]
    loose = bench.of("ignore", make, "BB", 30, 0.9, early=True)[0]
    assert (strict.error, strict.wait_ns) == (loose.error, loose.wait_ns)
    assert strict.worst == pytest.approx(loose.worst + 0.8)


def held(late: int, mean_ns: int) -> Holding:
    return Holding(released=100, late=late, holds_ns=[mean_ns])


def point(strategy: str, knob: str = "") -> frontier.Point:
    return frontier.Point(strategy, knob, EventDriven)


def test_ours_is_read_off_between_its_settings_and_never_beyond_the_strictest() -> None:
    ours = frontier.Ours([(point("tail"), held(1, 10_000)), (point("tail"), held(4, 100))])
    assert ours.at(0.5) is None
    assert ours.at(1) == 10_000
    assert ours.at(2) == pytest.approx(1_000)
    assert ours.at(50) == 100


def test_who_is_ahead_of_ours_is_named() -> None:
    measured = [
        (point("tail"), held(1, 1_000)),
        (point("fixed", "as quick"), held(1, 960)),
        (point("fixed", "quicker"), held(1, 900)),
        (point("LDOP", "slower"), held(5, 2_000)),
        (point("MP-K-Slack"), held(0, 9_000)),
    ]
    assert frontier.judged(measured) == "left of or below ours: fixed quicker, MP-K-Slack"
    assert frontier.judged(measured[:2]) == "left of or below ours: none"
