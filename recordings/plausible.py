"""Check whether the times of recorded lines are plausible in the unit in which they are read.

A wrong unit raises no error. If it is wrong by a factor of a thousand, all times are within minutes
of 1970. Waits of milliseconds are then waits of hours, and a join of 100 ms matches everything. So
the first `SAMPLE` event lines, valid or not, are checked, and warnings follow at once. There are
two signs of a wrong unit:

* year: `ts` in the stream's unit is before 2000 or more than a year ahead, and in another unit it
  is not. This must be so in nearly all lines with `ts`. Made-up times that begin at 0 are plausible
  in no unit, and are accepted. The same is checked for `arrival`, whose unit is always ns.
* rate: `ts` advances about a thousand, million or billion times slower than `arrival`.

Lines whose times are floating point numbers are dead letters, but their unit is recognized. Nothing
is refused or converted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from inorder.contract import MAX_INT64, UNIT_NS
from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.line_reader import Content

SAMPLE: Final = 1_000
"""The number of event lines that are checked."""

NEARLY_ALL: Final = 0.9
FEWEST_FOR_RATE: Final = 100
NEAR: Final = 3.0
"""The largest factor by which a ratio of two rates may differ from a power of a thousand."""

YEAR_NS: Final = 31_556_952 * 10**9
OLDEST_NS: Final = 30 * YEAR_NS
"""The beginning of the year 2000."""

UNIT_WORDS: Final = {
    "ns": "nanoseconds",
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
}


@dataclass(slots=True)
class _Seen:
    """Counts of one stream's lines.

    Attributes:
        ts: The number of lines with `ts`.
        as_it_is: The number of lines whose `ts` is plausible in the stream's unit.
        in_unit: The number of lines whose `ts` is plausible in another unit, by unit.
        arrivals: The number of lines with `arrival`.
        arrivals_as_they_are: The number of lines whose `arrival` is plausible in ns.
        arrivals_in_unit: The number of lines whose `arrival` is plausible in another unit, by unit.
        both: The number of lines with both `ts` and `arrival`.
        low: The smallest `ts` and the smallest `arrival` of lines with both.
        high: The largest `ts` and the largest `arrival` of lines with both.
    """

    ts: int = 0
    as_it_is: int = 0
    in_unit: Counter[str] = field(default_factory=Counter)
    arrivals: int = 0
    arrivals_as_they_are: int = 0
    arrivals_in_unit: Counter[str] = field(default_factory=Counter)
    both: int = 0
    low: tuple[float, float] = (0.0, 0.0)
    high: tuple[float, float] = (0.0, 0.0)


class Plausibility:
    """A check of the times of event lines.

    Args:
        reading: How the lines are read.
        now_ns: The current time. Times more than a year after it are not plausible.
        option: The option that sets the unit in place of the topology file, for warnings.
    """

    def __init__(self, reading: Reading, now_ns: int, option: str = "") -> None:
        self._option = option
        self._reading = reading
        self._newest_ns = now_ns + YEAR_NS
        self._seen: dict[str, _Seen] = {}

    def look(self, content: Content) -> bool:
        """Count a line, and return whether it is an event line."""
        if not isinstance(content, Event | Malformed) or not isinstance(content.record, dict):
            return False
        values = content.record
        stream = values.get("stream") or self._reading.unnamed
        seen = self._seen.setdefault(stream if isinstance(stream, str) else "", _Seen())
        ts, arrival = _amount(values.get("ts")), _amount(values.get("arrival"))
        if ts is not None:
            seen.ts += 1
            self._count(ts, self._unit(stream), seen.in_unit)
            seen.as_it_is += self._is_likely(ts * UNIT_NS[self._unit(stream)])
        if arrival is not None:
            seen.arrivals += 1
            self._count(arrival, "ns", seen.arrivals_in_unit)
            seen.arrivals_as_they_are += self._is_likely(arrival)
        if ts is not None and arrival is not None:
            seen.low = (ts, arrival) if not seen.both else _least(seen.low, ts, arrival)
            seen.high = (ts, arrival) if not seen.both else _most(seen.high, ts, arrival)
            seen.both += 1
        return True

    def warnings(self) -> list[str]:
        """Return a warning for each suspicious time, with the remedy."""
        return [word for stream, seen in self._seen.items() for word in self._words(stream, seen)]

    def units(self) -> dict[str, str]:
        """Return the likely unit of each stream whose `ts` seems to have another unit."""
        likely = {stream: self._likely_unit(stream, seen) for stream, seen in self._seen.items()}
        return {stream: unit for stream, unit in likely.items() if unit is not None}

    def _likely_unit(self, stream: str, seen: _Seen) -> str | None:
        likely = _likely(seen.ts, seen.as_it_is, seen.in_unit)
        if likely is None and not seen.as_it_is:
            likely = self._by_rate(self._unit(stream), seen)
        return likely

    def _words(self, stream: str, seen: _Seen) -> Iterator[str]:
        unit = self._unit(stream)
        likely = self._likely_unit(stream, seen)
        if likely is not None:
            remedy = f"streams: {{{stream}: {{headers: {{ts_unit: {likely}}}}}}}"
            remedy = f"{self._option} {likely}" if self._option else remedy
            yield (
                f"`ts` of stream `{stream}` looks like {UNIT_WORDS[likely]} and is read as"
                f" {UNIT_WORDS[unit]}: write {remedy}"
            )
        arrival = _likely(seen.arrivals, seen.arrivals_as_they_are, seen.arrivals_in_unit)
        if arrival is not None:
            yield (
                f"`arrival` looks like {UNIT_WORDS[arrival]} and is always nanoseconds: write it"
                f" times {UNIT_NS[arrival]:,}, or leave it out"
            )

    def _by_rate(self, unit: str, seen: _Seen) -> str | None:
        """Return the unit in which `ts` would advance as fast as `arrival`, or None."""
        if seen.both < FEWEST_FOR_RATE:
            return None
        run_ns = (seen.high[0] - seen.low[0]) * UNIT_NS[unit]
        arrived_ns = seen.high[1] - seen.low[1]
        if run_ns <= 0 or arrived_ns <= 0:
            return None
        for other, unit_ns in UNIT_NS.items():
            ratio = arrived_ns / run_ns / (unit_ns / UNIT_NS[unit])
            if other != unit and 1 / NEAR < ratio < NEAR:
                return other
        return None

    def _unit(self, stream: Any) -> str:
        unit_ns = self._reading.units_ns.get(stream, 1) if isinstance(stream, str) else 1
        return next(unit for unit, each_ns in UNIT_NS.items() if each_ns == unit_ns)

    def _count(self, amount: float, own: str, in_unit: Counter[str]) -> None:
        for unit, unit_ns in UNIT_NS.items():
            in_unit[unit] += unit != own and self._is_likely(amount * unit_ns)

    def _is_likely(self, time_ns: float) -> bool:
        return OLDEST_NS <= time_ns <= self._newest_ns


def watched(
    lines: Iterable[Content], plausibility: Plausibility, warn: Callable[[str], None]
) -> Iterator[Content]:
    """Yield the lines unchanged, and call `warn` with each warning about the first `SAMPLE`."""
    lines = iter(lines)
    count = 0
    for line in lines:
        count += plausibility.look(line)
        if count >= SAMPLE:
            break
        yield line
    for warning in plausibility.warnings():
        warn(warning)
    if count >= SAMPLE:
        yield line
        yield from lines


def _amount(value: Any) -> int | float | None:
    if type(value) is not int and type(value) is not float:
        return None
    return value if abs(value) <= MAX_INT64 else None


def _likely(count: int, as_it_is: int, in_unit: Counter[str]) -> str | None:
    """Return another unit that makes nearly all times plausible, or None.

    The result is None if more than a few times are plausible in the unit in which they are read.
    """
    if not count or as_it_is > (1 - NEARLY_ALL) * count:
        return None
    unit, likely = in_unit.most_common(1)[0]
    return unit if likely >= NEARLY_ALL * count else None


def _least(low: tuple[float, float], ts: float, arrival: float) -> tuple[float, float]:
    return min(low[0], ts), min(low[1], arrival)


def _most(high: tuple[float, float], ts: float, arrival: float) -> tuple[float, float]:
    return max(high[0], ts), max(high[1], arrival)
