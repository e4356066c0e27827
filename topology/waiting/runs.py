"""Numbers that come in rising order, kept as runs.

Bound: `MAX_RUNS`; beyond, the oldest is forgotten. Cost: O(1) to add, O(log runs) to ask.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from topology.model.saved import Saved

MAX_RUNS: Final = 10_000


class Runs(Saved):
    """A set of numbers."""

    __slots__ = ("_runs",)
    FIELDS = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """`first` .. `last`, none of them below what is in it."""
        runs = self._runs
        if runs and runs[-1][1] >= first - 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
            return
        runs.append((first, last))
        if len(runs) > MAX_RUNS:
            del runs[0]

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._runs, number, key=_last_of)
        return at < len(self._runs) and self._runs[at][0] <= number


def _last_of(run: tuple[int, int]) -> int:
    return run[1]
