"""Examples: the averages of tables 5.11 and 5.12 in small.

Laws: truth lies within the bounds where clocks are synced; where clocks are right all
estimators are exact.
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
"""Two seconds, so three windows of a second."""
SIZES_NS = (1 * S,)


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(SHORT, 1, SIZES_NS)


def test_every_window_of_every_estimator_has_its_error(measured: Measured) -> None:
    assert len(measured) == len(CLOCKS) * len(ESTIMATORS)
    assert {len(errors.found) for errors in measured.values()} == {3}


def test_sync_brings_the_error_down(measured: Measured) -> None:
    unsynced = measured[CLOCKS[0].name, S, PLAIN]
    assert unsynced.mean > 1
    for clocks in CLOCKS[1:]:
        for name in ESTIMATORS:
            assert measured[clocks.name, S, name].mean < unsynced.mean


def test_truth_is_within_the_bounds_where_clocks_are_synced(measured: Measured) -> None:
    for (clocks, _, name), errors in measured.items():
        if name != PLAIN and clocks != CLOCKS[0].name:
            assert errors.outside == 0
            assert errors.width > 0


def test_right_clocks_make_every_estimator_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "AHEAD_NS", 0)
    monkeypatch.setattr(aggregates, "CLOCKS", (Clocks("right", TRUST),))
    for errors in measure(SHORT, 1, SIZES_NS).values():
        assert errors.mean == pytest.approx(0, abs=1e-6)


def test_a_delay_on_one_way_shifts_every_round_and_no_other_draw() -> None:
    even = rounds({"a": Dial()}, 0, S)
    odd = rounds({"a": Dial()}, 0, S, ways_ns=(MS, 0))
    for one, other in zip(even, odd, strict=True):
        assert other.t1_ns == one.t1_ns
        assert other.t2_ns - one.t2_ns == other.t4_ns - one.t4_ns == MS


def test_the_tables_stand_beside_the_thesis() -> None:
    tables = dict(aggregates.tables_of(D3.shorten(60), 1, SIZES_NS))
    assert len(tables) == len(CLOCKS)
    rows = next(iter(tables.values()))().rows
    assert [(row[0], row[-2]) for row in rows] == [
        ("plain", "0.70"),
        ("three windows", "0.29"),
        ("expected", ""),
    ]
