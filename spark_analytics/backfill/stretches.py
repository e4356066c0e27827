"""Read a recording in stretches, in parallel, with the same result as reading it sequentially.

The content of a line depends on the lines before it in three ways only. These are its number, the
arrival clock, which never goes back, and the largest `ts`, which replaces a missing arrival. Each
stretch is therefore read by a `LineReader` that treats the unknown values as earlier than
everything. It summarizes the values that later stretches need in a `PieceStretch`. Combined in
order (`begins`), these give the values at the start of each stretch (`Beginning`). With these the
lines are corrected: numbers continue, and an arrival is at least that of the lines before.

Let A be the arrival clock before the stretch, and L the largest `ts` before it. Let `at` be the
arrival of a line as read in the stretch alone. Then the line's arrival is the largest of `at`, A
and L. L counts only from the stretch's first line without an arrival on. If nothing precedes the
stretch, a line without any time arrives at 0.

The cost is one or two comparisons per line. A `PieceStretch` is six numbers and a flag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.line_reader import BEFORE_EVERYTHING_NS, Content, LineReader, Row

NEVER: Final = 1 << 62
"""The number of a line that does not exist; it is larger than that of any line."""


class PieceStretch(NamedTuple):
    """The values of one stretch that later stretches need.

    Attributes:
        lines: The number of its lines.
        first: The number of its first line that moves the arrival clock.
        first_is_timed: Whether the arrival of that line is known, by an arrival or a `ts` up to it.
        bare_from: The number of its first good line without an arrival.
        arrival_ns: The arrival clock after the last line, if the clock starts with the stretch.
        largest_ts_ns: The largest `ts`; None if no line has one.
        timed_from: The number of its first good line with an arrival.
    """

    lines: int = 0
    first: int = NEVER
    first_is_timed: bool = False
    bare_from: int = NEVER
    arrival_ns: int = BEFORE_EVERYTHING_NS
    largest_ts_ns: int | None = None
    timed_from: int = NEVER


class Beginning(NamedTuple):
    """The values at the start of a stretch.

    Attributes:
        lines: The number of earlier lines.
        arrival_ns: The time of the arrival clock; None if no line has moved it.
        largest_ts_ns: The largest `ts` of the earlier lines; None if none has one.
        bears_arrivals: Whether the first good line of all has an arrival; None if there is none.
    """

    lines: int = 0
    arrival_ns: int | None = None
    largest_ts_ns: int | None = None
    bears_arrivals: bool | None = None

    def behind(self, stretch: PieceStretch) -> Beginning:
        """Return the values at the end of `stretch`, which begins with these values."""
        arrival_ns = self.arrival_ns
        if stretch.first != NEVER:
            arrival_ns = self.arrival_of(stretch, stretch.arrival_ns, NEVER)
        largest_ns, own_ns = self.largest_ts_ns, stretch.largest_ts_ns
        if largest_ns is None or (own_ns is not None and own_ns > largest_ns):
            largest_ns = own_ns
        has_arrivals = self.bears_arrivals
        if has_arrivals is None and stretch.timed_from != stretch.bare_from:
            has_arrivals = stretch.timed_from < stretch.bare_from
        return Beginning(self.lines + stretch.lines, arrival_ns, largest_ns, has_arrivals)

    def arrival_of(self, stretch: PieceStretch, at_ns: int, number: int) -> int:
        """Return the arrival of a line whose arrival in the stretch alone is `at_ns`.

        A `number` of NEVER means the stretch's last line.
        """
        before_ns, largest_ns = self.arrival_ns, self.largest_ts_ns
        if before_ns is not None:
            at_ns = max(at_ns, before_ns)
        elif number >= stretch.first and not stretch.first_is_timed:
            at_ns = max(at_ns, 0)
        if largest_ns is not None and number >= stretch.bare_from != NEVER:
            at_ns = max(at_ns, largest_ns)
        return at_ns


def begins(stretches: Iterable[PieceStretch], beginning: Beginning) -> list[Beginning]:
    """Return the values at the start of each stretch, and after the last one."""
    found = [beginning]
    for stretch in stretches:
        found.append(found[-1].behind(stretch))
    return found


class StretchReader:
    """A `LineReader` for one stretch, whose rows are numbered from 1."""

    def __init__(self, reading: Reading) -> None:
        self._reader = LineReader(reading, BEFORE_EVERYTHING_NS)
        self._first = NEVER
        self._first_is_timed = False
        self._bare_from = self._timed_from = NEVER

    def read(self, row: Row) -> Content:
        content = self._reader.read(row)
        if isinstance(content, Event):
            if row.values.get("arrival") is None:
                self._bare_from = min(self._bare_from, row.number)
            elif self._timed_from == NEVER:
                self._timed_from = row.number
            if self._first == NEVER:
                self._begin(row.number, content.arrival_ns)
        elif self._first == NEVER and isinstance(content, Malformed):
            self._begin(row.number, content.at_ns)
        return content

    def _begin(self, number: int, at_ns: int) -> None:
        self._first = number
        self._first_is_timed = at_ns != BEFORE_EVERYTHING_NS

    def ended(self, lines: int) -> PieceStretch:
        """Return the summary of the stretch after its last row; `lines` is its number of lines."""
        arrival_ns = self._reader.arrival_ns
        return PieceStretch(
            lines,
            self._first,
            self._first_is_timed,
            self._bare_from,
            BEFORE_EVERYTHING_NS if arrival_ns is None else arrival_ns,
            self._reader.largest_ts_ns,
            self._timed_from,
        )
