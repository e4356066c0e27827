"""Examples: small runs of the averages of tables 5.11 and 5.12.

Laws: with synced clocks the truth lies within the bounds; with right clocks all estimators are
exact.
"""

from __future__ import annotations

import pytest

from benchmarks import aggregates
from benchmarks.aggregates import CLOCKS, ESTIMATORS, PLAIN, Clocks, Measured, measure
from benchmarks.synced import TRUST
from benchmarks.workloads import D3
from benchmarks.workloads.clocks import Dial, rounds
from benchmarks.workloads.laws import MS, S

SHORT = D3.shorten(30)
"""A run of two seconds, so three windows of one second."""
SIZES_NS = (1 * S,)


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(SHORT, 1, SIZES_NS)


def test_each_window_has_an_error(measured: Measured) -> None:
    assert len(measured) == len(CLOCKS) * len(ESTIMATORS)
    assert {len(errors.found) for errors in measured.values()} == {3}


def test_sync_reduces_the_error(measured: Measured) -> None:
    unsynced = measured[CLOCKS[0].name, S, PLAIN]
    assert unsynced.mean > 1
    for clocks in CLOCKS[1:]:
        for name in ESTIMATORS:
            assert measured[clocks.name, S, name].mean < unsynced.mean


def test_law_bounds_contain_truth(measured: Measured) -> None:
    for (clocks, _, name), errors in measured.items():
        if name != PLAIN and clocks != CLOCKS[0].name:
            assert errors.outside == 0
            assert errors.width > 0


def test_law_right_clocks_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "AHEAD_NS", 0)
    monkeypatch.setattr(aggregates, "CLOCKS", (Clocks("right", TRUST),))
    for errors in measure(SHORT, 1, SIZES_NS).values():
        assert errors.mean == pytest.approx(0, abs=1e-6)


def test_one_way_delay_shifts_rounds() -> None:
    even = rounds({"a": Dial()}, 0, S)
    odd = rounds({"a": Dial()}, 0, S, ways_ns=(MS, 0))
    for one, other in zip(even, odd, strict=True):
        assert other.t1_ns == one.t1_ns
        assert other.t2_ns - one.t2_ns == other.t4_ns - one.t4_ns == MS


def test_tables_quote_the_thesis() -> None:
    tables = dict(aggregates.tables_of(D3.shorten(60), 1, SIZES_NS))
    assert len(tables) == len(CLOCKS)
    rows = next(iter(tables.values()))().rows
    assert [(row[0], row[-2]) for row in rows] == [
        ("plain", "0.70"),
        ("three windows", "0.29"),
        ("expected", ""),
    ]
