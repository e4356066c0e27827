"""STABILITY: the probability that an early result is neither taken back nor changed.

A result has an age `a`: how far the newest event was beyond its item when it was emitted. Each late
event that comes `l > a` behind the newest event may change it, as long as it may still be changed.
The expected number of such hits is

    hits(a) = sum over the late events of a stretch:  max(0, min(l, X - W) - a) / stretch

No event comes further behind the newest event X than W is, for MERGE waits for what may.

Not each hit changes something: it has another key, or adds nothing new. The share `q` of hits that
do is measured: changed results by expected hits. Rates of late events vary; if they vary as the
time between them does, a result is stable with probability

    P(a) = 1 / (1 + q * hits(a))

in parts per million and without floats, so that all processors agree. Before many results were
emitted, a hit counts as a change.

A result that W had passed when it was emitted is another case: all sources have delivered beyond
it, and only what MERGE calls late changes it. Its probability is the share that was not changed so
far.

The inverse is the shortest age at which no more than a share of results is withdrawn. Reading up to
there and no further is the published *publish gate*, at no cost: what is emitted of a stretch
depends on nothing behind it, so reading on without emitting would only cause replays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from topology.answer.spending import WHOLE
from topology.model.saved import Saved

FADES: Final = 64
"""What is known fades by one part of so many in a span."""


class Stability(Saved):
    """`hits_of`: hits of an age, W being so far behind the clock, in parts per million."""

    FIELDS = ("_hits_ppm", "_changed_ppm", "_merged_ppm", "_late_ppm")

    def __init__(self, hits_of: Callable[[int, int], int]) -> None:
        self._hits_of = hits_of
        self._hits_ppm = 0
        self._changed_ppm = 0
        self._merged_ppm = 0
        self._late_ppm = 0

    def emitted(self, age_ns: int, ahead_ns: int, *, is_merged: bool) -> int:
        """A result of that age was emitted, which W, so far behind the newest event, has passed or
        not; the probability that it is stable."""
        if is_merged:
            self._merged_ppm += WHOLE
            return WHOLE - self.late_ppm
        hits_ppm = self._hits_of(age_ns, ahead_ns)
        self._hits_ppm += hits_ppm
        return self._of(hits_ppm)

    def changed(self, *, is_merged: bool) -> None:
        """One that was emitted early is taken back, or changed, and W has passed it or
        not."""
        if is_merged:
            self._late_ppm += WHOLE
        else:
            self._changed_ppm += WHOLE

    def fade(self) -> None:
        """A span is over."""
        self._hits_ppm -= self._hits_ppm // FADES
        self._changed_ppm -= self._changed_ppm // FADES
        self._merged_ppm -= self._merged_ppm // FADES
        self._late_ppm -= self._late_ppm // FADES

    @property
    def late_ppm(self) -> int:
        """The share of results emitted behind W that were changed."""
        return min(self._late_ppm * WHOLE // (self._merged_ppm + WHOLE), WHOLE)

    @property
    def share_ppm(self) -> int:
        """Changes a hit; no more than one, though one late event may change many results."""
        return min((self._changed_ppm + WHOLE) * WHOLE // (self._hits_ppm + WHOLE), 4 * WHOLE)

    def of(self, age_ns: int, ahead_ns: int) -> int:
        """The chance that a result of that age, which W has not passed, will not change."""
        return self._of(self._hits_of(age_ns, ahead_ns))

    def _of(self, hits_ppm: int) -> int:
        return WHOLE * WHOLE // (WHOLE + hits_ppm * self.share_ppm // WHOLE)
