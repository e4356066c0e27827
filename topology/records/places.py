"""Keeps the partition and the offset of each input that may still be buffered.

The inputs of one call are consecutive in both their numbers and their offsets. So they are kept as
a run, and reading an input costs nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

Partition = int | str
Place = tuple[Partition, int]
"""A partition, and an offset in it."""

RUNS_UNUSED: Final = 1_024
"""The number of runs, beyond two per buffered input, at which obsolete ones are dropped."""


class _Run(NamedTuple):
    """Consecutive inputs of one partition: the numbers of the first and last, the first offset."""

    first: int
    last: int
    partition: Partition
    offset: int


class Places:
    """The places of inputs, by the inputs' numbers.

    Memory: `RUNS_UNUSED` runs, and two per input that was buffered when obsolete runs were dropped.
    """

    def __init__(self, places: Mapping[int, Place] | None = None) -> None:
        found = sorted((places or {}).items())
        self._runs = [_Run(number, number, *place) for number, place in found]
        self._most = RUNS_UNUSED

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def is_full(self) -> bool:
        """Whether the caller should drop what is obsolete (`keep`) before the next run."""
        return len(self._runs) >= self._most

    def add(self, first: int, count: int, partition: Partition, offset: int) -> None:
        """Add the places of `count` inputs, of which the first has these numbers."""
        if count:
            self._runs.append(_Run(first, first + count - 1, partition, offset))

    def keep(self, numbers: Iterable[int]) -> None:
        """Drop the places of all inputs but these."""
        kept: list[_Run] = []
        runs = iter(self._runs)
        run = next(runs, None)
        first = last = 0  # These are consecutive numbers of `run` that are kept; at first none.
        for number in sorted({*numbers}):
            if first and number == last + 1 and run is not None and number <= run.last:
                last = number
                continue
            if first and run is not None:
                kept.append(_slice_run(run, first, last))
                first = 0
            while run is not None and run.last < number:
                run = next(runs, None)
            if run is not None and number >= run.first:
                first = last = number
        if first and run is not None:
            kept.append(_slice_run(run, first, last))
        self._runs = kept
        self._most = 2 * len(kept) + RUNS_UNUSED

    def least(self, partition: Partition) -> int | None:
        """Return the smallest offset of a partition, or None if no input of it is kept."""
        offsets = (run.offset for run in self._runs if run.partition == partition)
        return min(offsets, default=None)

    def as_mapping(self) -> dict[int, Place]:
        """Return the place of each input."""
        return {
            number: (run.partition, run.offset + number - run.first)
            for run in self._runs
            for number in range(run.first, run.last + 1)
        }


def _slice_run(run: _Run, first: int, last: int) -> _Run:
    return _Run(first, last, run.partition, run.offset + first - run.first)
