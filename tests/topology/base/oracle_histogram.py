"""Oracle of the quantile of times, in its slow form; see reorder_drift_merge.md 1.3 and 3.2.

Buckets: 0 .. 15 ns have one each; above, each octave [2^k, 2^(k+1)) has 8 equal parts. A bucket's
upper edge is the largest value in it, because a delay equal to the wait is still in time. The
quantile at `miss_ppm` is 0 or an upper edge: the smallest w for which

    (values in buckets whose upper edge is above w) * 1_000_000 <= n * miss_ppm

Here n is counted by the caller: opened gaps (reorder) or values (merge).

After every 4 096 of n all counts are halved, rounded down: each bucket's and n. One value counts as
`UNIT`. With 1, a bucket with a single value would be forgotten at once, so the tail and the waits
would be too short. With 1 024 the halving is exact ten times.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

PARTS: Final = 8
HALVE_EVERY: Final = 4_096
MILLION: Final = 1_000_000
UNIT: Final = 1_024


def upper_edge(value_ns: int) -> int:
    """Return the upper edge of the bucket of `value_ns`; a value below 0 counts as 0."""
    value_ns = max(0, value_ns)
    width = 1
    while value_ns >= 2 * PARTS * width:
        width *= 2
    return (value_ns // width + 1) * width - 1


class Histogram:
    """Counts by upper edge; `values` and `total` count everything ever added."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.n = 0
        self.values = 0
        self.total = 0

    def add(self, value_ns: int) -> None:
        self.counts[upper_edge(value_ns)] += UNIT
        self.values += 1

    def count(self) -> None:
        """Add one to n."""
        self.n += UNIT
        self.total += 1
        if self.total % HALVE_EVERY == 0:
            self.n //= 2
            self.counts = Counter({edge: count // 2 for edge, count in self.counts.items()})

    def quantile_ns(self, miss_ppm: int) -> int:
        return min(w for w in (0, *self.counts) if self.above(w) * MILLION <= self.n * miss_ppm)

    def above(self, w: int) -> int:
        return sum(count for edge, count in self.counts.items() if edge > w)
