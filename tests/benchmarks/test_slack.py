"""Examples: the benchmarks of waiting strategies, run for a second or two."""

from __future__ import annotations

import pytest

from benchmarks import probslack
from benchmarks.closing import ORACLE, STRATEGIES
from benchmarks.probslack import World
from benchmarks.workloads.laws import MS
from benchmarks.workloads.windows import CHANGING, STATIC, stream

MEANS_MS = {"CB": (20, 6), "BB": (20, 6), "BZ": (20, 5.56), "ZB": (19.26, 6), "ZZ": (19.26, 5.56)}


@pytest.mark.parametrize("kind", [*STATIC, *CHANGING])
def test_streams_follow_their_recipe(kind: str) -> None:
    drawn = stream(kind, 1, 9_000)
    assert drawn == sorted(drawn)
    arrivals = [arrival_ns for _, arrival_ns in drawn]
    assert arrivals == sorted(arrivals)
    if kind in MEANS_MS:
        apart = drawn[-1][0] / len(drawn) / MS
        delay = sum(came - ts for ts, came in drawn) / len(drawn) / MS
        assert (apart, delay) == pytest.approx(MEANS_MS[kind], abs=0.15)


def test_each_strategy_has_a_row() -> None:
    table = probslack.table([World("BB", 1_500, 1)])
    assert [row[0] for row in table.rows] == [*STRATEGIES, ORACLE]
    assert table.title.startswith("BB: f = 30 ms, delta = 0.1, 1500 events")


def test_joint_table_counts_each_run() -> None:
    every = [
        World(kind, 600, 1, f_ms=f_ms, delta=0.5) for kind in ("BB", "ZZ") for f_ms in (10, 30)
    ]
    table = probslack.table(every)
    broken = list(table.columns).index("broken")
    assert {row[broken].partition(" of ")[2] for row in table.rows} == {"4"}
    assert table.title.startswith("BB, ZZ: f = 10, 30 ms")


def test_deltas_share_runs() -> None:
    (strict,) = probslack.measure("ignore", World("BB", 600, 1, delta=0.1))
    runs = probslack.find_closings.cache_info().misses
    (loose,) = probslack.measure("ignore", World("BB", 600, 1, delta=0.9))
    assert probslack.find_closings.cache_info().misses == runs
    assert (strict.error, strict.wait_ns) == (loose.error, loose.wait_ns)
    assert strict.worst == pytest.approx(loose.worst + 0.8)
