"""How far reference times may be from true ones: the largest error met, and what follows of it.

Where no event has an error, nothing of this does anything. With errors up
to E, two events that are 2 E apart in reference time may be in either order. So an event can
change the grade of a match that is 2 E (the *margin*) older, and that match is decided so much
later.

E is the bound that is set (`max_error_ns`), from the first event on; or, where none is set, the
largest error met so far, rounded up to a power of two so that it seldom grows, at most
`MAX_ERROR_NS`. What was decided before it grew is kept: a smaller error had let go of what it rests
on. So that nothing is missed is sure for a bound that is set, or a frontier that does not move.
"""

from __future__ import annotations

from typing import Final

from topology.model.kept import INT, list_of, tuple_of
from topology.model.operator import Plain

MAX_ERROR_NS: Final = 3_600_000_000_000
"""One hour: no event with a larger error is taken, whatever is set."""

DOUBT: Final = tuple_of(INT, list_of(tuple_of(INT, INT)))


class Doubt:
    """`steps`: earlier margins with the frontier at which each ended."""

    def __init__(self, max_error_ns: int | None = None) -> None:
        self._max_error_ns = MAX_ERROR_NS if max_error_ns is None else max_error_ns
        self.error_ns = max_error_ns or 0
        self.margin_ns = 2 * self.error_ns
        self.steps: list[tuple[int, int]] = []

    def widen(self, error_ns: int, frontier_ns: int) -> int:
        """An event with this error is there; by how much that is a larger margin."""
        if error_ns <= self.error_ns:
            return 0
        before_ns = self.margin_ns
        self.steps.append((frontier_ns, before_ns))
        self.error_ns = min(1 << (error_ns - 1).bit_length(), self._max_error_ns)
        self.margin_ns = 2 * self.error_ns
        return self.margin_ns - before_ns

    def decided_ns(self, nominal_ns: int) -> int:
        """The reference time after which no event changes what, by reference times alone, none
        changes after `nominal_ns`."""
        for frontier_ns, margin_ns in self.steps:
            if nominal_ns + margin_ns < frontier_ns:
                return nominal_ns + margin_ns
        return nominal_ns + self.margin_ns

    def snapshot(self) -> Plain:
        return self.error_ns, list(self.steps)

    def restore(self, state: Plain) -> None:
        error_ns, steps = DOUBT.load(state, None, None, "")
        if error_ns >= self.error_ns:
            self.error_ns, self.steps, self.margin_ns = error_ns, steps, 2 * error_ns


NO_DOUBT: Final = Doubt(0)
"""For a query that takes reference times for true (UNCERTAIN IGNORE)."""
