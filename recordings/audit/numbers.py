"""Track the sequence numbers of a source: duplicates, missing numbers and restarts.

The numbers of an epoch are stored as the gaps between the smallest and the largest. The number
after the largest counts as the next one. If counters wrap, a number stands for the value nearest to
the next one. `recordings.audit.judged_epochs` finds the epochs of records that have none.

Cost: O(1) for the next number. Other numbers cost O(log gaps), and shifts in a list. Memory: three
numbers for each gap, at most `MAX_GAPS` gaps in all sources together, and eight bytes for each
number that filled one.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from recordings.audit.quantiles import clip_ns
from recordings.audit.wraps import Falls
from topology.base.ranges import find_range, take_number
from topology.order.reorder.shared import unwrap_number

MAX_GAPS: Final = 2_000_000
"""The maximum number of gaps; if there are more, the field read as the number is wrong."""


class TooManyGaps(Exception):
    """The error of a wrong field for numbers, whose values rise by chance."""


class GapBudget:
    """The number of gaps that all sources together may still have.

    Attributes:
        left: The number of further gaps that are allowed.
        filled_after_ns: For each number that filled a gap, how long the gap had been known.
    """

    __slots__ = ("filled_after_ns", "left")

    def __init__(self) -> None:
        self.left = MAX_GAPS
        self.filled_after_ns = array("q")

    def take(self, gaps: int) -> None:
        self.left -= gaps
        if self.left < 0:
            raise TooManyGaps


class KnownGap(NamedTuple):
    """The numbers `first`..`last`, which have not arrived, and when this became known."""

    first: int
    last: int
    known_ns: int


class SeenNumbers:
    """The numbers of one source in one epoch.

    Attributes:
        count: The number of distinct numbers.
    """

    __slots__ = ("_budget", "_gaps", "count", "high", "low")

    def __init__(self, number: int, budget: GapBudget) -> None:
        self.low = self.high = number
        self.count = 1
        self._gaps: list[KnownGap] = []
        self._budget = budget

    @property
    def missing(self) -> int:
        """The count of numbers between the smallest and the largest that have not arrived."""
        return self.high - self.low + 1 - self.count

    def take(self, number: int, at_ns: int) -> bool:
        """Record a number, and return whether it is new."""
        if number > self.high:
            if number > self.high + 1:
                self._budget.take(1)
                self._gaps.append(KnownGap(self.high + 1, number - 1, at_ns))
            self.high = number
        elif number < self.low:
            if number < self.low - 1:
                self._budget.take(1)
                self._gaps.insert(0, KnownGap(number + 1, self.low - 1, at_ns))
            self.low = number
        elif not self._fill(number, at_ns):
            return False
        self.count += 1
        return True

    def rise_to(self, high: int, count: int) -> None:
        """Record `count` numbers up to `high`, each of which was the next one."""
        self.high = high
        self.count += count

    def _fill(self, number: int, at_ns: int) -> bool:
        at = find_range(self._gaps, number)
        if at < 0:
            return False
        self._budget.filled_after_ns.append(clip_ns(at_ns - self._gaps[at].known_ns))
        self._budget.take(len(take_number(self._gaps, at, number)) - 1)
        return True


class NumberedEpochs:
    """The epochs of one source.

    Attributes:
        falls: The falls of its numbers, as the source sent them.
        restarts: The number of epochs after the first.
    """

    __slots__ = ("_budget", "_modulus", "_newest", "_seen", "falls")

    def __init__(self, budget: GapBudget, modulus: int) -> None:
        self.falls = Falls()
        self._modulus = modulus
        self._seen: dict[int, SeenNumbers] = {}
        self._newest = 0
        self._budget = budget

    @property
    def restarts(self) -> int:
        return max(0, len(self._seen) - 1)

    @property
    def missing(self) -> int:
        return sum(seen.missing for seen in self._seen.values())

    def begin(self, epoch: int, number: int) -> SeenNumbers:
        """Begin an epoch with its first number, and return the numbers of the epoch."""
        seen = self._seen[epoch] = SeenNumbers(number, self._budget)
        return seen

    def take(self, epoch: int, number: int, at_ns: int, *, is_written: bool) -> tuple[bool, bool]:
        """Record a number, and return whether it is a duplicate and whether it is out of sequence.

        Out of sequence means that a larger number was recorded before. It is False for a duplicate.
        Only a written epoch shows that a fall of the number is not a wrap (`is_written`).
        """
        if epoch > self._newest:
            self._newest = epoch
            if is_written:
                self.falls.height = 0
        self.falls.note(number)
        seen = self._seen.get(epoch)
        if seen is None:
            self.begin(epoch, number)
            return False, False
        number = unwrap_number(number, self._modulus, seen.high + 1)
        behind = number < seen.high
        return (False, behind) if seen.take(number, at_ns) else (True, False)
