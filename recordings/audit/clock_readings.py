"""Readings of one machine's clock, kept by stretches of time.

A reading is `ts` less what it is compared with: its arrival, where that is known; else the middle
of the newest stamps of the others, when its line comes. No event arrives before it happens, and
late ones lie below the others, so of a stretch the largest reading counts.

Memory: `MAX_STRETCHES` for a machine; then two become one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

MAX_STRETCHES: Final = 64
FIRST_WIDTH_NS: Final = 1 << 30
"""About a second; widths double."""


class Stretch(NamedTuple):
    """`at_ns` is its middle, `reading_ns` what counts of it, `readings` how many there were."""

    at_ns: int
    reading_ns: int
    readings: int = 1


class ClockReadings:
    """The readings of one machine."""

    __slots__ = ("_of", "_width_ns")

    def __init__(self) -> None:
        self._width_ns = FIRST_WIDTH_NS
        self._of: dict[int, tuple[int, int]] = {}
        """By number of the stretch: the largest, and how many."""

    def note(self, at_ns: int, reading_ns: int) -> None:
        number = at_ns // self._width_ns
        known = self._of.get(number)
        if known is None:
            self._of[number] = (reading_ns, 1)
            while len(self._of) > MAX_STRETCHES:
                self._widen()
        else:
            self._of[number] = (max(known[0], reading_ns), known[1] + 1)

    def _widen(self) -> None:
        self._width_ns *= 2
        wide: dict[int, tuple[int, int]] = {}
        for number, (reading_ns, count) in self._of.items():
            other_ns, others = wide.get(number // 2, (reading_ns, 0))
            wide[number // 2] = (max(other_ns, reading_ns), others + count)
        self._of = wide

    @property
    def width_ns(self) -> int:
        """The width of a stretch."""
        return self._width_ns

    def stretches(self, width_ns: int) -> list[Stretch]:
        """In the order of time; `width_ns` is the width, or a wider one."""
        while self._width_ns < width_ns:
            self._widen()
        half_ns = self._width_ns // 2
        return [
            Stretch(number * self._width_ns + half_ns, reading_ns, count)
            for number, (reading_ns, count) in sorted(self._of.items())
        ]


class NewestStamps:
    """The newest stamp of each machine, to compare one with the middle of the others.

    Cost: O(log machines), and what a list moves.
    """

    __slots__ = ("_newest", "_sorted")

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._sorted: list[int] = []

    def note(self, machine: int, ts_ns: int) -> int | None:
        """The middle of the others' newest stamps; None where there are no others."""
        rising = self._sorted
        before_ns = self._newest.get(machine)
        if before_ns is not None:
            del rising[bisect_left(rising, before_ns)]
        middle_ns = nearer_middle(rising, ts_ns) if rising else None
        newest_ns = ts_ns if before_ns is None else max(before_ns, ts_ns)
        insort(rising, newest_ns)
        self._newest[machine] = newest_ns
        return middle_ns


def middle_of(rising: list[int]) -> int | None:
    """The median; of an even number the mean of the two."""
    if not rising:
        return None
    half = len(rising) // 2
    if len(rising) % 2:
        return rising[half]
    return (rising[half - 1] + rising[half]) // 2


def nearer_middle(rising: list[int], to: int) -> int:
    """The median; of an even number the one of the two that is nearer."""
    half = len(rising) // 2
    upper = rising[half]
    if len(rising) % 2:
        return upper
    lower = rising[half - 1]
    return lower if abs(to - lower) <= abs(upper - to) else upper
