"""Measure how long events waited: mean, maximum, and two quantiles.

The wait of each event is stored, so quantiles are exact. Before a process sends its waits to
another, it thins them to `MOST`, evenly in the order of size. Quantiles are then off by at most one
rank in `MOST`, while mean and maximum stay exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from recordings.audit.quantiles import NS_PER_MS, RANKS, rank_of

MOST: Final = 100_000


class Waits:
    """The waits of events, in one process or several.

    Attributes:
        each_ns: The wait of each event; callers append to it.
    """

    def __init__(self) -> None:
        self.each_ns = array("q")
        self._thinned: list[tuple[int, Sequence[int]]] = []
        """Lists of waits, each with its weight: the number of events that each wait represents."""
        self._thinned_sum_ns = 0
        self._thinned_count = 0
        self._thinned_max_ns = 0

    def thin(self, most: int = MOST) -> None:
        """Keep sum, count and maximum of the waits, and at most `most` of the waits themselves."""
        waits = array("q", sorted(self.each_ns))
        if not waits:
            return
        weight = -(-len(waits) // most)
        self._thinned.append((weight, waits[(weight - 1) // 2 :: weight]))
        self._thinned_sum_ns += sum(waits)
        self._thinned_count += len(waits)
        self._thinned_max_ns = max(self._thinned_max_ns, waits[-1])
        self.each_ns = array("q")

    def join(self, other: Waits) -> None:
        """Add the waits of another process, which has thinned them."""
        self._thinned += other._thinned
        self._thinned_sum_ns += other._thinned_sum_ns
        self._thinned_count += other._thinned_count
        self._thinned_max_ns = max(self._thinned_max_ns, other._thinned_max_ns)

    def in_ms(self) -> dict[str, float]:
        """Return mean, p50, p99 and maximum of the waits in ms, all 0 if there are none."""
        count = self._thinned_count + len(self.each_ns)
        if not count:
            return {"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}
        weighed = [(ns, weight) for weight, each in self._thinned for ns in each]
        weighed += [(ns, 1) for ns in self.each_ns]
        weighed.sort()
        longest_ns = max(weighed[-1][0], self._thinned_max_ns)
        return {
            "mean": round((self._thinned_sum_ns + sum(self.each_ns)) / count / NS_PER_MS, 6),
            "p50": _at(weighed, rank_of(count, RANKS["p50"])) / NS_PER_MS,
            "p99": _at(weighed, rank_of(count, RANKS["p99"])) / NS_PER_MS,
            "max": longest_ns / NS_PER_MS,
        }


def _at(weighed: Sequence[tuple[int, int]], rank: int) -> int:
    """Return the wait at this rank, from 0, in ascending order; each wait counts by its weight."""
    before = 0
    for ns, weight in weighed:
        before += weight
        if before > rank:
            return ns
    return weighed[-1][0]
