"""Which of two events is earlier, where the true time of each lies in an interval.

Source: patterns.md 7. Grades are those of `topology.pattern.compile.grading`. Two events of one
source that one estimate of its clock corrected (`segment`) err alike: what is between them is
exact. So pairs are judged as they are; that three pairs may not be possible at once is not seen,
which errs on the side of MAYBE.

Proved by: tests/topology/pattern/test_uncertain.py, tests/topology/pattern/test_all_worlds.py
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.pattern.compile.grading import MAYBE, NO, YES
from topology.pattern.store.entry import Entry, Key


def same_clock(one: Entry, other: Entry) -> bool:
    mine, theirs = one.event, other.event
    return (mine.source, mine.epoch, mine.segment) == (theirs.source, theirs.epoch, theirs.segment)


def before(one: Entry, other: Entry) -> int:
    """Is the true time of one earlier?"""
    if one.high_ns < other.low_ns:
        return YES
    if same_clock(one, other):
        return YES if one.time_ns < other.time_ns else NO
    return NO if other.high_ns <= one.low_ns else MAYBE


def before_by_key(one: Entry, other: Entry) -> int:
    """Is one earlier in the order of keys, in which a tie goes by the rest of the key?"""
    if one.high_ns < other.low_ns:
        return YES
    if other.high_ns < one.low_ns:
        return NO
    if same_clock(one, other):
        return YES if one.key < other.key else NO
    if one.high_ns == other.low_ns and one.key[1:] < other.key[1:]:
        return YES
    if other.high_ns == one.low_ns and other.key[1:] < one.key[1:]:
        return NO
    return MAYBE


def at_most(late: Entry, early: Entry, limit_ns: int) -> int:
    """Is one at most so long after the other (or before it)?"""
    if same_clock(late, early):
        return YES if late.time_ns - early.time_ns <= limit_ns else NO
    if late.high_ns - early.low_ns <= limit_ns:
        return YES
    return MAYBE if late.low_ns - early.high_ns <= limit_ns else NO


def negated(grade: int) -> int:
    return YES - grade


def is_settled(entries: Iterable[Entry]) -> bool:
    """Are they in one order, wherever the true times are? It does not look at clocks."""
    high_ns, is_exact = -(1 << 64), True
    for entry in sorted(set(entries), key=_key):
        exact = entry.low_ns == entry.high_ns
        if entry.low_ns < high_ns or (entry.low_ns == high_ns and not (exact and is_exact)):
            return False
        high_ns, is_exact = entry.high_ns, exact
    return True


def _key(entry: Entry) -> Key:
    return entry.key
