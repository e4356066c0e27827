"""The probability that a source still owes a window an event, knowing how long it has been
silent, and what it costs to wait for it.

With J as in `topology.waiting.miss`,

    p(alpha, beta) = J(alpha, beta) / P[g + d > beta]

The published rule closes at J <= delta. J does not know that nothing has come until now, and a
window meets many last events, each of which spends delta anew; p is right at every
instant. Beyond what has been seen it holds one part in m+1 for "never" in g and in d
each, so that a silent source stays at about a half.

Which windows should be given up early to spend a budget best? Not those of least p, but those
whose certainty is expensive: where the next event is expected soon, waiting costs little. With
E(beta) the mean time until the next event arrives and m the mean time between events,

    weighed p = p (m / 2) / (E(beta) + m / 4)

takes the place of p in the comparison with a threshold that adapts itself: of all the windows that
may be missed those are taken that save most. (The two constants are scale: m / 2 leaves the
threshold room on both sides, m / 4 keeps an event that is due at once from being waited for at any
risk.) Measured against optimal stopping on the streams of the paper this gives about three quarters
of what is left above p alone; see benchmarks/README.md.

An event may also come behind a later one of its source. Such *stragglers* are counted apart:
a bound that passed `age` ago expects (per span of the sample) sum of count(d) (d - age) of them.

Probabilities are in units of 2^-32, rounded up; all is integer. Cost and memory as in `miss`.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from topology.waiting.fitting import EXACT, Counts, DelayTables, grid_next
from topology.waiting.miss import ONE, Joint


class StepRate(NamedTuple):
    """`events` in `steps`: what a wait is weighed against."""

    events: int
    steps: int


class Posterior:
    """The posterior of one source. Without a `pace` p is not weighed."""

    def __init__(
        self, sample: DelayTables, step_ns: int, base_ns: int, pace: StepRate | None
    ) -> None:
        self.base_ns = base_ns
        self._joint = Joint(sample.apart, sample.delays, never=1)
        self._never = sum(sample.delays.values()) + 1
        self._pace = pace
        self._rows: dict[int, list[int]] = {}
        self._span = max(1, sample.span_ns // step_ns)
        self._straggled = _tails(sample.straggled)
        self.last = self._joint.last
        """From this beta on nothing changes any more."""

    def risk(self, alpha: int, beta: int) -> int:
        """Return p for a window that ends `alpha` steps after the last event, `beta` steps after
        it (a bin); where there is a pace, weighed by what waiting costs."""
        row = self._rows.get(beta)
        if row is None:
            row = self._rows[beta] = self._row(beta)
        return row[self._joint.index(alpha)]

    def first_beta(self, alpha: int, beta: int, theta: int) -> int | None:
        """Return the first bin after `beta` at which the risk is at most `theta`; None: it never
        is."""
        at = self._joint.index(alpha)
        rows, last = self._rows, self.last
        while beta < last:
            beta = beta + 1 if -EXACT < beta < EXACT else grid_next(beta)
            row = rows.get(beta)
            if row is None:
                row = rows[beta] = self._row(beta)
            if row[at] <= theta:
                return beta
        return None

    def _row(self, beta: int) -> list[int]:
        pace = self._pace
        joint = self._joint.row(beta)
        whole = joint[-1] + self._never
        if pace is None:
            return [-(-part * ONE // whole) for part in joint]
        # With m = steps / events and E = residual / whole.
        cost = 4 * pace.events * self._joint.residual(beta) + whole * pace.steps
        return [-(-2 * part * pace.steps * ONE // cost) for part in joint]

    def stragglers(self, age: int) -> int:
        """How many events at or below a bound that passed `age` steps ago are still on
        their way, in expectation and at most 1, among those that do not keep order."""
        if self._straggled is None:
            return 0
        edges, counts, sums = self._straggled
        at = bisect_right(edges, age)
        if at == len(edges):
            return 0
        return min(ONE, -(-(sums[at] - age * counts[at]) * ONE // self._span))


def _tails(straggled: Counts) -> tuple[list[int], list[int], list[int]] | None:
    """Edges; for each the count and the sum of what is at or above it."""
    if not straggled:
        return None
    edges = sorted(straggled)
    counts = [*accumulate([straggled[edge] for edge in reversed(edges)])]
    sums = [*accumulate([straggled[edge] * edge for edge in reversed(edges)])]
    return edges, counts[::-1], sums[::-1]
