"""Examples: each real trace has the figures in the README of its origin."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.traces import PATH_VARIABLE, TRACES, TraceAbsent, folder, read_jr_umts
from benchmarks.workloads import figures
from tests.end_to_end.recordings import recorded

FIGURES = {
    "mesh_sensors/tdma_interference": (27_579, 10, 7_586, 2_533),
    "mesh_sensors/shared_high_load": (21_611, 10, 2_207, 842),
    "jr_umts/d1": (9_600, 8, 1_544, 7),
    "jr_umts/d2": (10_800, 9, 3_666, 2),
    "jr_umts/d4": (8_400, 7, 2_302, 3),
    "lorawan_gateways": (93_435, 11, 40_939, 0),
    "balloon_clocks": (79_761, 3, 51_236, 0),
    "usgs_quakes": (1_707, 12, 1_295, 957),
    "kafka_brokers": (12_840, 3, 13, 0),
    "quic_two_endpoints": (985, 2, 0, 0),
}
"""Numbers of events, sources, late and out-of-order events."""


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", TRACES)
def test_trace_has_readme_figures(name: str) -> None:
    rows = recorded(TRACES[name])
    found = figures([row.row() for row in rows])
    assert (found.n, found.sources, found.late, found.overtaken) == FIGURES[name]
    assert all(before.arrival_ns <= after.arrival_ns for before, after in pairwise(rows))
    assert all(row.seq >= 0 and row.payload for row in rows)


def test_phone_clocks_disagree() -> None:
    rows = recorded(lambda: read_jr_umts("d1", own_clocks=True))
    own = figures([row.row() for row in rows])
    assert 0.8 < own.late / own.n < 0.95
    assert 30 < own.largest_lateness_ns / 1e9 < 40


def test_missing_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(TraceAbsent, match=r"nowhere.*INORDER_DATA"):
        folder()
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    with pytest.raises(TraceAbsent, match=r"packets\.csv\.gz"):
        TRACES["quic_two_endpoints"]()
