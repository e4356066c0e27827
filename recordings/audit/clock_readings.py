"""Store the readings of one source's clock, by stretches of time.

A reading is `ts` minus a reference. The reference is the arrival, if that is known. Otherwise it is
the middle of the newest timestamps of the other sources at that line. No event arrives before it
happens, and late events read lower. So the largest reading of a stretch counts.

Memory: `MAX_STRETCHES` for a source; beyond that, each two become one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

MAX_STRETCHES: Final = 64
FIRST_WIDTH_NS: Final = 1 << 30
"""The first width of a stretch, about a second; widths double."""


class Stretch(NamedTuple):
    """A stretch of time with readings.

    Attributes:
        at_ns: The middle of the stretch.
        reading_ns: The largest reading, which counts.
        readings: The number of readings.
    """

    at_ns: int
    reading_ns: int
    readings: int = 1


class ClockReadings:
    """The readings of one source's clock."""

    __slots__ = ("_of", "_width_ns")

    def __init__(self) -> None:
        self._width_ns = FIRST_WIDTH_NS
        self._of: dict[int, tuple[int, int]] = {}
        """The largest reading and the number of readings, by the stretch's number."""

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
        """Return the stretches in the order of time; `width_ns` is their width, or a larger one."""
        while self._width_ns < width_ns:
            self._widen()
        half_ns = self._width_ns // 2
        return [
            Stretch(number * self._width_ns + half_ns, reading_ns, count)
            for number, (reading_ns, count) in sorted(self._of.items())
        ]


class NewestStamps:
    """The newest timestamp of each source, to compare one with the middle of the others.

    Cost: O(log sources), and the moves in a list.
    """

    __slots__ = ("_newest", "_sorted")

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._sorted: list[int] = []

    def note(self, machine: int, ts_ns: int) -> int | None:
        """Record a timestamp, and return the middle of the others' newest; None without others."""
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
    """Return the median, which is the mean of the two middle ones of an even number."""
    if not rising:
        return None
    half = len(rising) // 2
    if len(rising) % 2:
        return rising[half]
    return (rising[half - 1] + rising[half]) // 2


def nearer_middle(rising: list[int], to: int) -> int:
    """Return the median; of the two middle ones of an even number, the one nearer to `to`."""
    half = len(rising) // 2
    upper = rising[half]
    if len(rising) % 2:
        return upper
    lower = rising[half - 1]
    return lower if abs(to - lower) <= abs(upper - to) else upper
