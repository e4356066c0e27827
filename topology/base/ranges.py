"""Finds numbers in lists of ranges, and takes numbers out of them.

A range is a named tuple with a `first` and a `last` number. Its other fields, such as times, are
those of each of its parts. The ranges of a list are in ascending order and have no common numbers.
Cost: O(log ranges) to find a number, and a shift in the list to take it out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

first_of: Final = attrgetter("first")


def find_range(ranges: Sequence[Any], number: int) -> int:
    """Return the index of the range that contains the number, or -1."""
    at = bisect_right(ranges, number, key=first_of) - 1
    return at if at >= 0 and number <= ranges[at].last else -1


def take_number(ranges: list[Any], at: int, number: int) -> list[Any]:
    """Take a number out of the range at this index, and return the parts that remain of it."""
    found = ranges[at]
    ends = ((found.first, number - 1), (number + 1, found.last))
    parts = [found._replace(first=first, last=last) for first, last in ends if first <= last]
    ranges[at : at + 1] = parts
    return parts
