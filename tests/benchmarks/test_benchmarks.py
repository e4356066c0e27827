"""Examples: every benchmark runs in a form of a second or two, and says what it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from benchmarks import checkpoint, core, merge, parts, reorder, sources, subjects
from benchmarks.__main__ import bench, found

Said = Callable[..., str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What a benchmark prints, run with these options."""

    def printed(benchmark: click.Command, *options: str) -> str:
        bench(benchmark, *options)
        return capsys.readouterr().out

    return printed


def test_all_are_found() -> None:
    assert " ".join(found()) == (
        "audit changelog checkpoint clock core frontier joins kafka mapped merge parts patterns"
        " probslack reorder restore scale soak sources spark speculation streaming sync thesis"
        " watching windows"
    )


def test_reorder_shows_every_rule_and_plots_them(said: Said, tmp_path: Path) -> None:
    options = ("--set", "D1", "--group", "synthetic", "--divisor", "200", "--plots", str(tmp_path))
    text = said(reorder.command, *options)
    assert "D1: 2 499 events, 312 descents injected" in text
    for rule in ("miss 1e-3", "fixed 500 ms", "thesis, event clock", "rfc, arrival clock"):
        assert rule in text
    assert (tmp_path / "reorder-D1.png").exists()


def test_a_longer_fixed_wait_leaves_less_and_holds_more() -> None:
    subject = subjects.subjects(100)[1]
    rows = subject.rows()
    wanted = list(reorder.points(subject, ["fixed"], dense=True))[::4]
    measured = [one.holding for one in reorder.measure(subject, rows, wanted)]
    lates = [holding.late for holding in measured]
    holds = [holding.mean_ns for holding in measured]
    assert lates == sorted(lates, reverse=True)
    assert lates[0] > 0
    assert holds == sorted(holds)


def test_figures_of_the_specification_stand_beside_ours() -> None:
    subject = subjects.subjects(100)[0]
    point = next(p for p in reorder.points(subject, ["miss"], dense=True) if p.knob == "1e-3")
    table = reorder.compared(subject, reorder.measure(subject, subject.rows(), [point]))
    assert table is not None
    assert [row[2] for row in table.rows] == ["12"]


def test_merge_stands_beside_the_specification(said: Said) -> None:
    text = said(merge.command, "--seconds", "1")
    assert "mixed_rates, 20 sources" in text
    assert "723 / 0.041" in text


def test_core_measures_all_operators_and_batches() -> None:
    rates = core.measure(events=500, rounds=1)
    assert len(rates) == len(core.RUNS) * len(core.DELAYED) * len(core.BATCHES) + 3
    assert all(rate > 0 for rate in rates.values())


def test_many_sources_are_compared_with_few(said: Said) -> None:
    text = said(sources.command, "--sources", "20", "--sources", "30", "--events", "200")
    assert "of 20" in text
    assert "bytes a silent source" in text


def test_core_prints_a_row_for_each(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    said(core.command, "--events", "300", "--rounds", "1", "--markdown", str(file))
    assert "| fused stage | pure |" in file.read_text()


def test_parts_cover_the_way_of_an_event(said: Said) -> None:
    text = said(parts.command, "--events", "12000", "--delayed", "0.12")
    for part in ("decode", "inlet", "reorder", "merge", "outlet", "checkpoint: held"):
        assert part in text


def test_a_checkpoint_does_not_grow_with_what_waits_or_with_silent_sources() -> None:
    few, many = checkpoint.of_held(100), checkpoint.of_held(20_000)
    assert many.keys <= few.keys + 2
    assert many.bytes < 3 * few.bytes
    few, many = checkpoint.of_sources(100, 10), checkpoint.of_sources(2_000, 10)
    assert many.keys <= few.keys + 1  # where the ten offsets lie on two pages
    assert checkpoint.of_sources(2_000, 2_000).keys > 2_000


def test_checkpoint_prints_its_three_tables(said: Said) -> None:
    text = said(checkpoint.command)
    assert "by events since the last one" in text
    assert "1 000, of which 10 spoke" in text
