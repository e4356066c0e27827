"""Store the readings of one source's clock, by stretches of time.

A reading is `ts` minus the arrival. A late event has a smaller reading, and no delay makes a
reading larger. So only the largest reading of a stretch is used.

Memory: at most `MAX_STRETCHES` for a source; if there are more, neighbours are merged in pairs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_STRETCHES: Final = 64
FIRST_WIDTH_NS: Final = 1 << 30
"""The first width of a stretch, about a second; a stretch is widened by doubling it."""


class ReadingSpan(NamedTuple):
    """A stretch of time with readings.

    Attributes:
        at_ns: The middle of the stretch.
        reading_ns: The largest reading.
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
        """The largest reading and the number of readings of each stretch, by the stretch's number.
        """

    def note(self, at_ns: int, reading_ns: int) -> None:
        number = at_ns // self._width_ns
        known = self._of.get(number)
        if known is None:
            self._of[number] = (reading_ns, 1)
            while len(self._of) > MAX_STRETCHES:
                self._widen()
        else:
            self._of[number] = (max(known[0], reading_ns), known[1] + 1)

    def put(self, width_ns: int, of: dict[int, tuple[int, int]]) -> None:
        """Put the largest reading and the number of readings of each stretch, by its number."""
        self._width_ns, self._of = width_ns, of

    def _widen(self) -> None:
        self._width_ns *= 2
        wide: dict[int, tuple[int, int]] = {}
        for number, (reading_ns, count) in self._of.items():
            other_ns, others = wide.get(number // 2, (reading_ns, 0))
            wide[number // 2] = (max(other_ns, reading_ns), others + count)
        self._of = wide

    @property
    def width_ns(self) -> int:
        """The width of a stretch in nanoseconds."""
        return self._width_ns

    def stretches(self, width_ns: int) -> list[ReadingSpan]:
        """Return the stretches in order of time, after widening them to at least `width_ns`."""
        while self._width_ns < width_ns:
            self._widen()
        half_ns = self._width_ns // 2
        return [
            ReadingSpan(number * self._width_ns + half_ns, reading_ns, count)
            for number, (reading_ns, count) in sorted(self._of.items())
        ]


def median_of(rising: list[int]) -> int | None:
    """Return the median of ascending values: of an even number, the mean of the middle two.

    The result is None if there are no values.
    """
    if not rising:
        return None
    half = len(rising) // 2
    if len(rising) % 2:
        return rising[half]
    return (rising[half - 1] + rising[half]) // 2


def nearer_median(rising: list[int], to: int) -> int:
    """Return the median of ascending values; of an even number, the middle one nearer to `to`."""
    half = len(rising) // 2
    upper = rising[half]
    if len(rising) % 2:
        return upper
    lower = rising[half - 1]
    return lower if abs(to - lower) <= abs(upper - to) else upper
