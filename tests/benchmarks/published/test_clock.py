"""Examples for the thesis's clock model."""

from __future__ import annotations

from benchmarks.published.clock import ThesisClock
from tests.topology.order.clock.rounds import AT, MS, S, burst, golden, numbers, round_at
from topology.base.sample import Sample
from topology.config import ClockConfig
from topology.order.clock.cell import SYNCED, UNSYNCED


def thesis() -> ThesisClock:
    return ThesisClock(ClockConfig())


def test_golden_rounds() -> None:
    """Source: spec 2.1."""
    clock = thesis()
    clock.add(golden())
    cell = clock.cell(0)
    assert (cell.offset_ns, cell.error_ns, cell.state) == (-1_001 * MS, 6 * MS, SYNCED)


def test_least_round_trip_counts() -> None:
    """Its error bound does not grow with time."""
    clock = thesis()
    for there, back in ((3, 3), (1, 2), (9, 9)):
        clock.add(round_at(AT, 0, there * MS, back * MS))
    now, later = clock.cell(AT), clock.cell(AT + 3_600 * S)
    assert (now.offset_ns, now.error_ns) == (-MS // 2, 3 * MS // 2)
    assert numbers(later)[1:] == numbers(now)[1:]


def test_new_burst_makes_old_rounds_late() -> None:
    clock = thesis()
    old = burst(AT, 0)
    for sample in [*old, round_at(AT + 60 * S, S, 2 * MS, 2 * MS), *old]:
        clock.add(sample)
    assert (clock.cell(AT).offset_ns, clock.cell(AT).error_ns) == (S, 2 * MS)
    assert clock.late == len(old)
    assert (clock.segment, clock.jumps, clock.falsetickers) == (0, 0, 0)


def test_unsynced_by_bad_rounds() -> None:
    clock = thesis()
    assert clock.cell(AT).state == UNSYNCED
    clock.add(round_at(AT, 0, 30 * MS, 30 * MS))
    assert clock.cell(AT).state == UNSYNCED  # 30 ms is more than max_error
    clock.add(round_at(AT, 0, MS, MS))
    assert clock.cell(AT).state == SYNCED
    clock.begin_segment()
    assert clock.cell(AT).state == UNSYNCED
    assert clock.skew_ppb() is None


def test_absurd_rounds_are_rejected() -> None:
    clock = thesis()
    clock.add(Sample("s", 0, 10 * MS, 10 * MS, 5 * S, 0))
    clock.add(Sample("s", 0, 10, 9, 30, 0))
    assert (clock.rejected, clock.cell(0).state) == (2, UNSYNCED)
