"""Buffer events for K, then run an NFA in order.

Every event is buffered until the clock has passed its time by K. It is then offered to every run
that waits for its type. Under skip-till-any, a run that takes the event is cloned, and the one
without it continues.

An event costs O(runs in the window), and the buffer O(log K). A match is emitted K after its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from benchmarks.baselines.sequence import MAX_RUNS, Exploded, Members, Sequence, select_maximal


class BufferedNFA:
    """An engine whose `accept` returns the matches that are now certain, and never corrects one."""

    def __init__(self, sequence: Sequence, slack: int) -> None:
        self._sequence = sequence
        self._slack = slack
        self._clock = 0
        self._held: list[tuple[int, str]] = []
        self._runs: list[Members] = []

    def accept(self, time: int, type_: str) -> list[Members]:
        heappush(self._held, (time, type_))
        self._clock = max(self._clock, time)
        return list(self._release(self._clock - self._slack))

    def end(self) -> list[Members]:
        return list(self._release(self._clock + 1))

    def _release(self, before: int) -> Iterator[Members]:
        while self._held and self._held[0][0] < before:
            time, type_ = heappop(self._held)
            yield from self._process(time, type_)

    def _process(self, time: int, type_: str) -> list[Members]:
        sequence = self._sequence
        since = time - sequence.within
        found: list[Members] = []
        runs: list[Members] = []
        for run in self._runs:
            if run[0][0] < since:
                continue
            steps = sequence.extend(run, type_, time)
            if sequence.any:
                runs.append(run)
            elif steps:
                steps = steps[:1]
            else:
                runs.append(run)
            for step in steps:
                (found if sequence.is_complete(step) else runs).append(step)
        runs += sequence.extend((), type_, time)
        if len(runs) > MAX_RUNS:
            raise Exploded
        self._runs = runs
        return sorted(select_maximal(found)) if sequence.any else found
