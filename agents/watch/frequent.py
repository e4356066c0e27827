"""Which sources weigh the most, in little memory, and how far the amounts may be off.

By the rule of Metwally, Agrawal and El Abbadi (Efficient computation of frequent and top-k
elements, 2005), "Space-Saving": a table of at most `most` sources; where it is full, a newcomer
takes the place of the one with the least count, and that count as its `error`, for so much may
have been noted of it before it came. It holds for every source:

* in the table: `amount` <= what was noted of it in all <= `amount` + `error`;
* not in it: at most the least count in the table was noted of it;
* the least count is at most the total by `most`, so one that makes more than that is in it for
  certain, and its `error` is no more;
* until the table has been full and met a newcomer, all is exact.

Cost: O(log `most`) a note, amortised: the heap holds one entry a source, which is brought up to
date when it has come to the top. Memory: `most` entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush, heapreplace, nlargest

Source = tuple[str, str]
"""Stream and name."""


@dataclass(slots=True)
class Weighed:
    """Since it came into the table: `amount`, the sum of what was noted with it, and `times`, how
    often. `error`: so much at most was noted before. `mark`: whatever its keeper wants to know of
    the time when it came; 0 at first."""

    amount: int = 0
    times: int = 0
    error: int = 0
    mark: int = 0

    @property
    def count(self) -> int:
        """What was noted of it in all, or more."""
        return self.amount + self.error


class Frequent:
    """Give it what is out of the ordinary alone: what is noted costs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._table: dict[Source, Weighed] = {}
        self._least: list[tuple[int, int, Source]] = []  # (count or less, when looked at, source)
        self._looks = 0
        self._is_exact = True

    def note(self, source: Source, amount: int = 1) -> Weighed:
        """What the table has of it now; `times` is 1 for one that has just come. `amount` is at
        least 1."""
        named = self._table.get(source)
        if named is None:
            named = self._newcomer(source, amount)
        named.amount += amount
        named.times += 1
        return named

    def _newcomer(self, source: Source, amount: int) -> Weighed:
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
        """Its source is the heap's first then; where several have it, the one longest without
        a look."""
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
        """One that is not in the table has nothing, and the error that this may have."""
        named = self._table.get(source)
        if named is None:
            named = Weighed(error=0 if self._is_exact else self._least_count())
        return named

    def worst(self, count: int) -> list[tuple[int, Source]]:
        """The `count` sources of which the most is certain, by `amount`, the most first."""
        return nlargest(count, ((named.amount, source) for source, named in self._table.items()))
