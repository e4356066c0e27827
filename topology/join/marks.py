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
from typing import Any, Final

from topology.answer.frontier import NOT_YET
from topology.model.event import Event
from topology.model.kept import BIG, INT
from topology.model.tables import NumberedTable

ABSENT: Final = "absent/"
WIDE: Final = "wide/"


class Marks:
    """`left`: events lately marked, until somebody takes them."""

    def __init__(self, sides: int) -> None:
        self._absent: NumberedTable[int] = NumberedTable(ABSENT, INT)
        self._wide: NumberedTable[int] = NumberedTable(WIDE, BIG)
        self.tables: tuple[NumberedTable[Any], ...] = (self._absent, self._wide)
        self._sides = [str(side) for side in range(sides)]
        self.left: list[Event] = []

    def leave_out(self, event: Event, sides: Iterable[int]) -> None:
        for side in sides:
            self._mark(self._absent, str(side), 1, event)

    def remaining(self, event: Event, sides: Sequence[int]) -> list[int]:
        """The sides on which it was not left out."""
        return [side for side in sides if (event.offset, str(side)) not in self._absent.rows]

    def came_wide(self, event: Event, released_ns: int) -> None:
        self._mark(self._wide, "", released_ns, event)

    def came_ns(self, event: Event) -> int:
        """Up to where events had been released when it came, if it may have belonged to them."""
        return self._wide.rows.get((event.offset, ""), NOT_YET)

    def _mark(self, table: NumberedTable[Any], key: str, row: int, event: Event) -> None:
        table.put((event.offset, key), row)
        table.note((event.offset, key))
        self.left.append(event)

    def forget(self, event: Event) -> None:
        """No query holds it."""
        if self._absent.rows or self._wide.rows:
            self._wide.forget((event.offset, ""))
            for side in self._sides:
                self._absent.forget((event.offset, side))
