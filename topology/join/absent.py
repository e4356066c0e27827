"""What a query has left out though another may hold it.

Held events come back together, whichever query holds them; by this one that did not take an event,
or gave it up, knows not to take it then. A mark goes when no query holds the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from topology.event import Event
from topology.window.journal import Journal, Part

ABSENT: Final = "absent"


class Absent:
    """Offsets and sides. `left`: events lately left out, until somebody takes them."""

    def __init__(self, sides: int, journal: Journal) -> None:
        self._sides = range(sides)
        self._journal = journal
        self._marks: dict[tuple[int, int], None] = {}
        self.left: list[Event] = []

    def add(self, event: Event, sides: Iterable[int]) -> None:
        for side in sides:
            self._marks[event.offset, side] = None
            self._journal.note(ABSENT, event.offset, str(side))
        self.left.append(event)

    def forget(self, event: Event) -> None:
        """No query holds it."""
        if self._marks:
            for side in self._sides:
                if self._marks.pop((event.offset, side), self) is None:
                    self._journal.note(ABSENT, event.offset, str(side))

    def remaining(self, event: Event, sides: Sequence[int]) -> list[int]:
        """The sides on which it was not left out."""
        return [side for side in sides if (event.offset, side) not in self._marks]

    def parts(self) -> Iterator[Part]:
        for offset, side in self._marks:
            yield ABSENT, offset, str(side)

    def peek(self, part: Part) -> int | None:
        return 1 if (part[1], int(part[2])) in self._marks else None

    def load(self, part: Part) -> None:
        self._marks[part[1], int(part[2])] = None
