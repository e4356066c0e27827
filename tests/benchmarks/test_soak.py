"""Examples: what a soak takes for a fault; end to end: a short one with a real worker."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.soak import Sample, faults_of, growth, not_once, run, table_of, unbalanced
from benchmarks.tables import Page
from benchmarks.workloads.churn import churn
from infra.kafka import missing
from tests.services import require


def sample(at_s: float, mib: float = 100.0, stuck_s: float = 0.0) -> Sample:
    return Sample(at_s, {"supervisor": 40.0, "merge": mib - 40.0}, at_s, 0, 0, 0, 0, stuck_s)


def test_growth_is_a_share_of_an_hour_after_the_warm_up() -> None:
    flat = [sample(at, 50.0 if at < 900 else 100.0) for at in range(0, 3_601, 60)]
    assert growth(flat) == pytest.approx(0.0)
    steep = [sample(at, 100.0 + at / 360) for at in range(0, 3_601, 60)]
    assert growth(steep) == pytest.approx(0.094, abs=0.002)


def test_faults_are_told_in_sentences() -> None:
    names = {("a", 0): 1, ("a", 1): 1}
    assert not_once(Counter(names), Counter(names)) == []
    lost = not_once(Counter(names), Counter({("a", 0): 1}))
    assert lost == ["1 events never came out, as ('a', 1)"]
    again = not_once(Counter(names), Counter({**names, ("a", 1): 2}))
    assert again == ["1 events came out again, as ('a', 1)"]
    assert faults_of([sample(0), sample(60)]) == []
    assert faults_of([sample(0), sample(60, stuck_s=31)]) == ["a partition stood for 31 s"]


def test_the_balance_is_asked_of_each_place() -> None:
    place = ("merge", "0")
    figures: dict[str, dict[tuple[str, str], float]] = {
        name: {} for name in ("emitted", "late", "duplicate", "dead", "held")
    }
    figures["in"] = {place: 3.0}
    figures["emitted"][place] = 2.0
    assert unbalanced(figures) == ["('merge', '0'): 3 came in, of 2 it is known what became"]
    figures["held"][place] = 1.0
    assert unbalanced(figures) == []


def test_sources_come_and_go_and_rows_come_as_they_arrive() -> None:
    rows = list(churn(1_000, 20, sources=5, life_s=2.0))
    assert rows == list(churn(1_000, 20, sources=5, life_s=2.0))
    assert [row.arrival_ns for row in rows] == sorted(row.arrival_ns for row in rows)
    sources = {row.source for row in rows}
    assert 30 < len(sources) < 80
    copies = len(rows) - len({(row.source, row.seq) for row in rows})
    assert 5 < copies < 50
    # It is made while it is asked for: an endless one costs nothing before.
    assert len(list(islice(churn(1_000, 10**9), 10))) == 10


@pytest.mark.kafka
@pytest.mark.long
def test_a_short_soak_is_good(tmp_path: Path) -> None:
    require(missing())
    samples, faults = run(tmp_path, churn(300, 15, life_s=5.0), 15, Page())
    assert [fault for fault in faults if not fault.startswith("memory")] == []
    assert {"merge_mib", "pattern_mib"} <= samples[-1].row().keys()
    assert table_of(samples).rows
