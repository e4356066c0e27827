"""Finds which instant of a local time is meant, in a recording without arrival times.

If clocks are set back, an hour of local times occurs twice. With an arrival time the nearer instant
is meant. Without arrival times it is the instant with which the times of its source rise:

* Among a source's sequence numbers, the time lies between those of the next smaller and the next
  larger number. So it does not matter in which order the rows stand.
* A source without numbers rises from row to row. Numbers that restart are also placed by the row
  before them.
* A time equal to a neighbour's is of the second pass. It is of the same pass if the source repeats
  its times, as in a table with several rows for each time.

If neither instant fits, the row cannot be placed. A late row without a number is such a row.

Memory: `MOST_ROWS` numbers and instants of a source, for `MOST_SOURCES` sources. A row costs O(1),
and a row whose time occurs twice O(`MOST_ROWS`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from topology.records.reasons import AMBIGUOUS
from topology.records.times import Twice

MOST_ROWS: Final = 64
MOST_SOURCES: Final = 100_000
DAY_NS: Final = 86_400 * 10**9
"""A time further away is not a neighbour, but that of a wrong clock or of another day."""


class RisingTimes:
    """The last rows of each source, by which the instant of a local time is found."""

    def __init__(self) -> None:
        self._of: dict[object, dict[int, int]] = {}
        """The instant of each row by its number, or by a negative one if it has none."""
        self._rows = 0

    def take(self, source: object, seq: int | None, found: int | Twice | str) -> int | str:
        """Return the instant of the next row and remember it, or return why it has none."""
        if isinstance(found, Twice):
            one_ns = self._choose_instant(source, seq, found)
            found = AMBIGUOUS if one_ns is None else one_ns
        if isinstance(found, int):
            self._remember(source, seq, found)
        return found

    def _remember(self, source: object, seq: int | None, at_ns: int) -> None:
        self._rows += 1
        rows = self._of.get(source)
        if rows is None:
            if len(self._of) >= MOST_SOURCES:
                del self._of[next(iter(self._of))]
            rows = self._of[source] = {}
        rows[-self._rows if seq is None else seq] = at_ns
        if len(rows) > MOST_ROWS:
            del rows[next(iter(rows))]

    def _choose_instant(self, source: object, seq: int | None, twice: Twice) -> int | None:
        """Return the instant of a row with this local time, or None if neither fits.

        A row whose time lets neither fit is forgotten, because its own time may be wrong.
        """
        rows = self._of.get(source, {})
        near = {
            number: at_ns
            for number, at_ns in rows.items()
            if twice.early_ns - DAY_NS < at_ns < twice.late_ns + DAY_NS
        }
        if not near:
            return twice.early_ns
        before = max(near, key=near.__getitem__)
        if seq is not None:
            if near.get(seq) in twice:
                return near[seq]  # The row is a duplicate.
            *earlier, before = near
            below = max((number for number in near if 0 <= number < seq), default=None)
            above = min((number for number in near if number > seq), default=None)
            if below is None and earlier and earlier[-1] < before:
                return twice.nearest_ns(near[before])  # The source restarted its numbers.
            if fitting := _instants_between(below, above, twice, near):
                return fitting[0] if below is not None else fitting[-1]
        if fitting := _instants_between(before, None, twice, near):
            return fitting[0]
        del rows[before]
        return None


def _instants_between(
    below: int | None, above: int | None, twice: Twice, near: dict[int, int]
) -> list[int]:
    """Return the instants that lie between those of two numbers."""
    fitting = []
    for each in twice:
        is_low = below is not None and each < near[below]
        is_high = above is not None and each > near[above]
        is_equal = any(number is not None and near[number] == each for number in (below, above))
        if not (is_low or is_high) and (not is_equal or _may_repeat(each, near)):
            fitting.append(each)
    return fitting


def _may_repeat(at_ns: int, near: dict[int, int]) -> bool:
    """Return whether another time of the source has more rows than this one has so far."""
    count = Counter(near.values())
    own = count.pop(at_ns, 0)
    return own < max(count.values(), default=1)
