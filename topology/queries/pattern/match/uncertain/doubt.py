"""Bounds how far corrected timestamps may be from event times: the largest error, and the margin.

If no event has an error, this module has no effect. With errors up to E, two events that are 2 E
apart in corrected timestamp may be in either order. So an event can change the grade of a match
that is 2 E (the *margin*) older, and the match becomes final that much later.

E is `max_error_ns` from the first event on. If that is None, E is the largest error of all events
received, at most `MAX_ERROR_NS`. It is rounded up to a power of two so that it seldom grows.
Decisions made before E grew stay, because the events that they depend on were dropped under the
smaller error. Nothing is missed if `max_error_ns` is set, or while the frontier does not move.
"""

from __future__ import annotations

from typing import Final

from topology.base.operator import Plain
from topology.state.saved import INT, list_of, tuple_of

MAX_ERROR_NS: Final = 3_600_000_000_000
"""One hour: events with larger errors are not accepted, unless `max_error_ns` says otherwise."""

DOUBT: Final = tuple_of(INT, list_of(tuple_of(INT, INT)))


class Doubt:
    """The largest error of all events received, and its margin.

    `steps` are the earlier margins, each with the frontier at which it was replaced.
    """

    def __init__(self, max_error_ns: int | None = None) -> None:
        self._max_error_ns = MAX_ERROR_NS if max_error_ns is None else max_error_ns
        self.error_ns = max_error_ns or 0
        self.margin_ns = 2 * self.error_ns
        self.steps: list[tuple[int, int]] = []

    def widen(self, error_ns: int, frontier_ns: int) -> int:
        """Update the largest error for an event, and return by how much the margin grows."""
        if error_ns <= self.error_ns:
            return 0
        before_ns = self.margin_ns
        self.steps.append((frontier_ns, before_ns))
        self.error_ns = min(1 << (error_ns - 1).bit_length(), self._max_error_ns)
        self.margin_ns = 2 * self.error_ns
        return self.margin_ns - before_ns

    def decided_ns(self, nominal_ns: int) -> int:
        """Return the corrected timestamp after which no event changes the result.

        `nominal_ns` is that timestamp for exact times.
        """
        for frontier_ns, margin_ns in self.steps:
            if nominal_ns + margin_ns < frontier_ns:
                return nominal_ns + margin_ns
        return nominal_ns + self.margin_ns

    def snapshot(self) -> Plain:
        return self.error_ns, list(self.steps)

    def restore(self, state: Plain) -> None:
        error_ns, steps = DOUBT.load(state, None, "")
        if error_ns >= self.error_ns:
            self.error_ns, self.steps, self.margin_ns = error_ns, steps, 2 * error_ns


NO_DOUBT: Final = Doubt(0)
"""The constant for queries that treat corrected timestamps as exact (UNCERTAIN IGNORE)."""
