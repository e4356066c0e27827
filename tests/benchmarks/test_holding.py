"""Examples: how holds, descents, late events and gaps are counted."""

from __future__ import annotations

from benchmarks.holding import event_of, inject, run
from benchmarks.workloads.rows import Row
from topology.config import ReorderConfig
from topology.reorder.operator import Reorder

MS = 1_000_000


def rows(*arrivals: tuple[int, int]) -> list[Row]:
    """(arrival in ms, number); the stamp is the number, in ms."""
    return [Row(arrival * MS, "s", number, number * MS) for arrival, number in arrivals]


def fixed(wait_ms: int) -> Reorder:
    return Reorder("default", ReorderConfig(rule="fixed", max_wait_ns=wait_ms * MS))


def test_a_hole_that_fills_costs_its_followers_a_hold() -> None:
    arrivals = rows((0, 0), (1, 1), (2, 3), (4, 4), (6, 2), (7, 5))
    found = run(fixed(100), arrivals, event_of())
    assert inject(arrivals) == 1
    assert (found.released, found.descents, found.late, found.gaps) == (6, 0, 0, 0)
    assert found.holds_ns == [0, 0, 0, 0, 2 * MS, 4 * MS]
    assert (found.quantile_ns(0.5), found.quantile_ns(1)) == (0, 4 * MS)
    assert found.accuracy(1) == 1.0


def test_a_hole_given_up_and_then_filled_is_late_and_a_descent() -> None:
    arrivals = rows((0, 0), (2, 2), (9, 1), (10, 3))
    found = run(fixed(5), arrivals, event_of())
    assert (found.descents, found.late, found.gaps, found.never_came) == (1, 1, 1, 0)
    assert found.accuracy(inject(arrivals)) == 0.0
    assert found.quantile_ns(1) == 5 * MS


def test_a_number_that_never_comes_is_told_apart_from_a_late_one() -> None:
    found = run(fixed(5), rows((0, 0), (2, 3), (20, 4)), event_of())
    assert (found.gaps, found.missing, found.never_came, found.late) == (1, 2, 2, 0)


def test_what_may_be_a_copy_is_counted_aside() -> None:
    found = run(fixed(5), rows((0, 7), (20, 8), (30, 6)), event_of())
    assert (found.released, found.aside, found.late) == (2, 1, 0)
