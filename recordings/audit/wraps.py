"""Guess the width of wrapping counters in bits, from the numbers of all sources.

A counter of k bits falls from near 2^k - 1 to near 0 again and again, and never exceeds 2^k - 1. A
fall ends in the first `NEAR_ZERO` of `PARTS` equal parts of the range. The next fall counts only
after a number from the middle. A fall is a wrap if it begins in the last part. Otherwise it is a
restart, which may begin anywhere.

A width applies if two conditions hold. Its sources have at least `RECURS` more wraps than restarts,
and they have sent 2^k - 1 for at least half of the wraps. Counters that happen to restart near the
top seldom reach 2^k - 1. The width applies to each of these sources with more wraps than restarts.
It applies to the whole stream if it is the largest width and the only one that applies. Then no
source of this width may have at least `RECURS` more restarts than wraps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

WIDTHS: Final = (8, 16, 32)
NEVER: Final = 63
"""The bits of a counter that does not wrap, as in `reorder.seq_bits`."""

PARTS: Final = 64
NEAR_ZERO: Final = 4
RECURS: Final = 2
"""The smallest difference of two counts that is not attributed to chance."""


class Falls:
    """Counts of how often the numbers of one source fell to near 0, and from where.

    Attributes:
        bits: The smallest of `WIDTHS` that fits all its numbers.
        count: The falls from near the largest number of that width, which are wraps.
        others: The falls from below, which are restarts.
        tops: How often the largest number itself was seen.
        height: The state of the source: 3 at the beginning, 2 after the middle of the range,
            1 near its top, 0 after a fall.
    """

    __slots__ = ("bits", "count", "height", "others", "tops")

    def __init__(self) -> None:
        self.bits, self.height = WIDTHS[0], 3
        self.count = self.others = self.tops = 0

    def note(self, number: int) -> None:
        """Count the next number of the source."""
        if number >> self.bits:
            self.bits = next((bits for bits in WIDTHS if not number >> bits), NEVER)
            self.count, self.others, self.tops, self.height = 0, 0, 0, 3
        self.tops += (number + 1) >> self.bits
        part = number * PARTS >> self.bits
        if part < NEAR_ZERO and self.height:
            self.count += self.height == 1
            self.others += self.height == 2
            self.height = 0
        elif part == PARTS - 1 and self.height:
            self.height = 1
        elif PARTS // 4 <= part < PARTS - PARTS // 4:
            self.height = 2


class Wraps(NamedTuple):
    """How the sequence numbers of a stream's sources wrap.

    Attributes:
        bits: The numbers of all sources wrap at 2 ** `bits`. None if not all numbers fit one
            width, or some sources restart more often.
        by_source: The bits at which the numbers of single sources wrap, if they were guessed.
    """

    bits: int | None = None
    by_source: Mapping[str, int] = {}

    def bits_of(self, source: str) -> int:
        """Return the width of a source's numbers in bits, or NEVER if they do not wrap."""
        return self.bits or self.by_source.get(source, NEVER)

    def modulus(self, source: str) -> int:
        """Return the modulus of a source's numbers; if they do not wrap, it exceeds all of them."""
        bits = self.bits_of(source)
        return 1 << (bits if bits < NEVER else 2 * NEVER)


def guessed_wraps(seen: Mapping[str, Falls]) -> Wraps | None:
    """Return the wraps of the sources' numbers, or None if no numbers wrap."""
    more, reached = Counter[int](), Counter[int]()
    for each in seen.values():
        more[each.bits] += each.count - each.others
        reached[each.bits] += 2 * each.tops - each.count
    widths = {bits for bits in WIDTHS if more[bits] >= RECURS and reached[bits] >= 0}
    wrap = {n: e.bits for n, e in seen.items() if e.bits in widths and e.count > e.others}
    widest = max((each.bits for each in seen.values()), default=NEVER)
    restart = any(e.bits == widest and e.others >= e.count + RECURS for e in seen.values())
    return Wraps(widest if widths == {widest} and not restart else None, wrap) if wrap else None
