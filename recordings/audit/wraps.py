"""Guess the ranges of wrapping counters from the numbers of all sources.

A counter of a range falls from near its last number to near its first one again and again, and
never exceeds the last one. `LASTS` are the last numbers that are tried. A fall ends in the first
`NEAR_ZERO` of `PARTS` equal parts of the range. The next fall counts only after a number from the
middle. A fall is a wrap if it begins in the last part. Otherwise it is a restart, which may begin
anywhere.

A last number applies if its sources have more wraps than restarts, and one of two conditions holds:

* There are at least `RECURS` more, and the sources have sent the last number itself for at least
  half of the wraps. Counters that happen to restart near the top seldom reach it.
* All their wraps are close: both ends are in a `CLOSE`th of the range. Only counters with at least
  as many numbers can have close wraps.

The range applies to each of these sources with more wraps than restarts. It applies to the whole
stream if its last number is the largest, and the only one that applies. Then no source of it may
have at least `RECURS` more restarts than wraps. The range begins with 1 if its sources never sent
0, but 1 for at least half of the wraps. If there was only one wrap, its last number must have come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from topology.order.reorder.settings import SeqRange

NEVER: Final = (1 << 63) - 1
"""The last number of a counter that does not wrap."""
_WIDTHS: Final = (7, 8, 10, 12, 14, 15, 16, 24, 31, 32)
LASTS: Final[tuple[int, ...]] = tuple(
    sorted(
        [*(2**bits - 1 for bits in _WIDTHS), *(10**digits - 1 for digits in range(2, 10)), NEVER]
    )
)

PARTS: Final = 64
NEAR_ZERO: Final = 4
CLOSE: Final = 1_024
RECURS: Final = 2
"""The smallest difference of two counts that is not attributed to chance."""


class Bounds(NamedTuple):
    """The bounds of the parts of a range that begins with 0.

    Attributes:
        low: The numbers below it are in the first parts.
        top: The numbers from it on are in the last part.
        middle: The numbers from it up to `last - middle` are in the middle.
        close: As many numbers at each end are close to it.
    """

    low: int
    top: int
    middle: int
    close: int


def bounds_of(last: int) -> Bounds:
    """Return the bounds of the parts of a range that ends with `last`."""
    part = (last + PARTS) // PARTS
    return Bounds(NEAR_ZERO * part, last + 1 - part, (last + 1) // 4, (last + 1) // CLOSE)


def smallest_last_for(largest: int) -> int:
    """Return the smallest of `LASTS` that is not below the largest number of a source."""
    return LASTS[min(bisect_left(LASTS, largest), len(LASTS) - 1)]


class Falls:
    """Counts of how often the numbers of one source fell to near 0, and from where.

    Attributes:
        last: The smallest of `LASTS` that fits all its numbers.
        count: The falls from near the last number, which are wraps.
        close: The wraps whose ends are close to those of the range.
        others: The falls from below, which are restarts.
        tops: How often the last number itself was seen.
        ones: How often 1 was seen.
        zeros: How often 0 was seen, also before `last` was known.
        height: The state of the source: 3 at the beginning, 2 after the middle of the range,
            1 near its top, 0 after a fall.
    """

    __slots__ = (
        *("_bounds", "_high", "close", "count", "height", "last", "ones", "others", "tops"),
        "zeros",
    )

    def __init__(self) -> None:
        self.zeros = 0
        self.begin(LASTS[0])

    def begin(self, last: int) -> None:
        """Begin to count anew, with this last number."""
        self.last, self._bounds, self._high = last, bounds_of(last), 0
        self.count = self.close = self.others = self.tops = self.ones = 0
        self.height = 3

    def note(self, number: int) -> None:
        """Count the next number of the source."""
        if number > self.last:
            self.begin(smallest_last_for(number))
        low, top, middle, close = self._bounds
        last = self.last
        self.zeros += number == 0
        self.ones += number == 1
        self.tops += number == last
        if number < low and self.height:
            if self.height == 1:
                self.count += 1
                self.close += number < close and last - self._high < close
            self.others += self.height == 2
            self.height = 0
        elif number >= top and self.height:
            self._high = max(number, self._high) if self.height == 1 else number
            self.height = 1
        elif middle <= number <= last - middle:
            self.height = 2


class Wraps(NamedTuple):
    """How the sequence numbers of a stream's sources wrap.

    Attributes:
        range: The range of the numbers of all sources. None if not all numbers fit one range, or
            some sources restart more often.
        by_source: The ranges of the numbers of single sources, if they were guessed.
    """

    range: SeqRange | None = None
    by_source: Mapping[str, SeqRange] = {}

    def range_of(self, source: str) -> SeqRange | None:
        """Return the range of a source's numbers, or None if they do not wrap."""
        return self.range or self.by_source.get(source)

    def modulus(self, source: str) -> int:
        """Return the modulus of a source's numbers; if they do not wrap, it exceeds all of them."""
        of_source = self.range_of(source)
        return 1 << 126 if of_source is None else of_source.modulus


def guess_wraps(seen: Mapping[str, Falls]) -> Wraps | None:
    """Return the wraps of the sources' numbers, or None if no numbers wrap."""
    of: dict[int, Counter[str]] = {}
    for each in seen.values():
        counts = of.setdefault(each.last, Counter())
        for name in ("count", "close", "others", "tops", "ones", "zeros"):
            counts[name] += getattr(each, name)
    ranges = {
        last: SeqRange(_first(found), last)
        for last, found in of.items()
        if last != NEVER and _is_wrapping(found)
    }
    wrap = {n: ranges[e.last] for n, e in seen.items() if e.last in ranges and e.count > e.others}
    widest = max(of, default=NEVER)
    restart = any(e.last == widest and e.others >= e.count + RECURS for e in seen.values())
    whole = ranges[widest] if ranges.keys() == {widest} and not restart else None
    return Wraps(whole, wrap) if wrap else None


def _is_wrapping(found: Counter[str]) -> bool:
    more = found["count"] - found["others"]
    is_reached = more >= RECURS and 2 * found["tops"] >= found["count"]
    return is_reached or (more > 0 and found["close"] == found["count"])


def _first(found: Counter[str]) -> int:
    skips = not found["zeros"] and 2 * found["ones"] >= found["count"]
    return int(skips and (found["count"] >= RECURS or found["tops"] > 0))
