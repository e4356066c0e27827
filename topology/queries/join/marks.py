"""Records facts about held events that cannot be derived after a restart.

A restart restores all held events, for every query and on every side. A query then derives which of
these it had released. Marks are for the exceptions:

* ABSENT: the event was left out or given up on a side.
* WIDE: the event was so uncertain that possible partners had been released before it arrived. The
  event must not prolong the retention of such partners. The mark is `Frontiers.released_ns` at its
  arrival.

A mark is deleted when no join holds the event any more. So only such exceptions cost memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topology.answer.frontier import NOT_YET
from topology.base.event import Event
from topology.state.saved import BIG, INT
from topology.state.tables import NumberedTable


class Marks:
    """The marks of a join; `left` lists newly marked events until the caller clears it."""

    def __init__(self, sides: int) -> None:
        self._absent: NumberedTable[int] = NumberedTable("absent/", INT)
        self._wide: NumberedTable[int] = NumberedTable("wide/", BIG)
        self.tables: tuple[NumberedTable[Any], ...] = (self._absent, self._wide)
        self._sides = [str(side) for side in range(sides)]
        self.left: list[Event] = []

    def leave_out(self, event: Event, sides: Iterable[int]) -> None:
        for side in sides:
            self._mark(self._absent, str(side), 1, event)

    def remaining_sides(self, event: Event, sides: Sequence[int]) -> list[int]:
        """Return those of `sides` on which the event was neither left out nor given up."""
        return [side for side in sides if (event.offset, str(side)) not in self._absent.rows]

    def record_arrival(self, event: Event, released_ns: int) -> None:
        self._mark(self._wide, "", released_ns, event)

    def came_ns(self, event: Event) -> int:
        """Return the instant up to which partners had been released when the event arrived."""
        return self._wide.rows.get((event.offset, ""), NOT_YET)

    def _mark(self, table: NumberedTable[Any], key: str, row: int, event: Event) -> None:
        table.put((event.offset, key), row)
        table.note((event.offset, key))
        self.left.append(event)

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Replace the offsets of events by others, which `numbers` has by the former ones.

        The marks of other events are deleted.
        """
        for table in self.tables:
            table.rows = {
                (numbers[at], key): row for (at, key), row in table.rows.items() if at in numbers
            }

    def forget(self, event: Event) -> None:
        """Delete the marks of an event, because no query holds it any more."""
        if self._absent.rows or self._wide.rows:
            self._wide.forget((event.offset, ""))
            for side in self._sides:
                self._absent.forget((event.offset, side))
