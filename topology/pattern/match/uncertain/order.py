"""Which of two events is earlier, where the true time of each lies in an interval.

Grades are those of `topology.pattern.compile.grading`. How far two events
are apart, `topology.model.one_clock` says. So pairs are judged as they are; that three pairs may
not be possible at once is not seen, which errs on the side of MAYBE.
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.model.one_clock import Distance, distance
from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.store.entry import Entry, key_of


def apart(one: Entry, other: Entry) -> Distance:
    """From one to the other, in true time. The intervals of two clocks say all."""
    mine, theirs = one.event, other.event
    if mine.source != theirs.source:
        return other.low_ns - one.high_ns, other.high_ns - one.low_ns
    return distance(mine, theirs, mine.error_ns + theirs.error_ns, one.play)


def before(one: Entry, other: Entry) -> int:
    """Is the true time of one earlier?"""
    if one.high_ns < other.low_ns:
        return YES
    least_ns, most_ns = apart(one, other)
    return YES if least_ns > 0 else MAYBE if most_ns > 0 else NO


def before_by_key(one: Entry, other: Entry) -> int:
    """Is one earlier in the order of keys, in which a tie goes by the rest of the key?"""
    if one.high_ns < other.low_ns:
        return YES
    if other.high_ns < one.low_ns:
        return NO
    least_ns, most_ns = apart(one, other)
    tie_ns = 0 if one.key[1:] < other.key[1:] else 1
    return YES if least_ns >= tie_ns else MAYBE if most_ns >= tie_ns else NO


def at_most(late: Entry, early: Entry, limit_ns: int) -> int:
    """Is one at most so long after the other (or before it)?"""
    if late.high_ns - early.low_ns <= limit_ns:
        return YES
    if late.low_ns - early.high_ns > limit_ns:
        return NO
    least_ns, most_ns = apart(early, late)
    return YES if most_ns <= limit_ns else MAYBE if least_ns <= limit_ns else NO


def within(one: Entry, other: Entry, limit_ns: int) -> bool:
    """May they be so close, whichever is the earlier?"""
    return at_most(one, other, limit_ns) > NO and at_most(other, one, limit_ns) > NO


def negated(grade: int) -> int:
    return YES - grade


def is_settled(entries: Iterable[Entry]) -> bool:
    """Are they in one order, wherever the true times are? It does not look at clocks."""
    high_ns, is_exact = -(1 << 64), True
    for entry in sorted(set(entries), key=key_of):
        exact = entry.low_ns == entry.high_ns
        if entry.low_ns < high_ns or (entry.low_ns == high_ns and not (exact and is_exact)):
            return False
        high_ns, is_exact = entry.high_ns, exact
    return True
