"""Finds which of several intervals agree, and so may contain the true value.

One of the lower ends of n closed intervals is a point that the largest number of them cover
(K. Marzullo, Maintaining the Time in a Distributed System, 1984).

An interval is true if it contains the true value. If at least `quorum` of n are true, then

* an interval is false, a *falseticker*, if none of its points is covered by `quorum` intervals;
* any n - quorum + 1 intervals include a true one. So the true value is not above the highest
  of their upper ends, nor below the lowest of their lower ends. These bounds are tightest for the
  intervals with the smallest upper (largest lower) ends. They are valid even if false intervals
  overlap true ones, while the intersection of all intervals can miss the true value.

Cost: O(n^2). The caller keeps n small.
"""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]


def find_most_covered(intervals: Sequence[Interval]) -> tuple[int, int]:
    """Return the largest number of intervals that cover one point, and the lowest such point.

    An interval includes its ends. Return (0, 0) if there are no intervals.
    """
    best, point_ns = max(
        [(count_covering(intervals, at_ns), -at_ns) for at_ns, _ in intervals] or [(0, 0)]
    )
    return best, -point_ns


def count_covering(intervals: Sequence[Interval], at_ns: int) -> int:
    """Return how many of the intervals contain the point."""
    return sum(low_ns <= at_ns <= high_ns for low_ns, high_ns in intervals)


def majority(n: int) -> int:
    """Return the smallest integer that is more than half of `n`."""
    return n // 2 + 1


def find_agreeing_intervals(intervals: Sequence[Interval], quorum: int) -> list[int]:
    """Return the indexes of the intervals with a point that at least `quorum` intervals cover."""
    points = [low_ns for low_ns, _ in intervals if count_covering(intervals, low_ns) >= quorum]
    return [
        at
        for at, (low_ns, high_ns) in enumerate(intervals)
        if any(low_ns <= point_ns <= high_ns for point_ns in points)
    ]
