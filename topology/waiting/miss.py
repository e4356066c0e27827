"""The published probability that a window still misses an event (slack.md 5.2, 5.5).

With e the last event, alpha = end of the window - e's time and beta = now - e's time; the
next event comes g after e and takes d on its way:

    J(alpha, beta) = P[g <= alpha and g + d > beta]

Exact: counts are integers, alpha and beta in steps (`topology.waiting.fitting`). A row (one
beta) costs O(bins of g) when it is first needed, then a question is O(log bins). Memory:
bins x rows in use, until the next model.

Proved by: tests/topology/waiting/test_examples.py, tests/topology/waiting/test_oracle.py
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from topology.waiting.fitting import Counts, grid_floor, grid_next, grid_top

ONE: Final = 1 << 32
"""Probability 1."""


def share(part: float) -> int:
    """A probability in units of 2^-32."""
    return int(part * ONE)


class Joint:
    """Rows of J, times `whole` = N_g N_d. `never` is what "no delay is enough" counts."""

    __slots__ = (
        "_counts",
        "_delays",
        "_never",
        "_rows",
        "_sums",
        "_tops",
        "above",
        "apart",
        "last",
        "whole",
    )

    def __init__(self, apart: Counts, delays: Counts, never: int = 0) -> None:
        if not apart or not delays:
            raise ValueError("a model needs counts of both g and d")
        self.apart = sorted(apart)
        self._counts = [apart[g] for g in self.apart]
        self._tops = [grid_top(g) for g in self.apart]
        self._delays = sorted(delays)
        total = sum(delays.values()) + never
        self.above = [total]  # above[i]: counts of d beyond the i smallest
        for d in self._delays:
            self.above.append(self.above[-1] - delays[d])
        self._never = never
        self._sums: list[int] | None = None
        self.whole = sum(self._counts) * total
        self.last = self._tops[-1] + self._delays[-1]
        """From this beta on the rows no longer change."""
        self._rows: dict[int, list[int]] = {}

    def row(self, beta: int) -> list[int]:
        """row[i]: sum over the i smallest g of count(g) count(d > beta - g), for the bin of
        `beta`; non-decreasing in i, non-increasing in beta."""
        row = self._rows.get(beta)
        if row is None:
            row = self._rows[beta] = [0]
            delays, above = self._delays, self.above
            sum_so_far = 0
            for top, count in zip(self._tops, self._counts, strict=True):
                sum_so_far += count * above[bisect_right(delays, beta - top)]
                row.append(sum_so_far)
        return row

    def residual(self, beta: int) -> int:
        """Sum of count(g) count(d) (g + d - beta) over all that are beyond `beta`, but those
        that never come."""
        delays, above = self._delays, self.above
        if self._sums is None:
            self._sums = [0]  # of the d from the i-th smallest on, from the end
            for at in range(len(delays) - 1, -1, -1):
                self._sums.append(self._sums[-1] + (above[at] - above[at + 1]) * delays[at])
            self._sums.reverse()
        whole = 0
        for top, count in zip(self._tops, self._counts, strict=True):
            at = bisect_right(delays, beta - top)
            whole += count * (self._sums[at] - (beta - top) * (above[at] - self._never))
        return whole

    def lowest_delay(self) -> int:
        return self._delays[0]

    def index(self, alpha: int) -> int:
        """How many g are at most `alpha`."""
        return bisect_right(self.apart, alpha)

    def joint(self, alpha: int, beta: int) -> int:
        """J times `whole`."""
        return self.row(grid_floor(beta))[self.index(alpha)]


class Polyline:
    """Where J passes `theta` (in 2^-32): the least alpha with J(alpha, beta) > theta, as a step
    function of beta. `eager`: worked out at once, as published; else when first asked."""

    __slots__ = ("_first_beta", "_hats", "_joint", "_limit")

    def __init__(self, joint: Joint, theta: int, *, eager: bool = False) -> None:
        self._joint = joint
        self._limit = theta * joint.whole
        self._hats: dict[int, int | None] = {}
        self._first_beta: dict[int, int] = {}
        if eager:
            self.pieces()

    def hat(self, beta: int) -> int | None:
        """The least risky alpha; None: none is, whatever the window. `beta` is a bin."""
        if beta not in self._hats:
            self._hats[beta] = self._search(beta)
        return self._hats[beta]

    def _search(self, beta: int) -> int | None:
        row = self._joint.row(beta)
        if row[-1] * ONE <= self._limit:
            return None
        low, high = 0, len(row) - 1  # row[low] is not beyond the limit, row[high] is
        while high - low > 1:
            middle = (low + high) // 2
            if row[middle] * ONE > self._limit:
                high = middle
            else:
                low = middle
        return self._joint.apart[high - 1]

    def first_beta(self, alpha: int) -> int:
        """The least beta (a bin) from which on a window `alpha` ahead is no risk."""
        if alpha not in self._first_beta:
            joint = self._joint
            beta = grid_floor(joint.apart[0] + joint.lowest_delay()) - 1
            while (hat := self.hat(beta)) is not None and hat <= alpha and beta <= joint.last:
                beta = grid_next(beta)
            self._first_beta[alpha] = beta
        return self._first_beta[alpha]

    def pieces(self) -> list[tuple[int, int, int]]:
        """(first beta, last beta, least risky alpha), the first from minus infinity on in
        truth; bins without risk have none."""
        joint = self._joint
        beta = joint.apart[0] + joint.lowest_delay() - 1
        found: list[tuple[int, int, int]] = []
        while beta <= joint.last and (hat := self.hat(beta)) is not None:
            if found and found[-1][2] == hat:
                found[-1] = (found[-1][0], beta, hat)
            else:
                found.append((beta, beta, hat))
            beta = grid_next(beta)
        return found
