"""Finds the sources with the largest amounts in bounded memory, and bounds the error.

The method is "Space-Saving" by Metwally, Agrawal and El Abbadi (Efficient computation of frequent
and top-k elements, 2005). A table has at most `most` sources. In a full table, a new source takes
the place of the one with the least count. That count becomes the new source's `error`, because up
to that much of it may have been noted before. For every source:

* In the table: `amount` <= the sum of its noted amounts <= `amount` + `error`.
* Not in the table: the sum of its noted amounts is at most the least count in the table.
* The least count is at most the total divided by `most`. So a source with a larger amount is
  certainly in the table, and its `error` is at most that.
* Everything is exact until the full table gets a new source.

Cost: O(log `most`) a note, amortised: the heap has one entry for each source, which is updated when
it reaches the top. Memory: `most` entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush, heapreplace, nlargest

Source = tuple[str, str]
"""Names of the stream and the source."""


@dataclass(slots=True)
class Weighed:
    """The counts of one source since it entered the table.

    `amount` is the sum of its noted amounts, and `times` the number of notes. Amounts noted earlier
    add up to at most `error`. `mark` is for the caller, who may store a value there when the source
    enters; it is 0 at first.
    """

    amount: int = 0
    times: int = 0
    error: int = 0
    mark: int = 0

    @property
    def count(self) -> int:
        """Upper bound of the sum of all amounts noted for the source."""
        return self.amount + self.error


class Frequent:
    """A table of the sources with the largest amounts.

    Call `note` for irregular events only, because each call has a cost.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._table: dict[Source, Weighed] = {}
        # Heap of entries: a lower bound of the count, a serial number, and the source.
        self._least: list[tuple[int, int, Source]] = []
        self._looks = 0
        self._is_exact = True

    def note(self, source: Source, amount: int = 1) -> Weighed:
        """Add an amount of at least 1 to a source, and return the source's entry.

        `times` is 1 for a source that has just entered the table.
        """
        named = self._table.get(source)
        if named is None:
            named = self._enter(source, amount)
        named.amount += amount
        named.times += 1
        return named

    def _enter(self, source: Source, amount: int) -> Weighed:
        self._looks += 1
        if len(self._table) < self._most:
            named = self._table[source] = Weighed()
            heappush(self._least, (amount, self._looks, source))
            return named
        self._is_exact = False
        error = self._least_count()
        del self._table[self._least[0][2]]
        heapreplace(self._least, (error + amount, self._looks, source))
        named = self._table[source] = Weighed(error=error)
        return named

    def _least_count(self) -> int:
        """Return the least count, and move its source to the top of the heap.

        If several sources have it, the one whose heap entry was updated longest ago comes first.
        """
        while True:
            count, _, source = self._least[0]
            now = self._table[source].count
            if now == count:
                return count
            self._looks += 1
            heapreplace(self._least, (now, self._looks, source))

    def __contains__(self, source: Source) -> bool:
        return source in self._table

    def of(self, source: Source) -> Weighed:
        """Return the entry of a source.

        A source outside the table gets an empty entry with its possible error.
        """
        named = self._table.get(source)
        if named is None:
            named = Weighed(error=0 if self._is_exact else self._least_count())
        return named

    def worst(self, count: int) -> list[tuple[int, Source]]:
        """Return the `count` sources with the largest certain amounts, the largest first."""
        return nlargest(count, ((named.amount, source) for source, named in self._table.items()))
