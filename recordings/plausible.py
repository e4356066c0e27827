"""Check whether the times of recorded lines are plausible in the unit in which they are read.

A wrong unit raises no error. If it is wrong by a factor of a thousand, all times are within minutes
of 1970. Waits of milliseconds are then waits of hours, and a join of 100 ms matches everything. So
the first `SAMPLE` event lines, valid or not, are checked, and warnings follow at once. There are
two signs of a wrong unit:

* year: `ts` in the stream's unit is before 2000 or more than a year ahead, and in another unit it
  is not. This must be so in nearly all lines with `ts`. Made-up times that begin at 0 are plausible
  in no unit, and are accepted. The same is checked for `arrival`.
* rate: `ts` advances about a thousand, million or billion times slower than `arrival`.

A mapping has converted the times of its rows to ns. They are judged as the numbers that the file
holds, in the unit of the mapping (`AsRead`). The unit of `arrival` in inorder's own form is ns.

Lines whose times are floating point numbers are dead letters, but their unit is recognized. Nothing
is refused or converted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from inorder.contract import DEFAULT_STREAM, MAX_INT64, UNIT_NS, TimeUnit
from recordings.audit.row import AuditRow
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.records.checker import Reading
from topology.records.line_reader import Content

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


_UNITS: Final[dict[int, TimeUnit]] = {1: "ns", 1_000: "us", 1_000_000: "ms", 1_000_000_000: "s"}

Line = TypeVar("Line", bound=Content | AuditRow)


@dataclass(frozen=True, slots=True)
class AsRead:
    """How times were read, and how a warning tells people to set another unit.

    Attributes:
        reading: How the lines are read.
        mapped: The unit of the numbers that a mapping has converted to ns; None for lines in
            inorder's own form.
        option: Whether `--ts-unit` sets that unit, and not the topology file.
    """

    reading: Reading
    mapped: TimeUnit | None = None
    option: bool = False

    def unit_of(self, stream: Any) -> TimeUnit:
        """Return the unit in which the stream's times are read."""
        if self.mapped is not None:
            return self.mapped
        unit_ns = self.reading.units_ns.get(stream, 1) if isinstance(stream, str) else 1
        return _UNITS[unit_ns]

    def remedy(self, stream: str, unit: str) -> str:
        """Return what sets this unit: an option, or a part of the topology file."""
        if self.option:
            return f"--ts-unit {unit}"
        key = f"ts_unit: {unit}" if self.mapped else f"headers: {{ts_unit: {unit}}}"
        return f"streams: {{{stream or DEFAULT_STREAM}: {{{key}}}}}"


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
        as_read: How the times were read.
        now_ns: The current time. Times more than a year after it are not plausible.
    """

    def __init__(self, as_read: AsRead, now_ns: int) -> None:
        self._as_read = as_read
        self._newest_ns = now_ns + YEAR_NS
        self._seen: dict[str, _Seen] = {}

    def count_line(self, content: Content | AuditRow) -> bool:
        """Count a line, and return whether it is an event line."""
        if isinstance(content, AuditRow):
            self.count(DEFAULT_STREAM, content.ts_ns, content.arrival_ns)
            return True
        if not isinstance(content, Event | Malformed) or not isinstance(content.record, dict):
            return False
        values = content.record
        stream = values.get("stream") or self._as_read.reading.unnamed
        stream = stream if isinstance(stream, str) else ""
        self.count(stream, values.get("ts"), values.get("arrival"))
        return True

    def count(self, stream: str, ts: object, arrival: object) -> None:
        """Count the times of a line; one that is not a number does not count."""
        seen = self._seen.setdefault(stream, _Seen())
        unit = self._as_read.unit_of(stream)
        of_arrival = self._as_read.mapped or "ns"
        ts_written, at_written = self._write(ts), self._write(arrival)
        if ts_written is not None:
            seen.ts += 1
            self._count(ts_written, unit, seen.in_unit)
            seen.as_it_is += self._is_likely(ts_written * UNIT_NS[unit])
        if at_written is not None:
            seen.arrivals += 1
            self._count(at_written, of_arrival, seen.arrivals_in_unit)
            seen.arrivals_as_they_are += self._is_likely(at_written * UNIT_NS[of_arrival])
        if ts_written is not None and at_written is not None:
            both = ts_written, at_written * UNIT_NS[of_arrival]
            seen.low = both if not seen.both else _least_of_both(seen.low, *both)
            seen.high = both if not seen.both else _most_of_both(seen.high, *both)
            seen.both += 1

    def _write(self, value: object) -> int | float | None:
        """Return the number as the input holds it; None if the value is not a number."""
        amount = _to_amount(value)
        mapped = self._as_read.mapped
        return amount if amount is None or mapped is None else amount / UNIT_NS[mapped]

    def warnings(self) -> list[str]:
        """Return a warning for each suspicious time, with the remedy."""
        return [
            word
            for stream, seen in self._seen.items()
            for word in self._make_warnings(stream, seen)
        ]

    def units(self) -> dict[str, str]:
        """Return the likely unit of each stream whose `ts` seems to have another unit."""
        likely = {stream: self._likely_unit(stream, seen) for stream, seen in self._seen.items()}
        return {stream: unit for stream, unit in likely.items() if unit is not None}

    def _likely_unit(self, stream: str, seen: _Seen) -> str | None:
        likely = _choose_unit(seen.ts, seen.as_it_is, seen.in_unit)
        if likely is None and not seen.as_it_is:
            likely = self._guess_unit_by_rate(self._as_read.unit_of(stream), seen)
        return likely

    def _make_warnings(self, stream: str, seen: _Seen) -> Iterator[str]:
        unit = self._as_read.unit_of(stream)
        likely = self._likely_unit(stream, seen)
        if likely is not None:
            named = "`--ts`" if self._as_read.option else f"`ts` of stream `{stream}`"
            yield (
                f"{named} looks like {UNIT_WORDS[likely]} and is read as {UNIT_WORDS[unit]}:"
                f" write {self._as_read.remedy(stream, likely)}"
            )
        arrival = _choose_unit(seen.arrivals, seen.arrivals_as_they_are, seen.arrivals_in_unit)
        if arrival is None:
            return
        if self._as_read.mapped is None:
            yield (
                f"`arrival` looks like {UNIT_WORDS[arrival]} and is always nanoseconds: write it"
                f" times {UNIT_NS[arrival]:,}, or leave it out"
            )
        elif arrival != likely:  # Otherwise the same unit mends both.
            yield (
                f"`arrival` looks like {UNIT_WORDS[arrival]} and is read as {UNIT_WORDS[unit]},"
                " the unit of both times: write both in one unit, or leave the arrival out"
            )

    def _guess_unit_by_rate(self, unit: str, seen: _Seen) -> str | None:
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

    def _count(self, amount: float, own: str, in_unit: Counter[str]) -> None:
        for unit, unit_ns in UNIT_NS.items():
            in_unit[unit] += unit != own and self._is_likely(amount * unit_ns)

    def _is_likely(self, time_ns: float) -> bool:
        return OLDEST_NS <= time_ns <= self._newest_ns


def warn_of_units(
    lines: Iterable[Line], plausibility: Plausibility, warn: Callable[[str], None]
) -> Iterator[Line]:
    """Yield the lines unchanged, and call `warn` with each warning about the first `SAMPLE`."""
    lines = iter(lines)
    count = 0
    for line in lines:
        count += plausibility.count_line(line)
        if count >= SAMPLE:
            break
        yield line
    for warning in plausibility.warnings():
        warn(warning)
    if count >= SAMPLE:
        yield line
        yield from lines


def _to_amount(value: Any) -> int | float | None:
    if type(value) is not int and type(value) is not float:
        return None
    return value if abs(value) <= MAX_INT64 else None


def _choose_unit(count: int, as_it_is: int, in_unit: Counter[str]) -> str | None:
    """Return another unit that makes nearly all times plausible, or None.

    The result is None if more than a few times are plausible in the unit in which they are read.
    """
    if not count or as_it_is > (1 - NEARLY_ALL) * count:
        return None
    unit, likely = in_unit.most_common(1)[0]
    return unit if likely >= NEARLY_ALL * count else None


def _least_of_both(low: tuple[float, float], ts: float, arrival: float) -> tuple[float, float]:
    return min(low[0], ts), min(low[1], arrival)


def _most_of_both(high: tuple[float, float], ts: float, arrival: float) -> tuple[float, float]:
    return max(high[0], ts), max(high[1], arrival)
