"""Examples and laws of voting intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.order.clock.marzullo import find_agreeing_intervals, find_most_covered, majority

Interval = tuple[int, int]
intervals = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 10)).map(lambda it: (it[0], it[0] + it[1])),
    max_size=7,
)


@pytest.mark.parametrize(("n", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority_is_more_than_half(n: int, least: int) -> None:
    assert majority(n) == least


@given(intervals)
def test_point_is_lowest_of_most_covered(given_intervals: list[Interval]) -> None:
    best, point = find_most_covered(given_intervals)
    cover = {at: sum(low <= at <= high for low, high in given_intervals) for at in range(-20, 31)}
    assert best == max(cover.values())
    assert point == (min(at for at in cover if cover[at] == best) if given_intervals else 0)


@given(intervals, st.integers(1, 4))
def test_true_intervals_have_a_quorum(given_intervals: list[Interval], quorum: int) -> None:
    cover = {at: sum(low <= at <= high for low, high in given_intervals) for at in range(-20, 31)}
    expected = [
        at
        for at, (low, high) in enumerate(given_intervals)
        if any(cover[point] >= quorum for point in range(low, high + 1))
    ]
    assert find_agreeing_intervals(given_intervals, quorum) == expected
