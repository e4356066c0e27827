"""Computes the probability p that a source still has an event for a window, given its silence.

With J as in `topology.answer.waiting.miss`,

    p(alpha, beta) = J(alpha, beta) / P[g + d > beta]

The published rule closes a window when J <= delta. But J ignores that nothing has arrived since the
last event. Also, one event after another is the last one of a window, and each spends delta again.
By contrast, p is correct at every instant. In addition to the observed values, p counts one value
"never", for g and for d. So the p of a source that stays silent tends to about a half.

A budget is spent best on windows whose certainty is expensive, not on those with the least p. If
the next event is expected soon, waiting costs little. So p is weighed by the cost of waiting:

    weighed p = p (m / 2) / (E(beta) + m / 4)

E(beta) is the mean time until the next event arrives, and m the mean time between events. The
weighed p is compared with a threshold that adapts itself (`topology.answer.waiting.budget`). So
the events that are missed are those whose wait would cost most. The two constants set the scale.
With m / 2 the threshold has room on both sides. With m / 4 the weight has a limit, so windows do
not wait for every event that is due at once. On the streams of the paper, this gains three
quarters of the distance from p alone to optimal stopping (benchmarks/README.md).

An event may also arrive after a later one of its source. Such *stragglers* are counted separately.
For a bound `age` ago, their expected number is the sum of count(d) (d - age) over all d > age. The
sum is divided by the span of the sample.

Probabilities are integers in units of 2^-32, rounded up. Cost is as in `miss`. Memory: bins x rows
in use, until the next model.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from topology.answer.waiting.fitting import EXACT, Counts, DelayTables, grid_next
from topology.answer.waiting.miss import ONE, Joint


class StepRate(NamedTuple):
    """The rate of events, `events` in `steps`, which sets the scale for the cost of waiting."""

    events: int
    steps: int


class Posterior:
    """The posterior probabilities for one source. Without a `pace`, p is not weighed."""

    def __init__(
        self, sample: DelayTables, step_ns: int, base_ns: int, pace: StepRate | None
    ) -> None:
        self.base_ns = base_ns
        self._joint = Joint(sample.apart, sample.delays, never=1)
        self._never = sum(sample.delays.values()) + 1
        self._pace = pace
        self._rows: dict[int, list[int]] = {}
        self._span = max(1, sample.span_ns // step_ns)
        self._straggled = _sum_tails(sample.straggled)
        self.last = self._joint.last
        """From this beta on, no probability changes any more."""

    def risk_of(self, alpha: int, beta: int) -> int:
        """Return p for a window that ends `alpha` steps after the last event.

        The current time is `beta` steps after that event (a bin). If there is a pace, p is weighed
        by the cost of waiting.
        """
        row = self._rows.get(beta)
        if row is None:
            row = self._rows[beta] = self._row_of(beta)
        return row[self._joint.index(alpha)]

    def find_first_beta(self, alpha: int, beta: int, theta: int) -> int | None:
        """Return the first bin after `beta` whose risk is at most `theta`, or None."""
        at = self._joint.index(alpha)
        rows, last = self._rows, self.last
        while beta < last:
            beta = beta + 1 if -EXACT < beta < EXACT else grid_next(beta)
            row = rows.get(beta)
            if row is None:
                row = rows[beta] = self._row_of(beta)
            if row[at] <= theta:
                return beta
        return None

    def _row_of(self, beta: int) -> list[int]:
        pace = self._pace
        joint = self._joint.row(beta)
        whole = joint[-1] + self._never
        if pace is None:
            return [-(-part * ONE // whole) for part in joint]
        # Here m is steps / events, and E is residual / whole.
        cost = 4 * pace.events * self._joint.residual_of(beta) + whole * pace.steps
        return [-(-2 * part * pace.steps * ONE // cost) for part in joint]

    def stragglers(self, age: int) -> int:
        """Return the expected number of stragglers for a bound that is `age` steps ago.

        These are events at or below the bound, of sources that do not keep order. The number is in
        units of 2^-32, and at most 1.
        """
        edges, counts, sums = self._straggled
        at = bisect_right(edges, age)
        if at == len(edges):
            return 0
        return min(ONE, -(-(sums[at] - age * counts[at]) * ONE // self._span))


def _sum_tails(straggled: Counts) -> tuple[list[int], list[int], list[int]]:
    """Return the values in order, and for each the number and sum of the values not below it."""
    edges = sorted(straggled)
    counts = [*accumulate([straggled[edge] for edge in reversed(edges)])]
    sums = [*accumulate([straggled[edge] * edge for edge in reversed(edges)])]
    return edges, counts[::-1], sums[::-1]
