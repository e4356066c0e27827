"""Records which nodes of a stage keep which events.

Operators say which events they keep and no longer keep (`topology.base.operator`). The node of an
operator writes that down here, under its *place*, a bit of its own. The same bits are in the notes
of a checkpoint. So a stage that is restored gives each event back to the operators that kept it.

Events are known by identity here, because two records may have the same offset.

Cost: O(1) for each event that is kept or freed, and one reference for each place of a kept event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from topology.base.event import Event

EVERYWHERE: Final = -1
"""The places of all nodes."""


class Ledger:
    """The events that the nodes of a stage keep.

    Attributes:
        moved: The events that a node has freed, or keeps with other values, since the last
            `take_moved`; None if they are not recorded.
    """

    def __init__(self) -> None:
        self._kept: dict[int, set[Event]] = {}
        self.moved: list[Event] | None = None

    def kept_at(self, place: int) -> set[Event]:
        """Return the set of the events that are kept at a place, which its node changes."""
        return self._kept.setdefault(place, set())

    def add(self, places: Mapping[Event, int]) -> None:
        """Record the places of events that a stage is about to restore."""
        for event, left in places.items():
            while left:
                place = left & -left
                left ^= place
                self.kept_at(place).add(event)

    def clear(self) -> None:
        """Forget all events."""
        for kept in self._kept.values():
            kept.clear()

    def places_of(self, event: Event) -> int:
        """Return the places at which the event is kept, or 0."""
        return sum([place for place, kept in self._kept.items() if event in kept])

    def places(self, events: Collection[Event]) -> dict[Event, int]:
        """Return the places of those of the events that are kept anywhere."""
        found: dict[Event, int] = {}
        for place, kept in self._kept.items():
            for event in kept.intersection(events):
                found[event] = found.get(event, 0) | place
        return found

    def kept_among(self, events: Collection[Event], places: int = EVERYWHERE) -> set[Event]:
        """Return those of the events that are kept at any of the places."""
        found: set[Event] = set()
        for place, kept in self._kept.items():
            if kept and place & places:
                found |= kept.intersection(events)
        return found

    def iter_kept(self, places: int) -> Iterator[Event]:
        """Yield the events that are kept at any of the places, once for each."""
        for place, kept in self._kept.items():
            if place & places:
                yield from kept

    def take_moved(self) -> list[Event]:
        """Return the events that were recorded since the last call, and begin a new record."""
        assert self.moved is not None
        moved, self.moved = self.moved, []
        return moved
