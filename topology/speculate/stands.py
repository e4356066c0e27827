"""STANDS: how likely it is that a result told early is neither taken back nor changed.

A result of age `a` (how far the clock was beyond its item when it was told) is met by each late
event that comes `l > a` behind the clock while it may still be met: so often, expected,

    hits(a) = sum over the late ones of a stretch:  max(0, min(l, X - W) - a) / stretch

None comes further behind the clock X than W is, for MERGE waits for what may.

Not each hit changes something: it has another key, or says nothing new. The share that does, `q`,
is what was changed by the hits that were expected of what was told. Rates of late events vary; if
they do as the time between them does, a result stands with

    P(a) = 1 / (1 + q * hits(a))

all of it in parts per million, without floats, so that all processors say the same. Before much has
been told a hit counts as a change.

What W has passed when it is told is another matter: all sources have been heard beyond it, and only
what MERGE calls late meets it. There the share that was changed so far is the chance.

The other way round: the shortest age at which no more than a share of results is withdrawn. Reading
up to there and no further is the published *publish gate*, at no cost: what is told of a stretch
depends on nothing behind it, so that reading on without telling it would only make replays.

Proved by: tests/topology/speculate/test_stands.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from topology.model.operator import Plain
from topology.speculate.policy import WHOLE

FADES: Final = 64
"""What is known fades by one part of so many in a span."""


class Standing:
    """`hits_of`: hits of an age, W being so far behind the clock, in parts per million."""

    def __init__(self, hits_of: Callable[[int, int], int]) -> None:
        self._hits_of = hits_of
        self._hits_ppm = 0
        self._changed_ppm = 0
        self._merged_ppm = 0
        self._late_ppm = 0

    def told(self, age_ns: int, ahead_ns: int, *, is_merged: bool) -> int:
        """A result of that age, which W, so far behind the clock, has passed or not; the chance
        that it stands."""
        if is_merged:
            self._merged_ppm += WHOLE
            return WHOLE - self.late_ppm
        hits_ppm = self._hits_of(age_ns, ahead_ns)
        self._hits_ppm += hits_ppm
        return self._of(hits_ppm)

    def changed(self, *, is_merged: bool) -> None:
        """One that was told early is taken back, or says something else, and W has passed it or
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
        """Which share of what was told behind W was changed."""
        return min(self._late_ppm * WHOLE // (self._merged_ppm + WHOLE), WHOLE)

    @property
    def share_ppm(self) -> int:
        """Changes a hit; no more than one, though one late event may change many results."""
        return min((self._changed_ppm + WHOLE) * WHOLE // (self._hits_ppm + WHOLE), 4 * WHOLE)

    def of(self, age_ns: int, ahead_ns: int) -> int:
        """The chance that a result of that age stands, which W has not passed."""
        return self._of(self._hits_of(age_ns, ahead_ns))

    def _of(self, hits_ppm: int) -> int:
        return WHOLE * WHOLE // (WHOLE + hits_ppm * self.share_ppm // WHOLE)

    def snapshot(self) -> Plain:
        return [self._hits_ppm, self._changed_ppm, self._merged_ppm, self._late_ppm]

    def restore(self, plain: Plain) -> None:
        self._hits_ppm, self._changed_ppm, self._merged_ppm, self._late_ppm = plain
