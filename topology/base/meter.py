"""Adds up the time that queries take, for a driver that wants to name a costly query.

The core has no clock. The driver sets `clock_ns` while it measures, and the time never affects a
result. Without a clock, a call costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable


class Meter:
    """The time that each query has taken, in ns of the driver's clock, since the last `take`."""

    __slots__ = ("_spent_ns", "clock_ns")

    def __init__(self) -> None:
        """Measure nothing until `clock_ns` is set."""
        self.clock_ns: Callable[[], int] | None = None
        self._spent_ns: dict[str, int] = {}

    def begin(self) -> int:
        """Return the time at which a query begins its work, to be passed to `end`."""
        return 0 if self.clock_ns is None else self.clock_ns()

    def end(self, query: str, begun_ns: int) -> None:
        """Add the time since `begin` to the query."""
        if self.clock_ns is not None:
            took_ns = self.clock_ns() - begun_ns
            self._spent_ns[query] = self._spent_ns.get(query, 0) + took_ns

    def take(self) -> dict[str, int]:
        """Return the time of each query, and begin again."""
        spent, self._spent_ns = self._spent_ns, {}
        return spent
