"""Where numbers wrap: how many bits a counter has, guessed from the numbers of all sources.

A counter of k bits falls from near 2^k - 1 to near 0 again and again, and never goes beyond. A
restart falls from anywhere: so a fall counts that begins in the last of `PARTS` of the range and
ends in the first `NEAR_ZERO` of them, and the next one only after the middle of the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

WIDTHS: Final = (8, 16, 32)
NEVER: Final = 63
"""Bits of a counter that does not wrap, as of `reorder.seq_bits`."""

PARTS: Final = 64
NEAR_ZERO: Final = 4
RECURS: Final = 2
"""So many falls of all sources together are no chance."""


class Falls:
    """The falls of one source's numbers. `bits`: the smallest of `WIDTHS` that all of them fit;
    `height`: 2 after the middle of the range, 1 near its top after that, else 0."""

    __slots__ = ("bits", "count", "height")

    def __init__(self) -> None:
        self.bits, self.count, self.height = WIDTHS[0], 0, 2

    def note(self, number: int) -> None:
        """Count the number, the next one of its source."""
        if number >> self.bits:
            self.bits = next((bits for bits in WIDTHS if not number >> bits), NEVER)
            self.count, self.height = 0, 2
        part = number * PARTS >> self.bits
        if part < NEAR_ZERO and self.height == 1:
            self.count, self.height = self.count + 1, 0
        elif part == PARTS - 1 and self.height:
            self.height = 1
        elif PARTS // 4 <= part < PARTS - PARTS // 4:
            self.height = 2


class Wraps(NamedTuple):
    """Numbers wrap at 2 ** `bits` in all sources of the stream; None where not all numbers fit one
    width. `by_source`: the bits of the sources whose numbers fall, where they are guessed."""

    bits: int | None = None
    by_source: Mapping[str, int] = {}

    def modulus(self, source: str) -> int:
        """Return the number at which those of the source begin again; it is beyond all where they
        do not."""
        bits = self.bits or self.by_source.get(source, NEVER)
        return 1 << (bits if bits < NEVER else 2 * NEVER)


def guessed_wraps(seen: Mapping[str, Falls]) -> Wraps | None:
    """Return where the numbers of sources wrap; None where none do."""
    falls: Counter[int] = Counter()
    for each in seen.values():
        falls[each.bits] += each.count
    widths = {bits for bits in WIDTHS if falls[bits] >= RECURS}
    wrap = {name: each.bits for name, each in seen.items() if each.count and each.bits in widths}
    widest = max((each.bits for each in seen.values()), default=NEVER)
    return Wraps(widest if widths == {widest} else None, wrap) if wrap else None
