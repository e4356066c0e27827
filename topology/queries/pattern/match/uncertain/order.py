"""Compares two events whose event times are intervals, by order and by distance.

Grades are those of `topology.queries.pattern.compile.grading`. `topology.base.one_clock` gives the
distance of two events of one source. Each pair is graded by itself. If three comparisons cannot all
be true at once, that is not noticed: each is MAYBE.
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.base.one_clock import Distance, distance
from topology.queries.pattern.compile.grading import MAYBE, NO, YES
from topology.queries.pattern.store.entry import Entry, key_of


def find_distance(one: Entry, other: Entry) -> Distance:
    """Return the least and the largest event-time distance from `one` to `other`.

    For events of two sources, the distance follows from their intervals alone.
    """
    mine, theirs = one.event, other.event
    if mine.source != theirs.source:
        return other.low_ns - one.high_ns, other.high_ns - one.low_ns
    return distance(mine, theirs, mine.error_ns + theirs.error_ns, one.play)


def grade_before(one: Entry, other: Entry) -> int:
    """Grade whether the event time of `one` is earlier than that of `other`."""
    if one.high_ns < other.low_ns:
        return YES
    least_ns, most_ns = find_distance(one, other)
    return YES if least_ns > 0 else MAYBE if most_ns > 0 else NO


def grade_before_by_key(one: Entry, other: Entry) -> int:
    """Grade whether `one` is before `other`; the rest of the key decides between equal times."""
    if one.high_ns < other.low_ns:
        return YES
    if other.high_ns < one.low_ns:
        return NO
    least_ns, most_ns = find_distance(one, other)
    tie_ns = 0 if one.key[1:] < other.key[1:] else 1
    return YES if least_ns >= tie_ns else MAYBE if most_ns >= tie_ns else NO


def grade_within(late: Entry, early: Entry, limit_ns: int) -> int:
    """Grade whether `late` is before `early`, or at most `limit_ns` after it."""
    if late.high_ns - early.low_ns <= limit_ns:
        return YES
    if late.low_ns - early.high_ns > limit_ns:
        return NO
    least_ns, most_ns = find_distance(early, late)
    return YES if most_ns <= limit_ns else MAYBE if least_ns <= limit_ns else NO


def within(one: Entry, other: Entry, limit_ns: int) -> bool:
    """Return whether the events may be at most `limit_ns` apart, whichever is earlier."""
    return grade_within(one, other, limit_ns) > NO and grade_within(other, one, limit_ns) > NO


def negate(grade: int) -> int:
    return YES - grade


def is_order_certain(entries: Iterable[Entry]) -> bool:
    """Return whether the entries have the same order for all possible event times.

    Only the intervals are compared; events of one clock are not treated specially.
    """
    high_ns, is_exact = -(1 << 64), True
    for entry in sorted(set(entries), key=key_of):
        exact = entry.low_ns == entry.high_ns
        if entry.low_ns < high_ns or (entry.low_ns == high_ns and not (exact and is_exact)):
            return False
        high_ns, is_exact = entry.high_ns, exact
    return True
