"""Provide the strategy without waiting: BL-IG of ProbSlack's paper (slack.md 5.8)."""

from __future__ import annotations

from topology.published.mean_delay import AverageDelay


class Ignore(AverageDelay):
    """The strategy by which a bound passes as soon as the arrival clock has reached it."""

    __slots__ = ()

    def _wait_ns(self) -> int:
        return 0
