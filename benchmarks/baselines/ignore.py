"""Provide the strategy that never waits: BL-IG of ProbSlack's paper (slack.md 5.8)."""

from __future__ import annotations

from benchmarks.published.mean_delay import AverageDelay


class Ignore(AverageDelay):
    """The strategy that lets a bound pass as soon as the arrival clock has reached it."""

    __slots__ = ()

    def _wait_ns(self) -> int:
        return 0
