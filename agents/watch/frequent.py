"""Which sources are named most often, counted in little memory.

By the rule of Misra and Gries (Finding repeated elements, 1982): a table of at most `most` sources,
and where it is full each one in it gives up one for the newcomer. So a source that makes more than
one in `most` of what is noted is in it for certain. What is told of a source is exact from when it
came into the table.

Cost: amortised O(1) a note. Memory: `most` entries.

Proved by: tests/agents/watch/test_frequent.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Source = tuple[str, str]
"""Stream and name."""


@dataclass(slots=True)
class Named:
    """`weight`: times named, less what was given up; `times`: since it is in the table; `amount`:
    the sum of what was noted with it."""

    weight: int = 0
    times: int = 0
    amount: int = 0


class Frequent:
    """Give it what is out of the ordinary alone: what is noted costs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._table: dict[Source, Named] = {}

    def note(self, source: Source, amount: int = 1) -> None:
        table = self._table
        named = table.get(source)
        if named is None:
            if len(table) >= self._most:
                self._make_room()
                return
            named = table[source] = Named()
        named.weight += 1
        named.times += 1
        named.amount += amount

    def _make_room(self) -> None:
        """Each gives up one, the newcomer its own."""
        for source, named in list(self._table.items()):
            named.weight -= 1
            if not named.weight:
                del self._table[source]

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[tuple[Source, Named]]:
        return iter(self._table.items())

    def of(self, source: Source) -> Named:
        """Nothing of one that is not in the table."""
        return self._table.get(source) or Named()

    def sources(self) -> Iterable[Source]:
        return self._table.keys()
