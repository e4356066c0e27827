"""Pack lines on their way from the task that reads them to the task that orders their group.

Streams that a join connects form a group, and every other stream is a group by itself. The last
group receives the records whose stream is not in the topology, and makes them dead letters. With
`m` tasks, group `n` belongs to task `n` modulo `m`.

A parcel is one row for Spark and has up to `LINES` lines of one piece and one group. So Spark adds
only a few hundred bytes to every thousand lines. The lines are packed by `marshal`, which is as
fast as JSON. It is exact for all values that a JSON reader or a Parquet file returns. The same
version of Python unpacks the lines, in the same run.

The first parcel of each piece has the piece's `PieceStretch` instead, for every group. From the
stretches of all pieces a group's task derives the values at the start of each piece, without
reading all lines before it.

    (group, piece, number 0)      the PieceStretch, or why the piece cannot be read
    (group, piece, number 1, 2 …) lines, in their order

`Unpacker` takes the stretches of all pieces and then parcels in that order, and returns the content
of the lines.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from inorder.contract import MAX_INT64
from spark_analytics.backfill.stretches import (
    Beginning,
    PieceStretch,
    StretchReader,
    find_beginnings,
)
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import Topology
from topology.records.checker import Reading
from topology.records.line_reader import Content, Row
from topology.records.packed import (
    OF_LINE,
    Packed,
    pack_dead,
    pack_event,
    pack_report,
    unpack_content,
)
from topology.stage.replay import group_all_streams


class Groups:
    """The groups of a topology.

    `streams` has the names of each group's streams, in the order of the topology file. The last
    group has none.
    """

    def __init__(self, topology: Topology) -> None:
        self.streams: Sequence[Sequence[str]] = [*group_all_streams(topology), []]
        self._of = {stream: at for at, met in enumerate(self.streams) for stream in met}

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def strange(self) -> int:
        """The number of the group for records whose stream is not in the topology."""
        return len(self.streams) - 1

    def of(self, stream: str | None) -> int:
        return self._of.get(stream or "", self.strange)


LINES: Final = 512
OF_TOPIC: Final = "of_topic"
"""The key under which a clock line from an archive has its offset in the clock topic."""


class Parcel(NamedTuple):
    group: int
    piece: int
    number: int
    content: bytes


class PieceUnreadable(Exception):
    """The error of a piece that cannot be read at all; the message is shown to the user."""


class Packer:
    """A packer of the rows of one piece; the parcel with the stretch comes last.

    If `archived`, clock lines have their offset in the clock topic. A live worker that continues
    from the backfill recognizes them by that offset.
    """

    def __init__(
        self, piece: int, groups: Groups, reading: Reading, *, archived: bool = False
    ) -> None:
        self._piece = piece
        self._groups = groups
        self._by_time = reading.by_time
        self._archived = archived
        self._reader = StretchReader(reading)
        self._lines: list[list[Packed]] = [[] for _ in groups.streams]
        self._numbers = [0] * len(groups)

    def pack(self, rows: Iterable[Row]) -> Iterator[Parcel]:
        read, group_of, by_time = self._reader.read, self._groups.of, self._by_time
        for row in rows:
            content = read(row)
            if isinstance(content, Event):
                group = group_of(content.stream)
                ts_ns = None if row.values.get("ts") is None else content.ts_ns
                packed = pack_event(content, row.number, ts_ns, _seq(content, row, by_time))
            elif isinstance(content, Malformed):
                group = group_of(content.stream)
                packed = pack_dead(content, row.number, _seq(content, row, by_time))
            else:
                offset = row.values.get(OF_TOPIC) if self._archived else None
                packed = pack_report(content, row.number, offset)
                for each in range(len(self._groups)):
                    self._lines[each].append(packed)
                    if len(self._lines[each]) >= LINES:
                        yield self._make_parcel(each)
                continue
            lines = self._lines[group]
            lines.append(packed)
            if len(lines) >= LINES:
                yield self._make_parcel(group)

    def rest(self, lines: int) -> Iterator[Parcel]:
        """Yield the remaining parcels after the last row; the piece has this number of `lines`."""
        yield from self.pack_rest()
        content = marshal.dumps(tuple(self._reader.end(lines)))
        for group in range(len(self._groups)):
            yield Parcel(group, self._piece, 0, content)

    def pack_rest(self) -> Iterator[Parcel]:
        """Yield parcels of the packed lines that are not in one yet."""
        for group, left in enumerate(self._lines):
            if left:
                yield self._make_parcel(group)

    def unreadable(self, why: str) -> Iterator[Parcel]:
        for group in range(len(self._groups)):
            yield Parcel(group, self._piece, 0, marshal.dumps(why))

    def _make_parcel(self, group: int) -> Parcel:
        lines, self._lines[group] = self._lines[group], []
        self._numbers[group] += 1
        return Parcel(group, self._piece, self._numbers[group], marshal.dumps(lines))


def _seq(content: Event | Malformed, row: Row, by_time: frozenset[str]) -> int | None:
    unnumbered = content.seq == ~row.number
    if unnumbered or (content.stream in by_time and content.seq == row.number):
        offset = row.values.get("offset")
        if type(offset) is not int or not 0 <= offset <= MAX_INT64:
            return ~OF_LINE if unnumbered else OF_LINE
    return content.seq


class Unpacker:
    """A reader of the parcels of one group across pieces.

    `stretches` has the PieceStretch of each piece, in order. `beginning` has the values at the
    start of the first piece.

    Raises:
        PieceUnreadable: A piece could not be read.
    """

    def __init__(self, stretches: Sequence[bytes], beginning: Beginning) -> None:
        self._stretches = []
        for stretch in stretches:
            read = marshal.loads(stretch)
            if isinstance(read, str):
                raise PieceUnreadable(read)
            self._stretches.append(PieceStretch(*read))
        self._begins = find_beginnings(self._stretches, beginning)

    @property
    def end(self) -> Beginning:
        """The values after the last piece."""
        return self._begins[-1]

    def contents(self, piece: int, content: bytes) -> Iterator[Content]:
        """Yield the contents of the lines in one parcel, in their order."""
        stretch, begin = self._stretches[piece], self._begins[piece]
        lines, arrival_of, floors = begin.lines, begin.arrival_of, begin.floors(stretch)
        for packed in marshal.loads(content):
            number = packed[1]
            yield unpack_content(
                packed, arrival_of(stretch, floors, packed[2], number), lines + number
            )
