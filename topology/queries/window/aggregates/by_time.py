"""Computes `time_avg`: the mean of a field weighted by the time for which each value holds.

A value holds from its event until the next value of its key, for at most `add_held`. Time in which
no value holds does not count. So the value that holds at the start of a window comes from an
earlier event, at most `add_held` before it.

A `Course` has the values of a key in a slice. It keeps the newest `max_recount` of them, so that a
late one can be inserted: that subtracts one stretch of time and adds two. The older values are in
the sum alone. A value that is late among them is left out, and makes the course `blurred`.

Sums are exact integers, so results do not depend on the order of arrival. Cost: O(log values) per
event, and O(slices) per window.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from topology.answer.query.numbers import divide
from topology.state.saved import BIG, FLAG, INT, SCALAR, TEXT, list_of, record, tuple_of

Point = tuple[int, str, int, int, int, Any]
"""A value: the event's corrected timestamp, source, epoch, sequence number, time error, and it."""


class Area:
    """A sum of values times durations, in units of 2^-`shift`, over `known_ns` in all."""

    __slots__ = ("known_ns", "shift", "total")

    def __init__(self, total: int = 0, shift: int = 0, known_ns: int = 0) -> None:
        self.total = total
        self.shift = shift
        self.known_ns = known_ns

    def add(self, value: Any, span_ns: int) -> None:
        """Add a value that holds for `span_ns`; a negative duration removes it again."""
        if type(value) is int:
            units = value << self.shift
        else:
            numerator, denominator = value.as_integer_ratio()
            shift = denominator.bit_length() - 1
            self.refine(shift)
            units = numerator << (self.shift - shift)
        self.total += units * span_ns
        self.known_ns += span_ns

    def add_held(self, point: Point, start_ns: int, end_ns: int, hold_ns: int) -> None:
        """Add the part of [start, end) in which the value of `point` holds, if none follows."""
        start_ns = max(start_ns, point[0])
        end_ns = min(end_ns, point[0] + hold_ns)
        if end_ns > start_ns:
            self.add(point[5], end_ns - start_ns)

    def refine(self, shift: int) -> None:
        if shift > self.shift:
            self.total <<= shift - self.shift
            self.shift = shift

    def merge(self, other: Area) -> None:
        self.refine(other.shift)
        self.total += other.total << (self.shift - other.shift)
        self.known_ns += other.known_ns

    @property
    def mean(self) -> Any:
        return divide(self.total, self.known_ns << self.shift) if self.known_ns else None


class Course(Area):
    """The values of a key in a slice: their sum from the first to the last, and the newest of them.

    Attributes:
        first_ns: The time of the first value.
        points: The newest values, in order; there is at least one.
        folded: The number of older values.
        blurred: Whether a value is missing among the older ones.
    """

    __slots__ = ("blurred", "first_ns", "folded", "points")

    def __init__(
        self,
        total: int = 0,
        shift: int = 0,
        known_ns: int = 0,
        first_ns: int = 0,
        points: list[Point] | None = None,
        folded: int = 0,
        blurred: bool = False,
    ) -> None:
        super().__init__(total, shift, known_ns)
        self.first_ns = first_ns
        self.points = points or []
        self.folded = folded
        self.blurred = blurred

    def insert(self, point: Point, hold_ns: int, most: int) -> None:
        points = self.points
        at = bisect_left(points, point)
        if at == 0:
            if self.folded:
                self.blurred = True
                return
            self.first_ns = point[0]
        if 0 < at < len(points):
            self._add_between(points[at - 1], points[at], hold_ns, -1)
        if at > 0:
            self._add_between(points[at - 1], point, hold_ns, 1)
        if at < len(points):
            self._add_between(point, points[at], hold_ns, 1)
        points.insert(at, point)
        if len(points) > most:
            del points[0]
            self.folded += 1

    def _add_between(self, one: Point, other: Point, hold_ns: int, sign: int) -> None:
        """Add (1) or remove (-1) the time for which `one` holds, until the `other` follows."""
        span_ns = min(other[0] - one[0], hold_ns)
        if span_ns:
            self.add(one[5], sign * span_ns)


POINT: Final = tuple_of(INT, TEXT, INT, INT, INT, SCALAR)
COURSE: Final = record(
    Course,
    total=BIG,
    shift=INT,
    known_ns=INT,
    first_ns=INT,
    points=list_of(POINT),
    folded=INT,
    blurred=FLAG,
)


def earliest_ns(point: Point) -> int:
    return point[0] - point[4]


def latest_ns(point: Point) -> int:
    return point[0] + point[4]


def find_last_points(points: list[Point], start_ns: int) -> list[Point]:
    """Return those of the points, in order, that may be the last one before `start_ns` or later."""
    passed = [earliest_ns(each) for each in points if latest_ns(each) <= start_ns]
    least_ns = max(passed, default=-(1 << 66))
    newest = points[-1] if points else None
    return [each for each in points if latest_ns(each) >= least_ns or each is newest]
