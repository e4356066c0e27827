"""Enumerate all partial matches eagerly as events arrive, and repair them after a late event.

Under skip-till-any, a late event extends every partial match that ends before it. The new partial
matches are continued with the events after it. For MATCHES ONE, every run into which a late event
falls is cut back to that time and continued again.

An event costs O(stored partial matches). A late event costs in addition O(events after it) for each
match that it makes. The engine stores all events and matches within the window and the slack.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from benchmarks.baselines.sequence import MAX_RUNS, Exploded, Members, Sequence, select_maximal

Ops = tuple[int, int]
"""The number of matches emitted, and of earlier matches retracted or replaced."""

PURGE_EVERY = 64


class Eager:
    """An engine whose `current` has matches by their anchor: the start (ONE), or the end (any)."""

    def __init__(self, sequence: Sequence, slack: int) -> None:
        self._sequence = sequence
        self._slack = slack
        self._clock = 0
        self._accepted = 0
        self._events: list[tuple[int, str]] = []
        self._runs: list[Members] = []
        self._complete: dict[int, list[Members]] = {}
        self.current: dict[int, set[Members]] = {}

    def accept(self, time: int, type_: str) -> Ops:
        self._clock = max(self._clock, time)
        self._accepted += 1
        if self._accepted % PURGE_EVERY == 0:
            self._purge(self._clock - self._slack - self._sequence.within)
        insort(self._events, (time, type_))
        return self._accept_any(time, type_) if self._sequence.any else self._one(time, type_)

    def _purge(self, before: int) -> None:
        del self._events[: bisect_right(self._events, (before, ""))]
        self._runs = [run for run in self._runs if run[0][0] >= before]
        for end in [end for end in self._complete if end < before]:
            del self._complete[end]

    # -- skip-till-any ------------------------------------------------------------------------

    def _accept_any(self, time: int, type_: str) -> Ops:
        sequence = self._sequence
        since = time - sequence.within
        new = sequence.extend((), type_, time)
        for run in self._runs:
            if run[0][0] >= since and run[-1][-1] < time:
                new += sequence.extend(run, type_, time)
        later = self._events[bisect_right(self._events, (time, type_)) :]
        ends: set[int] = set()
        while new:
            run = new.pop()
            if sequence.is_complete(run):
                self._complete.setdefault(run[-1][-1], []).append(run)
                ends.add(run[-1][-1])
                continue
            self._runs.append(run)
            if len(self._runs) > MAX_RUNS:
                raise Exploded
            for then, type_then in later:
                if then > run[0][0] + sequence.within:
                    break
                if then > run[-1][-1]:
                    new += sequence.extend(run, type_then, then)
        emitted = retracted = 0
        for end in ends:
            before = self.current.get(end, set())
            now = self.current[end] = select_maximal(self._complete[end])
            emitted += len(now - before)
            retracted += len(before - now)
        return emitted, retracted

    # -- MATCHES ONE --------------------------------------------------------------------------

    def _one(self, time: int, type_: str) -> Ops:
        sequence = self._sequence
        is_late = self._events[-1][0] > time
        emitted = retracted = 0
        for at, run in enumerate(self._runs):
            if not run[0][0] < time <= run[0][0] + sequence.within:
                continue
            if sequence.is_complete(run) and run[-1][-1] < time:
                continue
            walked = self._walk(_cut_before(run, time), time)
            if walked == run:
                continue
            self._runs[at] = walked
            before = self.current.pop(run[0][0], None)
            retracted += before is not None
            emitted += self._emit(walked)
        for run in sequence.extend((), type_, time):
            walked = self._walk(run, time + 1) if is_late else run
            self._runs.append(walked)
            emitted += self._emit(walked)
        return emitted, retracted

    def _emit(self, run: Members) -> int:
        if not self._sequence.is_complete(run):
            return 0
        self.current[run[0][0]] = {run}
        return 1

    def _walk(self, run: Members, since: int) -> Members:
        """Return the run, continued with all existing events since `since`."""
        sequence = self._sequence
        until = run[0][0] + sequence.within
        for at in range(bisect_right(self._events, (since, "")), len(self._events)):
            time, type_ = self._events[at]
            if time > until or sequence.is_complete(run):
                break
            run = next(iter(sequence.extend(run, type_, time)), run)
        return run


def _cut_before(run: Members, time: int) -> Members:
    parts = [tuple(t for t in part if t < time) for part in run]
    return tuple(part for part in parts if part)
