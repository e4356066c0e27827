"""What the state keeps of single events that are held.

Held events come back together, whichever query holds them, and on whichever side. That this query
has let one go is found out again, as it once was. Marked are those of which it is not:

* ABSENT: left out on a side, or given up there.
* WIDE: so unsure that, when it came, events that it may belong with had been released. They do not
  come back because of it. The mark is what `Frontiers.released_ns` was.

A mark goes when no query holds the event. So there are as many as there is trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from topology.answer.frontier import NOT_YET
from topology.model.event import Event
from topology.model.journal import Part, StateInParts
from topology.model.operator import Plain
from topology.model.saved import packed, unpacked

ABSENT: Final = "absent"
WIDE: Final = "wide"
KINDS: Final = (ABSENT, WIDE)


class Marks(StateInParts[Part]):
    """`left`: events lately marked, until somebody takes them."""

    def __init__(self, sides: int) -> None:
        super().__init__()
        self._sides = [(ABSENT, str(side)) for side in range(sides)]
        self._marks: dict[Part, int] = {}
        self.left: list[Event] = []

    def leave_out(self, event: Event, sides: Iterable[int]) -> None:
        for side in sides:
            self._mark((ABSENT, event.offset, str(side)), 1, event)

    def remaining(self, event: Event, sides: Sequence[int]) -> list[int]:
        """The sides on which it was not left out."""
        return [side for side in sides if (ABSENT, event.offset, str(side)) not in self._marks]

    def came_wide(self, event: Event, released_ns: int) -> None:
        self._mark((WIDE, event.offset, ""), released_ns, event)

    def came_ns(self, event: Event) -> int:
        """Up to where events had been released when it came, if it may have belonged to them."""
        return self._marks.get((WIDE, event.offset, ""), NOT_YET)

    def _mark(self, part: Part, value: int, event: Event) -> None:
        self._marks[part] = value
        self.note(part)
        self.left.append(event)

    def forget(self, event: Event) -> None:
        """No query holds it."""
        if self._marks:
            for kind, key in (*self._sides, (WIDE, "")):
                part = kind, event.offset, key
                if self._marks.pop(part, None) is not None:
                    self.note(part)

    def parts(self) -> Iterable[Part]:
        return self._marks.keys()

    def peek(self, part: Part) -> Plain:
        value = self._marks.get(part)
        return None if value is None else packed(value)

    def load(self, part: Part, state: Plain) -> None:
        self._marks[part] = unpacked(state)
