"""JOIN INPUT: one of the edges that lead into a node with several inputs.

What passes the node before it goes in, with the time up to which that one has spoken; the node
behind takes it when all its inputs can be put in one order.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.event import Event, twin
from topology.model.operator import NEVER


class JoinInput:
    """`now_ns`: all before it has passed. `copies`: a node behind changes the same events, so
    twins go in."""

    __slots__ = ("_copies", "_events", "now_ns")

    def __init__(self, *, copies: bool) -> None:
        self._copies = copies
        self._events: list[Event] = []
        self.now_ns = -NEVER

    def put(self, events: Sequence[Event], now_ns: int) -> None:
        self._events += [twin(event) for event in events] if self._copies else events
        self.now_ns = max(self.now_ns, now_ns)

    def take(self) -> list[Event]:
        """What has passed since this was last asked."""
        events, self._events = self._events, []
        return events
