"""JOIN INPUT: one of the edges that lead into a node with several inputs.

What passes the node before it goes in, with the time up to which that one has spoken; the node
behind takes it when all its inputs can be put in one order.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.flow.accepted import Accepted
from topology.model.event import Event
from topology.model.operator import NEVER


class JoinInput:
    """`now_ns`: all before it has passed. `is_accepted`: MERGE takes the same events before the
    node behind does; that one reads them as they came (`swap`)."""

    __slots__ = ("_accepted", "_is_accepted", "events", "now_ns")

    def __init__(self, *, is_accepted: bool) -> None:
        self._is_accepted = is_accepted
        self._accepted: list[Accepted] = []
        self.events: list[Event] = []
        self.now_ns = -NEVER

    def put(self, events: Sequence[Event], now_ns: int) -> None:
        if self._is_accepted:
            self._accepted.append(Accepted(events))
        self.events += events
        self.now_ns = max(self.now_ns, now_ns)

    def swap(self) -> None:
        """See `Accepted`."""
        for each in self._accepted:
            each.swap()

    def clear(self) -> None:
        """The node behind has taken all."""
        self.events = []
        self._accepted.clear()
