"""Examples: the tables of what waiting costs, in small, and what they must show at any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import rivals, thesis
from benchmarks.__main__ import bench
from benchmarks.holding import Holding, event_of, run
from benchmarks.rivals import AQ, FIXED, MP, OURS, Rival, judged, measure, measure_sources
from benchmarks.workloads import D1, D3, soccer
from topology.published.mp_k_slack import MPKSlack

SHORT = D1.shortened(100)


def held(mean_ns: int, descents: int) -> Holding:
    return Holding(released=1, descents=descents, holds_ns=[mean_ns])


def test_numbers_order_for_less_hold_than_time_alone() -> None:
    found = {rival.title: holding for rival, holding in measure(soccer(SHORT).rows)}
    slack = found[MP]
    for title, holding in found.items():
        assert holding.released == SHORT.n
        if title.startswith(OURS):
            assert holding.mean_ns < slack.mean_ns
    assert found["miss 0.1"].descents > found["fixed 500 ms"].descents


def test_the_goal_is_judged_by_the_quickest_setting_that_is_accurate() -> None:
    def rival(name: str, knob: str) -> Rival:
        return Rival(name, knob, rivals.by_number("miss"))

    slow = (rival(MP, ""), held(1_000_000, 0))
    quick, loose = (rival(OURS, "a"), held(10_000, 6)), (rival(OURS, "b"), held(10, 60))
    fixed = (rival(FIXED, "500 ms"), held(10_001, 6))
    said = judged(D1, [slow, quick, loose, fixed])
    assert "miss a: kept" in said
    assert "fixed 500 ms: missed" in said
    assert "miss: missed, no setting" in judged(D1, [slow, loose, fixed])


def test_several_sources_come_through_every_rival_whole() -> None:
    recipe = D3.shortened(500)
    found = measure_sources(soccer(recipe).rows, 2)
    assert list(found)[1:] == [MP, AQ]
    for truth in found.values():
        assert truth.released == 2 * recipe.n
    assert found["stage"].hold_ns < found[MP].hold_ns


def test_one_source_is_as_the_operator_alone() -> None:
    rows = soccer(SHORT).rows
    alone = run(rivals.by_time(MPKSlack)(), rows, event_of())
    truth = measure_sources(rows, 1)[MP]
    assert (truth.left, truth.late) == (alone.descents, alone.late)
    assert truth.hold_ns == pytest.approx(alone.mean_ns)


def test_tables_stand_beside_the_thesis(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    options = ("--table", "rivals", "--divisor", "500", "--plots", str(tmp_path))
    bench(thesis.command, *options, "--markdown", str(file))
    assert capsys.readouterr().out.count("wanted") == 3
    text = file.read_text()
    for figure in ("| 99.99 | 399.56 |", "| 99.98 | 10462.98 |", "| 99.12 | 13432.69 |"):
        assert figure in text
    assert (tmp_path / "thesis-D3.png").exists()
