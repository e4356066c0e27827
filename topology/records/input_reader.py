"""Numbers the inputs of a run in this process, and reads each as the topology's streams require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology.base.stamp_clock import UnconfirmedStamp
from topology.records.checker import Reading
from topology.records.line_reader import Content, LineContents, LineReader, Row
from topology.records.values_by_fields import ValuesByFields


class InputReader:
    """A reader that keeps the arrival clock from one input to the next.

    Args:
        reading: The settings by which records of the streams are read.
        values: The reader of values, if mappings may be values.

    Attributes:
        lines: The reader of the inputs' lines.
        reads_values: Whether mappings may be values.
        number: The number of the last input, from 1.
    """

    def __init__(self, reading: Reading, values: ValuesByFields | None = None) -> None:
        self.lines = LineReader(reading)
        self._values = values
        self.reads_values = values is not None
        self.number = 0

    def save(self) -> tuple[Any, ...]:
        """Return the number of the last input, and the state of the clock of timestamps."""
        stamps = self.lines.stamps
        return self.number, stamps.now_ns, None if stamps.doubted is None else (*stamps.doubted,)

    def restore(self, saved: tuple[Any, ...], arrival_ns: int | None) -> None:
        """Continue after the input whose state was saved.

        Args:
            saved: The state.
            arrival_ns: The arrival time of that input, in ns since 1970.
        """
        stamps = self.lines.stamps
        self.lines.arrival_ns = arrival_ns
        if self._values is not None:
            self._values.rows.arrivals.last_ns = arrival_ns
        self.number, stamps.now_ns, doubted = saved
        stamps.doubted = None if doubted is None else UnconfirmedStamp(*doubted)

    def row(
        self, given: Mapping[str, Any], *, is_instant: bool = False, now_ns: int | None = None
    ) -> Row:
        """Return the row of the next input.

        Args:
            given: A line, or a value if there is a reader of values.
            is_instant: Whether it is a line whose `ts` is in ns.
            now_ns: The current time, or None if it is the arrival of the input before.
        """
        self.number += 1
        if is_instant or self._values is None:
            return Row(self.number, given, ts_is_instant=is_instant)
        value = given if isinstance(given, dict) else {**given}
        return self._values.row_of(self.number, value, now_ns or self.lines.arrival_ns or 0)

    def read(
        self, given: Mapping[str, Any], *, is_instant: bool = False, now_ns: int | None = None
    ) -> Content:
        """Return the content of the next input, with the arguments of `row`.

        The current time is the arrival time of an input without one, and the earliest arrival time
        of any other. Without it arrival times follow as in a replay.
        """
        row = self.row(given, is_instant=is_instant, now_ns=now_ns)
        return self.lines.read(row) if now_ns is None else self.lines.read_at(row, now_ns)

    def read_lines(
        self, lines: Sequence[dict[str, Any]], now_ns: int | None = None
    ) -> LineContents:
        """Return the contents of the next inputs, as `read` would one after the other."""
        if self._values is not None:
            found = [self.read(line, now_ns=now_ns) for line in lines]
            return LineContents(found, found)
        first = self.number + 1
        self.number += len(lines)
        return self.lines.read_lines(first, lines, now_ns)

    def read_columns(
        self, names: Sequence[str], rows: Sequence[Sequence[Any]], now_ns: int | None = None
    ) -> LineContents:
        """Return the contents of the next inputs, each of which has these names by position."""
        if self._values is not None:
            return self.read_lines([dict(zip(names, row, strict=True)) for row in rows], now_ns)
        first = self.number + 1
        self.number += len(rows)
        return self.lines.read_columns(first, names, rows, now_ns)
