"""Computes the published probability that a window still lacks an event.

Let e be the last event, alpha = end of the window - e's time and beta = now - e's time. The next
event occurs g after e, and takes d to arrive:

    J(alpha, beta) = P[g <= alpha and g + d > beta]

All numbers are exact: counts are integers, alpha and beta are in steps
(`topology.waiting.fitting`). A row (one beta) costs O(bins of g) when it is first needed. A
question then costs O(log bins). Memory: bins x rows in use, until the next model.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from topology.waiting.fitting import Counts, grid_top

ONE: Final = 1 << 32
"""The probability 1."""


def share(part: float) -> int:
    """Return the probability as an integer, in units of 2^-32."""
    return int(part * ONE)


class Joint:
    """The rows of J, multiplied by `whole` = N_g N_d.

    `never` is the count for the case that no delay is long enough.
    """

    def __init__(self, apart: Counts, delays: Counts, never: int = 0) -> None:
        self.apart = sorted(apart)
        self._counts = [apart[g] for g in self.apart]
        self._tops = [grid_top(g) for g in self.apart]
        self.delays = sorted(delays)
        total = sum(delays.values()) + never
        self.above = [*accumulate([-delays[d] for d in self.delays], initial=total)]
        """The element i is the number of d except the i smallest."""
        self._never = never
        self._sums: list[int] | None = None
        self.whole = sum(self._counts) * total
        self.last = self._tops[-1] + self.delays[-1]
        """From this beta on, the rows do not change any more."""
        self._rows: dict[int, list[int]] = {}

    def row(self, beta: int) -> list[int]:
        """Return the row of J for the bin of `beta`.

        row[i] is the sum of count(g) count(d > beta - g) over the i smallest g. It does not
        decrease in i, and does not increase in beta.
        """
        row = self._rows.get(beta)
        if row is None:
            row = self._rows[beta] = [0]
            delays, above = self.delays, self.above
            sum_so_far = 0
            for top, count in zip(self._tops, self._counts, strict=True):
                sum_so_far += count * above[bisect_right(delays, beta - top)]
                row.append(sum_so_far)
        return row

    def residual(self, beta: int) -> int:
        """Return the sum of count(g) count(d) (g + d - beta) where g + d is above `beta`.

        Events that never arrive are not part of it.
        """
        delays, above = self.delays, self.above
        if self._sums is None:
            parts = [(above[at] - above[at + 1]) * d for at, d in enumerate(delays)]
            # The element i is the sum from the i-th smallest d on.
            self._sums = [*accumulate(reversed(parts), initial=0)][::-1]
        whole = 0
        for top, count in zip(self._tops, self._counts, strict=True):
            at = bisect_right(delays, beta - top)
            whole += count * (self._sums[at] - (beta - top) * (above[at] - self._never))
        return whole

    def index(self, alpha: int) -> int:
        """Return how many of the g are at most `alpha`."""
        return bisect_right(self.apart, alpha)
