"""Law: a list of ranges from which numbers are taken has the numbers of a set of integers."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from tests.seeds import seeds_of_today
from topology.base.ranges import find_range, take_number


class Timed(NamedTuple):
    first: int
    last: int
    since_ns: int


def make_ranges(rng: Random) -> list[Timed]:
    ranges: list[Timed] = []
    first = 0
    for _ in range(rng.randrange(1, 12)):
        first += rng.randrange(4)
        last = first + rng.choice((0, 1, 2, 9))
        ranges.append(Timed(first, last, rng.randrange(100)))
        first = last + 1
    return ranges


@pytest.mark.parametrize("seed", seeds_of_today(10))
def test_ranges_match_set(seed: int) -> None:
    rng = Random(seed)
    ranges = make_ranges(rng)
    known = {n: each.since_ns for each in ranges for n in range(each.first, each.last + 1)}
    end = ranges[-1].last + 2
    while known:
        number = rng.randrange(-1, end)
        at = find_range(ranges, number)
        assert (at >= 0) == (number in known)
        if at >= 0:
            since_ns, after = known.pop(number), ranges[at + 1 :]
            parts = take_number(ranges, at, number)
            assert {each.since_ns for each in parts} <= {since_ns}
            assert ranges[at:] == [*parts, *after]
        assert known == {
            n: each.since_ns for each in ranges for n in range(each.first, each.last + 1)
        }
        assert all(one.last < other.first for one, other in pairwise(ranges))
    assert not ranges


def test_taken_number_splits_range() -> None:
    ranges = [Timed(1, 3, 7), Timed(5, 5, 8)]
    assert take_number(ranges, 0, 2) == [Timed(1, 1, 7), Timed(3, 3, 7)]
    assert take_number(ranges, 2, 5) == []
    assert ranges == [Timed(1, 1, 7), Timed(3, 3, 7)]
