"""Examples: counts of holds, descents, late events and gaps."""

from __future__ import annotations

from benchmarks.holding import count_source_descents, make_event_factory, run
from benchmarks.workloads.rows import Row
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder

MS = 1_000_000


def rows(*arrivals: tuple[int, int]) -> list[Row]:
    """Return rows of (arrival in ms, number); the timestamp is the number, in ms."""
    return [Row(arrival * MS, "s", number, number * MS) for arrival, number in arrivals]


def fixed(wait_ms: int) -> Reorder:
    return Reorder("default", ReorderConfig(rule="fixed", max_wait_ns=wait_ms * MS))


def test_filled_gap_delays_followers() -> None:
    arrivals = rows((0, 0), (1, 1), (2, 3), (4, 4), (6, 2), (7, 5))
    found = run(fixed(100), arrivals, make_event_factory())
    assert count_source_descents(arrivals) == 1
    assert (found.released, found.descents, found.late, found.gaps) == (6, 0, 0, 0)
    assert found.holds_ns == [0, 0, 0, 0, 2 * MS, 4 * MS]
    assert (found.quantile_ns(0.5), found.quantile_ns(1)) == (0, 4 * MS)
    assert found.accuracy(1) == 1.0


def test_late_gap_filler_is_a_descent() -> None:
    arrivals = rows((0, 0), (2, 2), (9, 1), (10, 3))
    found = run(fixed(5), arrivals, make_event_factory())
    assert (found.descents, found.late, found.gaps, found.never_came) == (1, 1, 1, 0)
    assert found.accuracy(count_source_descents(arrivals)) == 0.0
    assert found.quantile_ns(1) == 5 * MS


def test_lost_number_is_not_late() -> None:
    found = run(fixed(5), rows((0, 0), (2, 3), (20, 4)), make_event_factory())
    assert (found.gaps, found.missing, found.never_came, found.late) == (1, 2, 2, 0)


def test_possible_duplicate_is_set_aside() -> None:
    found = run(fixed(5), rows((0, 7), (20, 8), (30, 6)), make_event_factory())
    assert (found.released, found.aside, found.late) == (2, 1, 0)
