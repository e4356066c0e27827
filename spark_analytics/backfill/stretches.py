"""A recording read in stretches, side by side, as if it had been read from one end to the other.

What a line says depends on the lines before it in three ways alone: its number, the arrival clock,
which never goes back, and the largest `ts`, which replaces an arrival that is missing. So each
stretch is read by a `LineReader` that knows nothing of what came before and takes all that for
earlier than everything; it notes in a few words (`PieceStretch`) what the next ones have to know of
it. Put one behind the other in order (`begins`), these words say where each stretch begins
(`Beginning`), and that sets right what was read: numbers go on, and an arrival is at least that of
the lines before.

The rule, where A and L are arrival and largest ts before the stretch, and `at` is what was read in
it alone: the arrival of a line is the largest of `at`, A and, from the first line of the stretch on
that bears no arrival, L. Where nothing at all has come yet, a line that says no time arrives at 0.

Cost: one comparison or two a line; a `PieceStretch` is seven numbers and a flag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from topology.model.event import Event
from topology.model.outcome import Malformed
from topology.wire.checker import Reading
from topology.wire.line_reader import BEFORE_EVERYTHING_NS, Content, LineReader, Row

NEVER: Final = 1 << 62
"""In place of a line's number: there is none, or it comes behind all."""


class PieceStretch(NamedTuple):
    """`lines`: how many numbers it takes up. `first`: its first line that moves the arrival clock;
    `first_is_timed`: that one, or `ts` before it, says when. `bare_from`, `timed_from`: its first
    good line without an arrival, and with one. `arrival_ns`, `largest_ts_ns`: where its own clock
    ended; the largest ts is None where no line has one."""

    lines: int = 0
    first: int = NEVER
    first_is_timed: bool = False
    bare_from: int = NEVER
    arrival_ns: int = BEFORE_EVERYTHING_NS
    largest_ts_ns: int | None = None
    timed_from: int = NEVER


class Beginning(NamedTuple):
    """What precedes a stretch: `lines` of numbers, the arrival clock (None: nothing has moved
    it) and the largest ts. `bears_arrivals`: whether the first good line of all says when it
    arrived; None: none has come."""

    lines: int = 0
    arrival_ns: int | None = None
    largest_ts_ns: int | None = None
    bears_arrivals: bool | None = None

    def behind(self, stretch: PieceStretch) -> Beginning:
        """What precedes the next one."""
        arrival_ns = self.arrival_ns
        if stretch.first != NEVER:
            arrival_ns = self.arrival_of(stretch, stretch.arrival_ns, NEVER)
        largest_ns, own_ns = self.largest_ts_ns, stretch.largest_ts_ns
        if largest_ns is None or (own_ns is not None and own_ns > largest_ns):
            largest_ns = own_ns
        bears = self.bears_arrivals
        if bears is None and stretch.timed_from != stretch.bare_from:
            bears = stretch.timed_from < stretch.bare_from
        return Beginning(self.lines + stretch.lines, arrival_ns, largest_ns, bears)

    def arrival_of(self, stretch: PieceStretch, at_ns: int, number: int) -> int:
        """When a line of the stretch arrives that was read as arriving at `at_ns`; NEVER means
        the number of its last line."""
        before_ns, largest_ns = self.arrival_ns, self.largest_ts_ns
        if before_ns is not None:
            at_ns = max(at_ns, before_ns)
        elif number >= stretch.first and not stretch.first_is_timed:
            at_ns = max(at_ns, 0)
        if largest_ns is not None and number >= stretch.bare_from != NEVER:
            at_ns = max(at_ns, largest_ns)
        return at_ns


def begins(stretches: Iterable[PieceStretch], beginning: Beginning) -> list[Beginning]:
    """What precedes each of them and, last, what follows all."""
    found = [beginning]
    for stretch in stretches:
        found.append(found[-1].behind(stretch))
    return found


class StretchReader:
    """A `LineReader` for one stretch; numbers of its rows count from 1."""

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
        """In words, after so many lines."""
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
