"""Reads a recording of several partitions in the order in which the task of a worker reads them.

A line of an input record can have its `partition`, as in a dump. If the first event line has it
and `arrival`, each partition of each input topic is a *lane*. A lane has its own arrival clock, and
its own state in REORDER and CLOCK (`topology.stage.by_lane`). The input topic is that of the line's
stream. The lines are merged in the order (arrival in the lane, lane, place in the file), which is
that of a worker (`topology.stage.alignment`). So a replay has the same waits, gaps and late events.
Lanes are numbered by (topic, partition), the topics in alphabetical order. So does a worker, whose
later inputs and partitions come behind; their order counts within one instant only.

Several files can be read together; the lines of a partition must then lie in one of them. Within a
partition lines are in the order of the log. The partitions of a file may be interleaved in any
order in which a consumer can have read them. At most `MOST_AHEAD` lines of all files together are
held until an earlier one can no longer come. A line that comes later than that is refused, also a
clock line, because the answers would not be those of the worker.

* A clock line comes before all lines that arrived at its `arrival` or later. Without `arrival` it
  has that of the newest line before it in the file.
* A line that cannot be read, or has no partition of a known stream, is a dead letter in no lane. It
  has the arrival of the newest line before it in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from itertools import chain
from typing import Final, NamedTuple, TypeGuard

from recordings.csv_layout import AS_USUAL, CsvLayout
from recordings.file import InputError
from recordings.lines import lines_of
from recordings.rows import NEEDED, NEEDED_BY_TIME, read_rows
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import Topology
from topology.records.checker import Reading
from topology.records.line_reader import (
    BEFORE_EVERYTHING_NS,
    LOOKED_AHEAD,
    Content,
    LineReader,
    Row,
)
from topology.records.reasons import describe_integers, fault_of
from topology.stage.lanes import MOST_LANES, number_of

MOST_AHEAD: Final = 65_536
"""The maximum number of lines that are held until they are in order."""

BEFORE_LANES: Final = -1
AFTER_LANES: Final = MOST_LANES
"""The places of clock lines, and of lines without a lane, among lines of the same arrival."""


class Placed(NamedTuple):
    """A content and its place in the order of a task."""

    arrival_ns: int
    lane: int
    number: int
    content: Content

    @property
    def order(self) -> tuple[int, int, int]:
        return self[:3]


class Recording(NamedTuple):
    """The contents of a recording, and whether they are those of several lanes."""

    by_lane: bool
    contents: Iterator[Content]


def recording_of(
    paths: Sequence[str], topology: Topology, layout: CsvLayout = AS_USUAL
) -> Recording:
    """Return the contents of files in inorder's own form, or of standard input (`-`).

    Raises:
        InputError: A file cannot be read, or several files are not of partitions of their own.
    """
    reading = topology.reading()
    needed = NEEDED_BY_TIME if reading.by_time or reading.mixed else NEEDED
    files = [_peek_first_event(read_rows(path, None, needed, layout)) for path in paths]
    if len(paths) == 1 and not files[0][0]:
        return Recording(by_lane=False, contents=lines_of(files[0][1], reading))
    for path, (has_partitions, _) in zip(paths, files, strict=True):
        if has_partitions is False:
            raise InputError(
                f"{path}: the first event has no `partition` and `arrival`, so several files cannot"
                " be put in order; write both in every line, or put all lines into one file"
            )
    lanes = _Lanes(topology, reading)
    most = max(1, MOST_AHEAD // len(paths))
    ordered = [
        lanes.order(path, number, rows, most)
        for number, (path, (_, rows)) in enumerate(zip(paths, files, strict=True))
    ]
    merged = merge(*ordered, key=_order)
    return Recording(by_lane=True, contents=(placed.content for placed in merged))


def _order(placed: Placed) -> tuple[int, int, int]:
    return placed.order


def _peek_first_event(rows: Iterator[Row]) -> tuple[bool | None, Iterator[Row]]:
    """Return whether the line of the first event has a partition and an arrival, and all rows.

    The answer is None if there is no event, as in the file of an empty partition.
    """
    seen: list[Row] = []
    for row in rows:
        seen.append(row)
        get = row.values.get
        if row.fault is None and get("source") is not None and get("clock") is None:
            found = get("partition") is not None and get("arrival") is not None
            return found, chain(seen, rows)
        if len(seen) >= LOOKED_AHEAD:
            break
    return None, chain(seen, rows)


class _Lanes:
    """The lanes of a recording, with the arrival clock of each.

    Its width is the number of partitions that each input topic can have.
    """

    def __init__(self, topology: Topology, reading: Reading) -> None:
        topics = sorted({stream.input for stream in topology.streams.values()})
        self._width = MOST_LANES // len(topics)
        self._first = {
            name: topics.index(stream.input) * self._width
            for name, stream in topology.streams.items()
        }
        self._reading = reading
        self._readers: dict[int, LineReader] = {}
        self._files: dict[int, int] = {}
        """The number of the file that has the lines of each lane."""

    def order(self, path: str, file: int, rows: Iterable[Row], most: int) -> Iterator[Placed]:
        """Yield the contents of a file in the order of a task, while holding at most `most`."""
        waiting: list[Placed] = []
        left: tuple[int, int, int] = (BEFORE_EVERYTHING_NS, BEFORE_LANES, 0)
        newest_ns = BEFORE_EVERYTHING_NS
        others = LineReader(self._reading)
        for row in rows:
            lane = self._lane_of(row)
            if lane is None:
                placed = self._read_without_lane(row, others, newest_ns)
            else:
                if self._files.setdefault(lane, file) != file:
                    raise InputError(
                        f"{path}: line {row.number} is of partition {row.values['partition']}, of"
                        " which another file has lines; put the lines of a partition into one file"
                    )
                placed = self._read_in_lane(row, lane)
            if placed.order < left:
                raise InputError(
                    _describe_too_late(path, row, lane, left[0] - placed.arrival_ns, most)
                )
            newest_ns = max(newest_ns, placed.arrival_ns)
            heappush(waiting, placed)
            if len(waiting) > most:
                left = max(left, waiting[0].order)
                yield heappop(waiting)
        while waiting:
            yield heappop(waiting)

    def _lane_of(self, row: Row) -> int | None:
        """Return the lane of a row, or None if it has none."""
        get = row.values.get
        stream, partition = get("stream"), get("partition")
        name = self._reading.unnamed if stream is None else stream
        first = self._first.get(name) if isinstance(name, str) else None
        if first is None or get("clock") is not None or not self._is_partition(partition):
            return None
        return first + partition

    def _is_partition(self, given: object) -> TypeGuard[int]:
        return type(given) is int and 0 <= given < self._width

    def _read_in_lane(self, row: Row, lane: int) -> Placed:
        reader = self._readers.get(lane)
        if reader is None:
            reader = self._readers[lane] = LineReader(self._reading, judges=True)
        content = reader.read(row)
        assert isinstance(content, Event | Malformed), "a clock line is in no lane"
        if isinstance(content, Event):
            content.lane = lane
        content.offset = number_of(lane, row.number)
        return Placed(content.at_ns, lane, row.number, content)

    def _read_without_lane(self, row: Row, reader: LineReader, newest_ns: int) -> Placed:
        """Return a clock line, or a dead letter."""
        values = row.values
        if values.get("clock") is not None:
            is_first = newest_ns == BEFORE_EVERYTHING_NS or values.get("arrival") is not None
            reader.arrival_ns = None if is_first else newest_ns
        else:
            reader.arrival_ns = max(newest_ns, 0)
            if row.fault is None and not self._is_partition(values.get("partition")):
                takes = describe_integers(0, self._width - 1)
                fault = fault_of("partition", "unreadable", "`partition`", takes)
                # Without a lane it has no place among the numbers of its source.
                row = Row(row.number, {}, fault)
        content = reader.read(row)
        if isinstance(content, Event | Malformed):
            return Placed(content.at_ns, AFTER_LANES, row.number, content)
        return Placed(content.arrival_ns, BEFORE_LANES, row.number, content)


def _describe_too_late(path: str, row: Row, lane: int | None, by_ns: int, most: int) -> str:
    if lane is None:
        what, own = f"the clock line {row.number}", "the clock lines into a file of their own"
    else:
        what = f"line {row.number} of partition {row.values['partition']}"
        own = "one file for each partition"
    return (
        f"{path}: {what} arrived {by_ns / 1e6:,.3f} ms before a line that is more than {most:,}"
        f" lines ahead of it; sort the lines by `arrival`, or write {own} and name all files"
    )
