"""Read a recording in stretches, in parallel, with the same result as reading it sequentially.

The content of a line depends on the lines before it in three ways only. These are its number, the
arrival clock, which never goes back, and the timestamp that waits for another to confirm it
(`topology.base.stamp_clock`). Each stretch is therefore read by a `LineReader` that treats the
unknown values as earlier than everything. It summarizes the values that later stretches need in a
`PieceStretch`. Combined in order (`begins`), these give the values at the start of each stretch
(`Beginning`). With these the lines are corrected: numbers continue, and an arrival is at least that
of the lines before.

Both clocks of a stretch that is read alone are never ahead of the true ones. They are behind if an
earlier line is later, or if the true clock accepts a timestamp that the stretch doubts (`floors`).
So the arrival of a line is at least the clock before the stretch. From a line without an arrival
on, it is also at least each accepted timestamp. If nothing precedes the stretch, a line without any
time arrives at 0.

The cost is one or two comparisons per line. A `PieceStretch` is a few numbers, and two for each of
up to `MOST_DOUBTS` doubted timestamps. After these, a stretch that is still behind the clock before
it may get earlier arrivals than in one piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.base.stamp_clock import StampClock, UnconfirmedStamp
from topology.records.checker import Reading
from topology.records.line_reader import (
    BEFORE_EVERYTHING_NS,
    MAX_ARRIVAL_NS,
    Content,
    LineReader,
    Row,
)

NEVER: Final = 1 << 62
"""The number of a line that does not exist; it is larger than that of any line."""
MOST_DOUBTS: Final = 256

Floor = tuple[int, int]
"""The number of a line, and the least time of the clock from there on."""

Stamp = tuple[int, str]
"""The timestamp and the source of a line."""


class Head(NamedTuple):
    """A line that may confirm a stamp before the stretch.

    Attributes:
        number: The number of the line.
        since: The number of the first line without an arrival from it on.
        stamp: Its timestamp and source.
    """

    number: int
    since: int
    stamp: Stamp


class DoubtedLine(NamedTuple):
    """A line whose timestamp is doubted if the stretch is read alone, with numbers as in Head."""

    number: int
    since: int
    ts_ns: int


class PieceStretch(NamedTuple):
    """The values of one stretch that later stretches need.

    Attributes:
        lines: The number of its lines.
        first: The number of its first line that moves the arrival clock.
        first_is_timed: Whether that line has an arrival or a `ts`.
        bare_from: The number of its first good line without an arrival.
        arrival_ns: The arrival clock after the last line, if the clock starts with the stretch.
        stamp_ns: The clock of timestamps after the last line.
        timed_from: The number of its first good line with an arrival.
        heads: The first line with a `ts`, and the first one after it that is no duplicate of it.
        doubts: The first `MOST_DOUBTS` of these lines.
        doubted: The stamp that waits for the next stretch.
        max_ahead_ns: The step from which timestamps are doubted.
    """

    lines: int = 0
    first: int = NEVER
    first_is_timed: bool = False
    bare_from: int = NEVER
    arrival_ns: int = BEFORE_EVERYTHING_NS
    stamp_ns: int = BEFORE_EVERYTHING_NS
    timed_from: int = NEVER
    heads: tuple[tuple[int, int, Stamp], ...] = ()
    doubts: tuple[tuple[int, int, int], ...] = ()
    doubted: Stamp | None = None
    max_ahead_ns: int = 0


class Beginning(NamedTuple):
    """The values at the start of a stretch.

    Attributes:
        lines: The number of earlier lines.
        arrival_ns: The time of the arrival clock; None if no line has moved it.
        stamp_ns: The clock of timestamps; None if no earlier line has one.
        bears_arrivals: Whether the first good line of all has an arrival; None if there is none.
        doubted: The stamp that waits for the next line.
    """

    lines: int = 0
    arrival_ns: int | None = None
    stamp_ns: int | None = None
    bears_arrivals: bool | None = None
    doubted: Stamp | None = None

    def behind(self, stretch: PieceStretch) -> Beginning:
        """Return the values at the end of `stretch`, which begins with these values."""
        floors = self.floors(stretch)
        arrival_ns = self.arrival_ns
        if stretch.first != NEVER:
            arrival_ns = self.arrival_of(stretch, floors, stretch.arrival_ns, NEVER - 1)
        stamp_ns = floors[-1][1] if floors else None
        if stretch.heads:
            stamp_ns = max(stretch.stamp_ns, BEFORE_EVERYTHING_NS if stamp_ns is None else stamp_ns)
        doubted = stretch.doubted if stretch.heads else self.doubted
        if doubted is not None and stamp_ns is not None:
            doubted = doubted if doubted[0] > stamp_ns + stretch.max_ahead_ns else None
        has_arrivals = self.bears_arrivals
        if has_arrivals is None and stretch.timed_from != stretch.bare_from:
            has_arrivals = stretch.timed_from < stretch.bare_from
        return Beginning(self.lines + stretch.lines, arrival_ns, stamp_ns, has_arrivals, doubted)

    def floors(self, stretch: PieceStretch) -> list[Floor]:
        """Return the least times of the clock of timestamps, beside its times in the stretch alone.

        They rise. Each is a timestamp that the stretch alone doubts, or one before the stretch.
        """
        floor_ns = self.stamp_ns
        found = [] if floor_ns is None else [(stretch.bare_from, floor_ns)]
        for since, ts_ns, is_confirmed in self._steps(stretch):
            counts = is_confirmed or floor_ns is None or ts_ns <= floor_ns + stretch.max_ahead_ns
            if counts and (floor_ns is None or ts_ns > floor_ns):
                floor_ns = ts_ns
                found.append((since, ts_ns))
        return found

    def _steps(self, stretch: PieceStretch) -> Iterator[tuple[int, int, bool]]:
        """Yield the line from which a timestamp may count, the timestamp, and if it surely does."""
        waiting = None if self.doubted is None else (*self.doubted,)
        confirming = None
        if waiting is not None:
            heads = (Head(*each) for each in stretch.heads)
            confirming = next((each for each in heads if each.stamp != waiting), None)
        for number, since, ts_ns in (*stretch.doubts, (NEVER, NEVER, BEFORE_EVERYTHING_NS)):
            if waiting is not None and confirming is not None and confirming.number <= number:
                if confirming.stamp[0] >= waiting[0] - stretch.max_ahead_ns:
                    yield confirming.since, waiting[0], True
                confirming = None
            if number != NEVER:
                yield since, ts_ns, False

    def _is_timed(self, stretch: PieceStretch) -> bool:
        """Return whether the time of the stretch's first line is known, if no line is before it."""
        begun = self.stamp_ns is not None and stretch.first == stretch.bare_from
        return stretch.first_is_timed or begun

    def arrival_of(
        self, stretch: PieceStretch, floors: Sequence[Floor], at_ns: int, number: int
    ) -> int:
        """Return the arrival of a line whose arrival in the stretch alone is `at_ns`.

        `floors` are those of the stretch.
        """
        before_ns = self.arrival_ns
        if before_ns is not None:
            at_ns = max(at_ns, before_ns)
        elif number >= stretch.first and not self._is_timed(stretch):
            at_ns = max(at_ns, 0)
        if at := bisect_right(floors, (number, NEVER)):
            at_ns = max(at_ns, floors[at - 1][1])
        return at_ns


