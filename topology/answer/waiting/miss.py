"""Computes the published probability that a window still lacks an event.

Let e be the last event, alpha = end of the window - e's time and beta = now - e's time. The next
event occurs g after e, and takes d to arrive:

    J(alpha, beta) = P[g <= alpha and g + d > beta]

All numbers are exact: counts are integers, alpha and beta are in steps
(`topology.answer.waiting.fitting`). A row (one beta) costs O(bins of g * log bins of d), and
callers store the rows that they need. A lookup in a row then costs O(log bins). Memory: a few
numbers for each bin.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from topology.answer.waiting.fitting import Counts, grid_top

ONE: Final = 1 << 32
"""The probability 1."""


def to_fixed_point(part: float) -> int:
    """Return the probability as an integer, in units of 2^-32."""
    return int(part * ONE)


class Joint:
    """The rows of J, multiplied by `whole`, the number of pairs of g and d.

    `never` is the number of delays that count as infinite.
    """

    def __init__(self, apart: Counts, delays: Counts, never: int = 0) -> None:
        self.apart = sorted(apart)
        self._counts = [apart[g] for g in self.apart]
        self._tops = [grid_top(g) for g in self.apart]
        self.delays = sorted(delays)
        total = sum(delays.values()) + never
        self.above = [*accumulate([-delays[d] for d in self.delays], initial=total)]
        """Element i is the number of delays above the i smallest bins, infinite ones included."""
        self._never = never
        parts = [delays[d] * d for d in self.delays]
        self._sums = [*accumulate(reversed(parts), initial=0)][::-1]
        """Element i is the sum of the finite delays above the i smallest bins."""
        self.whole = sum(self._counts) * total
        self.last = self._tops[-1] + self.delays[-1]
        """From this beta on, the rows do not change any more."""

    def row(self, beta: int) -> list[int]:
        """Return the row of J for the bin of `beta`.

        row[i] is the sum of count(g) count(d > beta - g) over the i smallest g. It does not
        decrease in i, and does not increase in beta.
        """
        delays, above = self.delays, self.above
        row = [0]
        for top, count in zip(self._tops, self._counts, strict=True):
            row.append(row[-1] + count * above[bisect_right(delays, beta - top)])
        return row

    def residual_of(self, beta: int) -> int:
        """Return the sum of count(g) count(d) (g + d - beta) where g + d is above `beta`.

        Infinite delays (`never`) are left out.
        """
        delays, above = self.delays, self.above
        whole = 0
        for top, count in zip(self._tops, self._counts, strict=True):
            at = bisect_right(delays, beta - top)
            whole += count * (self._sums[at] - (beta - top) * (above[at] - self._never))
        return whole

    def index(self, alpha: int) -> int:
        """Return how many bins of g are at most `alpha`."""
        return bisect_right(self.apart, alpha)
