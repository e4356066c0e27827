"""Examples: what the Spark demo shows of made-up findings. End to end: the demo itself.

The demo takes a minute or two, so it runs with `make spark-long` alone.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import cli.spark.jars
import infra.kafka
from cli.demo.clocks import WrongClock
from cli.program import PROGRAM
from cli.spark.demo import plots
from cli.spark.demo.analysis import Found, Passage, Round
from cli.spark.demo.live import DISORDER, RATES, STAMPS, Kept, so_far
from cli.spark.demo.tables import Account
from tests import ROOT
from tests.services import require
from tests.spark_analytics.marks import SPARK, SPARK_LONG

MS = 1_000_000
S = 1_000_000_000
CLOCKS = {"a": WrongClock(), "b": WrongClock(90 * S, 100, 0)}
DEMO_TIMEOUT_S = 240.0


def passage(source: str, number: int, *, was: int, stands: int, late: str = "") -> Passage:
    true_ns = number * 100 * MS
    ts_ns = CLOCKS[source].reads(true_ns)
    appended_ns, at_ns = true_ns + 5 * MS, true_ns + 20 * MS
    return Passage(source, number, was, ts_ns, appended_ns, stands, true_ns, MS // 10, at_ns, late)


def found() -> Found:
    """Event 2 arrived behind 3 and was put before it; event 4 came late."""
    passages = [
        passage("a", 0, was=0, stands=0),
        passage("b", 1, was=1, stands=1),
        passage("a", 3, was=2, stands=3),
        passage("a", 2, was=3, stands=2),
        passage("b", 5, was=4, stands=4),
        passage("b", 4, was=5, stands=5, late="gap"),
    ]
    rounds = [Round("a", 0, -MS, MS), Round("b", 0, -90 * S - MS, -90 * S + MS)]
    return Found(passages, rounds, [], [], [], raw=6, dead=0, missing=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
class TestPlots:
    pytestmark = SPARK

    def test_all_are_written(self, tmp_path: Path) -> None:
        written = plots.draw(found(), CLOCKS, tmp_path / "new")
        assert [path.name for path in written] == ["disorder.png", "clocks.png", "latency.png"]
        for path in written:
            assert path.read_bytes().startswith(b"\x89PNG")
            assert path.stat().st_size > 10_000

    def test_disorder_counts_what_lies_behind(self) -> None:
        figure = plots.disorder(pyplot(), found(), CLOCKS)
        titles = [axes.get_title() for axes in figure.axes]
        assert "3 of 6" in titles[0]  # by stamps: a's 3 and 2 behind b's 1, b's 4 behind its 5
        assert "2 of 6" in titles[1]
        assert titles[2] == ("events.ordered: 1 of 6 behind a younger one, 1 of these marked late")

    @pytest.mark.parametrize("picture", [plots.disorder, plots.clock_errors, plots.latency])
    def test_axes_are_named(self, picture: Any) -> None:
        figure = picture(pyplot(), found(), CLOCKS)
        assert figure.get_suptitle()
        assert all(axes.get_title() or axes.get_xlabel() for axes in figure.axes)
        assert any(axes.get_xlabel() for axes in figure.axes)
        assert figure.axes[0].get_ylabel()


def pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


class TestLive:
    pytestmark = SPARK

    def test_a_batch_that_comes_again_counts_once(self) -> None:
        from pyspark.sql import Row

        kept = Kept()
        for _ in range(2):
            kept.batches[DISORDER, 0] = [
                Row(start=0, source="a", n=10, late=1, missing=2, behind_ns=[5 * MS])
            ]
        kept.batches[DISORDER, 1] = [
            Row(start=1, source="a", n=7, late=0, missing=0, behind_ns=[9 * MS])
        ]
        kept.batches[RATES, 0] = [Row(start=0, source="a", rate=2.0)]
        kept.batches[STAMPS, 0] = [Row(start=0, source="b", least_offset_ns=-90 * S, error_ns=[MS])]
        sources = so_far(kept)
        assert list(sources) == ["a", "b"]
        a = sources["a"]
        assert (a.events, a.late, a.missing, a.last_rate) == (17, 1, 2, 2.0)
        assert a.last_behind_ns == 9 * MS
        assert sources["b"].last_offset_ns == -90 * S


def test_an_account_agrees_only_if_every_line_does() -> None:
    assert Account([("records", 3, 3), ("copies", 1, 1)]).agrees
    assert not Account([("records", 3, 3), ("copies", 1, 2)]).agrees


@pytest.mark.kafka
@pytest.mark.timeout(DEMO_TIMEOUT_S + 30)
class TestDemo:
    pytestmark = SPARK_LONG

    def test_it_ends_by_itself_and_agrees(self, tmp_path: Path) -> None:
        require(cli.spark.jars.missing())
        require(infra.kafka.missing())
        done = subprocess.run(
            [*PROGRAM, "spark", "demo", "--speed", "20", "--out", str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEMO_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        assert "all of it agrees" in done.stdout
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["clocks.png", "disorder.png", "latency.png"]