def find_beginnings(stretches: Sequence[PieceStretch], beginning: Beginning) -> list[Beginning]:
    """Return the values at the start of each stretch, and after the last one."""
    if beginning.stamp_ns is None:
        beginning = beginning._replace(stamp_ns=_find_clock_start_ns(stretches))
    found = [beginning]
    for stretch in stretches:
        found.append(found[-1].behind(stretch))
    return found


def _find_clock_start_ns(stretches: Sequence[PieceStretch]) -> int | None:
    """Return the time at which the clock of timestamps begins, if it is not the first timestamp."""
    if not stretches:
        return None
    clock = StampClock(stretches[0].max_ahead_ns)
    clock.begin(UnconfirmedStamp(*stamp) for stretch in stretches for _, _, stamp in stretch.heads)
    return clock.now_ns


class StretchReader:
    """A `LineReader` for one stretch, whose rows are numbered from 1."""

    def __init__(self, reading: Reading) -> None:
        self._reader = LineReader(reading, BEFORE_EVERYTHING_NS)
        self._stamps = self._reader.stamps
        self._stamps.now_ns = BEFORE_EVERYTHING_NS
        self._max_ahead_ns = reading.max_ahead_ns
        self._first = NEVER
        self._first_is_timed = False
        self._bare_from = self._timed_from = NEVER
        self._heads: list[Head] = []
        self._doubts: list[DoubtedLine] = []

    def read(self, row: Row) -> Content:
        content = self._reader.read(row)
        if isinstance(content, Event):
            is_bare = row.values.get("arrival") is None
            has_ts = row.values.get("ts") is not None
            if has_ts:
                self._note(row.number, (min(content.ts_ns, MAX_ARRIVAL_NS), content.source))
            if is_bare:
                self._bare_from = min(self._bare_from, row.number)
                self._fill_since(row.number)
            else:
                self._timed_from = min(self._timed_from, row.number)
            self._begin(row.number, is_timed=has_ts or not is_bare)
        elif isinstance(content, Malformed):
            self._begin(row.number, is_timed=content.at_ns != BEFORE_EVERYTHING_NS)
        return content

    def _begin(self, number: int, *, is_timed: bool) -> None:
        if self._first == NEVER:
            self._first, self._first_is_timed = number, is_timed

    def _note(self, number: int, stamp: Stamp) -> None:
        heads = self._heads
        if len(heads) < 2 and all(each.stamp != stamp for each in heads):
            heads.append(Head(number, NEVER, stamp))
        if self._stamps.doubted == stamp and len(self._doubts) < MOST_DOUBTS:
            self._doubts.append(DoubtedLine(number, NEVER, stamp[0]))

    def _fill_since(self, number: int) -> None:
        """Let the lines since the last one without an arrival count from this line on."""
        _fill_since(self._heads, number)
        _fill_since(self._doubts, number)

    def end(self, lines: int) -> PieceStretch:
        """Return the summary of the stretch after its last row; `lines` is its number of lines."""
        arrival_ns, stamps = self._reader.arrival_ns, self._stamps
        return PieceStretch(
            lines,
            self._first,
            self._first_is_timed,
            self._bare_from,
            BEFORE_EVERYTHING_NS if arrival_ns is None else arrival_ns,
            BEFORE_EVERYTHING_NS if stamps.now_ns is None else stamps.now_ns,
            self._timed_from,
            tuple((*each,) for each in self._heads),
            tuple((*each,) for each in self._doubts),
            None if stamps.doubted is None else (*stamps.doubted,),
            self._max_ahead_ns,
        )


def _fill_since(lines: list[Any], number: int) -> None:
    at = len(lines)
    while at and lines[at - 1].since == NEVER:
        at -= 1
        lines[at] = lines[at]._replace(since=number)
