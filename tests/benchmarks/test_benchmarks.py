"""Examples: every benchmark runs for a second or two and gives plausible figures."""

from __future__ import annotations

import pytest

from benchmarks import checkpoint, clock, core, patterns, reorder
from benchmarks.__main__ import bench
from benchmarks.holding import make_event_factory, run
from benchmarks.pattern_runs import Cost
from benchmarks.workloads import D1, D2, soccer


def test_reorder_table_has_known_rules() -> None:
    table = reorder.measure("D1", soccer(D1.shorten(200)).rows)
    assert table.title == "D1: 2 499 events, 312 descents injected"
    rules = {row[0] for row in table.rows}
    assert rules >= {"miss 1e-3", "fixed 500 ms", "thesis, event clock", "rfc, arrival clock"}


def test_longer_wait_is_less_late() -> None:
    rows = soccer(D2.shorten(100)).rows
    found = [
        run(make(), rows, make_event_factory())
        for name, make in list(reorder.rules(reorder.USUAL))
        if name.startswith("fixed")
    ][::4]
    lates = [holding.late for holding in found]
    holds = [holding.mean_ns for holding in found]
    assert lates == sorted(lates, reverse=True)
    assert lates[0] > 0
    assert holds == sorted(holds)


def test_core_measures_all_parts() -> None:
    figures = core.measure(events=500)
    assert len(figures) == len(core.PARTS) * len(core.DELAYED) * len(core.BATCHES) + 3
    assert all(figure > 0 for figure in figures.values())


def test_patterns_measure_each_share() -> None:
    figures = patterns.measure(events=500)
    assert len(figures) == 6
    assert all(figure > 0 for figure in figures.values())


def test_wrong_baseline_is_marked() -> None:
    ours, other = (Cost(10, 1.0, emitted=emitted) for emitted in (5, 4))
    assert patterns.RATES["matches"](ours, ours) == "5"
    assert patterns.RATES["matches"](other, ours) == "4 (WRONG)"


def test_clock_shows_both_models(capsys: pytest.CaptureFixture[str]) -> None:
    bench(clock.command, "--only", "burst")
    text = capsys.readouterr().out
    assert "polygon" in text
    assert "thesis" in text


def test_checkpoint_ignores_idle_state() -> None:
    few, many = checkpoint.measure_buffered(100), checkpoint.measure_buffered(20_000)
    assert many.keys <= few.keys + 2
    assert many.bytes < 3 * few.bytes
    few, many = checkpoint.measure_sources(100, 10), checkpoint.measure_sources(2_000, 10)
    assert many.keys <= few.keys + 1  # if the ten offsets lie on two pages
    assert checkpoint.measure_sources(2_000, 2_000).keys > 2_000


def test_checkpoint_figures_are_positive() -> None:
    figures = checkpoint.measure((100,), (10,), (10, 20))
    assert "10 events behind a hole: CPU ms" in figures
    assert "20 sources, of which 10 sent: bytes" in figures
    assert all(figure > 0 for figure in figures.values())
