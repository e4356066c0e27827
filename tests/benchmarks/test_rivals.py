"""Examples: small tables of the cost of waiting, and properties that hold at any size."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks import thesis
from benchmarks.holding import make_event_factory, run
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.thesis import AQ, FIXED, MP, RIGHT, coverage, measure_rivals, measure_sources
from benchmarks.workloads import D1, D3, soccer

SHORT = D1.shorten(100)


def test_numbers_shorten_the_hold() -> None:
    found = measure_rivals(soccer(SHORT).rows)
    for name, holding in found.items():
        assert holding.released == SHORT.n
        if name.startswith("miss"):
            assert holding.mean_ns < found[MP].mean_ns
    assert found["miss 0.1"].descents > found[FIXED].descents


def test_rivals_emit_every_event() -> None:
    recipe = D3.shorten(500)
    found = measure_sources(soccer(recipe).rows, 2)
    assert list(found)[3:] == [MP, AQ]
    for truth in found.values():
        assert truth.released == 2 * recipe.n
    assert found[RIGHT].hold_ns < found[MP].hold_ns


def test_one_source_matches_operator() -> None:
    rows = soccer(SHORT).rows
    alone = run(thesis.by_time(MPKSlack)(), rows, make_event_factory())
    truth = measure_sources(rows, 1)[MP]
    assert (truth.left, truth.late) == (alone.descents, alone.late)
    assert truth.hold_ns == pytest.approx(alone.mean_ns)


def test_tables_quote_the_thesis() -> None:
    tables = [thesis.rivals_table(recipe.shorten(500)) for recipe in (D1, D3)]
    tables.append(thesis.sources_table(D3.shorten(1_000), 5))
    text = "".join(table.markdown() for table in tables)
    for figure in ("| 99.99 | 399.56 |", "| 99.98 | 10 462.98 |", "| 99.12 | 13 432.69 |"):
        assert figure in text


def test_sum_has_its_needed_coverage() -> None:
    assert coverage(0.03, 0.05, 1_000, 1) == pytest.approx(0.9817, abs=5e-5)


def test_simulation_confirms_coverage() -> None:
    """Each window has 1,000 exponentially distributed values, present with the needed share."""
    there = coverage(0.03, 0.05, 1_000, 1)
    rng = Random(1)
    violations = 0
    for _ in range(400):
        values = [rng.expovariate(1) for _ in range(1_000)]
        found = sum(value for value in values if rng.random() < there)
        violations += abs(found - sum(values)) > 0.03 * sum(values)
    assert 1 <= violations <= 36
