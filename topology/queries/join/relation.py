"""Decides which events belong together, how certainly, and how long this may change.

A *cell* is a range of time in which rows are made. It is a window, identified by its start, or all
time for a join by interval (NO_CELL). A possible world is one choice of event times within their
errors. A *bond* is the relation of one event of a cell to another, on a scale:

* CERTAIN: they belong together in every world.
* PLAIN: they belong together by corrected timestamps.
* POSSIBLE: they belong together in some world.

Two events may belong together by corrected timestamps, but in no world. Under BOUNDS such events
have no bond. Otherwise their bond is PLAIN, with the odds 0.

Both relations have the methods below. The `owner` is the event for which partners are looked up. It
is an event of the first side, or one of another side that needs partners on the first.

* `cells`: the cells that contain the event with at least the given bond.
* `reach`: the first and the last event time that a partner can have.
* `bond`: the bond of `other` to the `owner`, given that the owner is in the cell.
* `is_certain`: whether the owner is in the cell in every world.
* `odds`: the probability that the members, the owner first, belong together. It is 0.0 only if they
  cannot.
* `odds_of_bond`: the probability that `other` belongs to the `owner`, given that the owner is in
  the cell.
* `end`: an instant after all event times that a partner can have.
* `span`: the start and the end that a row shows.

`topology.base.one_clock` computes how far two events are apart. A clock has one error for all its
events, so a world shifts all of them together. Odds are products of ratios of whole nanoseconds,
where all shifts within an error are equally likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from topology.answer.settings import BOUNDS
from topology.queries.join.entry import JoinEntry
from topology.queries.join.settings import JoinQuery

NO_BOND: Final = 0
POSSIBLE: Final = 1
PLAIN: Final = 2
CERTAIN: Final = 3

NO_CELL: Final = 0
MAX_CELLS: Final = 1_000
"""The maximum number of windows that the time error of an event adds; the nearest are used."""


class ByInterval:
    """A relation by interval: each other event is in [first + low, first + high].

    `first` is the time of the first side's event. In an as-of join the interval ends at this time.
    """

    def __init__(self, query: JoinQuery) -> None:
        self._low_ns = query.join.low_ns - query.join.size_ns
        self._high_ns = query.join.high_ns
        self._play = query.play
        self._may_be_plain = query.uncertainty != BOUNDS

    def cells(self, entry: JoinEntry, bond: int) -> Sequence[int]:
        return (NO_CELL,)

    def reach(self, cell: int, owner: JoinEntry) -> tuple[int, int]:
        low_ns, high_ns = self._bounds(owner)
        return owner.ref_ns - owner.error_ns + low_ns, owner.ref_ns + owner.error_ns + high_ns

    def _bounds(self, owner: JoinEntry) -> tuple[int, int]:
        """Return the bounds of the distance from the owner to its partner."""
        if owner.side == 0:
            return self._low_ns, self._high_ns
        return -self._high_ns, -self._low_ns

    def bond(self, cell: int, owner: JoinEntry, other: JoinEntry) -> int:
        low_ns, high_ns = self._bounds(owner)
        least_ns, most_ns = owner.apart(other, self._play)
        if low_ns <= least_ns and most_ns <= high_ns:
            return CERTAIN
        is_possible = least_ns <= high_ns and low_ns <= most_ns
        is_plain = low_ns <= other.ref_ns - owner.ref_ns <= high_ns
        if is_plain and (is_possible or self._may_be_plain):
            return PLAIN
        return POSSIBLE if is_possible else NO_BOND

    def is_certain(self, cell: int, owner: JoinEntry) -> bool:
        return True

    def odds(self, cell: int, members: Sequence[JoinEntry]) -> float:
        """Return the product of the odds of each pair of the owner and another member.

        With several pairs the product only serves to rank rows, because each factor includes the
        owner's error.
        """
        owner = members[0]
        return prod([self.odds_of_bond(cell, owner, other) for other in members[1:]], start=1.0)

    def odds_of_bond(self, cell: int, owner: JoinEntry, other: JoinEntry) -> float:
        bond = self.bond(cell, owner, other)
        if bond in (CERTAIN, NO_BOND):
            return 1.0 if bond else 0.0
        return self.odds_within(owner, other, *self._bounds(owner))

    def odds_within(self, owner: JoinEntry, other: JoinEntry, low_ns: int, high_ns: int) -> float:
        """Return the probability that `other` is from `low_ns` to `high_ns` after the owner."""
        least_ns, most_ns = owner.apart(other, self._play)
        # If the events share a clock, it limits their distance.
        if most_ns - least_ns < 2 * (owner.error_ns + other.error_ns):
            return max(0, min(most_ns, high_ns) - max(least_ns, low_ns) + 1) / (
                most_ns - least_ns + 1
            )
        one, two = 2 * owner.error_ns + 1, 2 * other.error_ns + 1
        inside = count_sums_up_to(high_ns - least_ns, one, two)
        inside -= count_sums_up_to(low_ns - 1 - least_ns, one, two)
        return inside / (one * two)

    def end(self, cell: int, owner: JoinEntry) -> int:
        return owner.ref_ns + owner.error_ns + self._bounds(owner)[1] + 1

    def span(self, cell: int, members: Sequence[JoinEntry]) -> tuple[int, int]:
        times = [member.ref_ns for member in members]
        return min(times), max(times)


class ByWindow:
    """A relation by windows: all events are in one window [start, start + size)."""

    def __init__(self, query: JoinQuery) -> None:
        self._size_ns = query.join.size_ns
        self._every_ns = query.join.every_ns
        self._play = query.play
        self._may_be_plain = query.uncertainty != BOUNDS

    def cells(self, entry: JoinEntry, bond: int) -> Sequence[int]:
        reach_ns = 0
        if entry.error_ns and bond == POSSIBLE:
            reach_ns = min(entry.error_ns, MAX_CELLS // 2 * self._every_ns)
        every_ns = self._every_ns
        first_ns = entry.ref_ns - reach_ns - self._size_ns + 1
        last_ns = entry.ref_ns + reach_ns
        return range(first_ns + -first_ns % every_ns, last_ns - last_ns % every_ns + 1, every_ns)

    def reach(self, cell: int, owner: JoinEntry) -> tuple[int, int]:
        return cell, cell + self._size_ns - 1

    def bond(self, cell: int, owner: JoinEntry, other: JoinEntry) -> int:
        is_inside = self._contains(cell, other)
        if not other.error_ns and not (owner.error_ns and owner.has_clock_of(other)):
            return CERTAIN if is_inside else NO_BOND
        inside, shifts = self._count_given(cell, owner, other)
        if inside == shifts > 0:
            return CERTAIN
        if is_inside and (inside or (self._may_be_plain and self._contains(cell, owner))):
            return PLAIN
        return POSSIBLE if inside else NO_BOND

    def _contains(self, cell: int, entry: JoinEntry) -> bool:
        """Return whether the corrected timestamp of the entry is in the cell."""
        return cell <= entry.ref_ns < cell + self._size_ns

    def _count_given(self, cell: int, owner: JoinEntry, other: JoinEntry) -> tuple[int, int]:
        """Count the instants at which `other` may be, given that the owner is in the window.

        Return the count of those in the window, and the count of all.
        """
        first_ns, last_ns = other.ref_ns - other.error_ns, other.ref_ns + other.error_ns
        if owner.has_clock_of(other):
            least_ns, most_ns = owner.apart(other, self._play)
            begin_ns = max(cell, owner.ref_ns - owner.error_ns, first_ns - most_ns)
            end_ns = min(
                cell + self._size_ns - 1, owner.ref_ns + owner.error_ns, last_ns - least_ns
            )
            if begin_ns > end_ns:
                return 0, 0
            first_ns = max(first_ns, begin_ns + least_ns)
            last_ns = min(last_ns, end_ns + most_ns)
        inside = min(last_ns, cell + self._size_ns - 1) - max(first_ns, cell) + 1
        return max(0, inside), last_ns - first_ns + 1

    def is_certain(self, cell: int, owner: JoinEntry) -> bool:
        return (
            cell <= owner.ref_ns - owner.error_ns
            and owner.ref_ns + owner.error_ns < cell + self._size_ns
        )

    def odds(self, cell: int, members: Sequence[JoinEntry]) -> float:
        """Return the product, by clock, of the odds that the clock's members are in the cell."""
        odds = 1.0
        left = list(members)
        while left:
            own = [member for member in left if member.has_clock_of(left[0])]
            left = [member for member in left if not member.has_clock_of(left[0])]
            odds *= self._share_inside(cell, own)
        return odds

    def _share_inside(self, cell: int, members: Sequence[JoinEntry]) -> float:
        """Return the share of a clock's possible shifts that put all members into the window.

        Shifts are relative to the reported timestamps. The clock's possible drift between two
        members is allowed for at both ends.
        """
        stamps = [member.event.ts_ns for member in members]
        first_ns, last_ns = min(stamps), max(stamps)
        slack_ns = self._play.over(last_ns - first_ns) if len(members) > 1 else 0
        shifts = [(m.ref_ns - m.event.ts_ns, m.error_ns) for m in members]
        least_ns = max(shift_ns - error_ns for shift_ns, error_ns in shifts)
        most_ns = min(shift_ns + error_ns for shift_ns, error_ns in shifts)
        # If no shift fits all members, their timestamps are broken, and each is treated separately.
        if least_ns > most_ns + slack_ns:
            return prod(self._share_inside(cell, [member]) for member in members)
        least_ns -= slack_ns
        most_ns += slack_ns
        begin_ns = max(least_ns, cell - first_ns - slack_ns)
        end_ns = min(most_ns, cell + self._size_ns - 1 - last_ns + slack_ns)
        return max(0, end_ns - begin_ns + 1) / (most_ns - least_ns + 1)

    def odds_of_bond(self, cell: int, owner: JoinEntry, other: JoinEntry) -> float:
        inside, shifts = self._count_given(cell, owner, other)
        return inside / shifts if shifts else 0.0

    def end(self, cell: int, owner: JoinEntry) -> int:
        return cell + self._size_ns

    def span(self, cell: int, members: Sequence[JoinEntry]) -> tuple[int, int]:
        return cell, cell + self._size_ns


Relation = ByInterval | ByWindow


def count_sums_up_to(limit: int, one: int, two: int) -> int:
    """Return how many pairs of 0 <= a < one and 0 <= b < two have a + b <= limit."""
    return (
        _count_pairs(limit)
        - _count_pairs(limit - one)
        - _count_pairs(limit - two)
        + _count_pairs(limit - one - two)
    )


def _count_pairs(limit: int) -> int:
    """Return how many pairs of 0 <= a and 0 <= b have a + b <= limit."""
    return (limit + 1) * (limit + 2) // 2 if limit >= 0 else 0


def relation_of(query: JoinQuery) -> Relation:
    return ByInterval(query) if query.join.is_by_distance else ByWindow(query)


def cell_end_of(relation: Relation, number: int, entry: JoinEntry) -> int:
    """Return the end of the entry in its cell `number`: 0 is the first cell, -1 the last."""
    return relation.end(relation.cells(entry, POSSIBLE)[number], entry)
