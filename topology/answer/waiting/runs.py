"""Stores sets of window numbers as runs: any ascending set, and the open windows with an event.

An event belongs to a run of windows. So a stream has one run if no pause is longer than a window.
There are at most `MAX_RUNS`. Beyond that `Runs` forgets the oldest run, and `Filled` joins the two
newest, so that the windows between them count as filled. Cost: O(1) for an event of the newest run,
otherwise O(log runs).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from topology.base.operator import NEVER
from topology.state.saved import INT, TEXT, Saved, Shape, dict_of, list_of, tuple_of

MAX_RUNS: Final = 10_000

Run = tuple[int, int]

ALL_RUNS: Final = list_of(tuple_of(INT, INT))
RUNS: Final = Shape("waiting.runs", 1, _runs=ALL_RUNS)
FILLED: Final = Shape(
    "waiting.filled", 1, _runs=ALL_RUNS, closed=dict_of(TEXT, INT), waited_ns=INT, longest_ns=INT
)


class Runs(Saved):
    """A set of numbers that are added in ascending order."""

    SHAPE = RUNS
    __slots__ = RUNS.fields

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def add(self, first: int, last: int) -> None:
        """Add the numbers `first` .. `last`, none of which is below a number in the set."""
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


class Filled(Saved):
    """The open windows that have an event, and counts of those that were closed.

    Attributes:
        closed: The number of closed windows, by the reason why they closed.
        waited_ns: The total time from the last instant of each window to its closing.
        longest_ns: The longest of these times.
    """

    SHAPE = FILLED
    __slots__ = FILLED.fields

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self.closed: dict[str, int] = {}
        self.waited_ns = 0
        self.longest_ns = 0

    @property
    def first(self) -> int | None:
        """The first window that is open and has an event, or None."""
        return self._runs[0][0] if self._runs else None

    def add(self, first: int, last: int) -> None:
        """Record that the windows `first` .. `last` have an event."""
        runs = self._runs
        if runs and runs[-1][0] <= first and last <= runs[-1][1]:
            return
        at = end = bisect_left(runs, first - 1, key=_last_of)
        while end < len(runs) and runs[end][0] <= last + 1:
            first, last = min(first, runs[end][0]), max(last, runs[end][1])
            end += 1
        runs[at:end] = [(first, last)]
        if len(runs) > MAX_RUNS:
            runs[-2:] = [(runs[-2][0], runs[-1][1])]

    def close(self, through: int, by: str, now_ns: int, every_ns: int, shift_ns: int) -> int:
        """Close the windows up to `through`, and return how many of them are filled.

        The last instant of window k is k `every_ns` - `shift_ns`.
        """
        runs = self._runs
        count = numbers = 0
        if runs and runs[0][0] <= through:
            waited_ns = now_ns - runs[0][0] * every_ns + shift_ns
            self.longest_ns = min(NEVER, max(self.longest_ns, waited_ns))
        while runs and runs[0][0] <= through:
            first, last = runs.pop(0)
            if last > through:
                runs.insert(0, (through + 1, last))
                last = through
            count += last + 1 - first
            numbers += (first + last) * (last + 1 - first) // 2
        if count:
            self.closed[by] = self.closed.get(by, 0) + count
            waited_ns = count * (now_ns + shift_ns) - numbers * every_ns
            self.waited_ns = min(NEVER, self.waited_ns + waited_ns)
        return count


def _last_of(run: Run) -> int:
    return run[1]
