"""Which of several intervals agree, and what can be said if most of them are true.

The point that most of n closed intervals cover is the lower end of one of them (K. Marzullo,
Maintaining the Time in a Distributed System, 1984).

An interval that is true contains the truth. If at least `quorum` of them are true, then

* one that has no point covered by `quorum` intervals is false: a *falseticker*;
* of any n - quorum + 1 intervals one is true, so the truth is not above the highest of
  their upper ends, nor below the lowest of their lower ends. Choosing those with the
  least upper (greatest lower) ends makes that tight, and it holds for false intervals
  that overlap true ones, where the plain intersection of all can miss the truth.

Cost: O(n^2); n is a handful, which the caller bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]


def most_covered(intervals: Sequence[Interval]) -> tuple[int, int]:
    """How many intervals cover the best point, and the lowest such point; ends count.
    (0, 0) for none."""
    best, point_ns = max([(cover(intervals, at_ns), -at_ns) for at_ns, _ in intervals] or [(0, 0)])
    return best, -point_ns


def cover(intervals: Sequence[Interval], at_ns: int) -> int:
    """Return how many of the intervals hold the point."""
    return sum(low_ns <= at_ns <= high_ns for low_ns, high_ns in intervals)


def majority(n: int) -> int:
    """The least number that is more than half of `n`."""
    return n // 2 + 1


def true_ones(intervals: Sequence[Interval], quorum: int) -> list[int]:
    """The places of those that `quorum` intervals, itself among them, agree with."""
    points = [low_ns for low_ns, _ in intervals if cover(intervals, low_ns) >= quorum]
    return [
        at
        for at, (low_ns, high_ns) in enumerate(intervals)
        if any(low_ns <= point_ns <= high_ns for point_ns in points)
    ]
