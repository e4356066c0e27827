"""Run the tasks of a backfill: one kind reads a piece, the other orders groups of streams.

Spark calls both with Arrow batches, in a Python process of an executor. The driver sends their
settings as plain values (`Setting`); each process makes the topology once, from its text.

An ordering task takes its groups one after the other, and writes the output of all of them into the
same files.

Memory of an ordering task: the stretches of all pieces, a batch of parcels, the state of one group,
and the lines to be written.
"""

from __future__ import annotations

import marshal
import os
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from recordings.file import InputError
from recordings.replayed import add_left, run_steps
from recordings.summary import Summary
from spark_analytics.backfill.kinds import Part
from spark_analytics.backfill.parcels import Groups, Packer, Parcel, PieceUnreadable, Unpacker
from spark_analytics.backfill.pieces import Piece, PieceRows
from spark_analytics.backfill.place import file_system
from spark_analytics.backfill.state import GroupState, pack, unpack
from spark_analytics.backfill.stretches import Beginning
from spark_analytics.executors import task_process
from spark_analytics.executors.setting import Setting, topology_of
from topology.base.event import DATA, Event
from topology.base.outcome import Malformed, Step
from topology.records.json_lines import make_step_lines
from topology.records.line_reader import Content
from topology.stage.instants import whole_instants
from topology.stage.replay import Replay

PARCELS: Final = pa.schema(
    zip(Parcel._fields, (pa.int32(), pa.int64(), pa.int64(), pa.binary()), strict=True)
)
REPORT: Final = pa.schema(
    {
        "group": pa.int32(),
        "word": pa.string(),
        "table": pa.string(),
        "name": pa.string(),
        "rows": pa.int64(),
        "content": pa.binary(),
    }
)
FILE: Final = "file"
STATE: Final = "state"
SUMMARY: Final = "summary"
UNREADABLE: Final = "unreadable"
PARCELS_AT_ONCE: Final = 64
"""The maximum number of rows in an Arrow batch of parcels, read or written."""

T = TypeVar("T")


class ReadPieces(NamedTuple):
    """The function of a reading task: it reads the pieces with the given numbers as parcels."""

    setting: Setting
    pieces: Sequence[Piece]

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        task_process.begin()
        for batch in taken:
            for number in batch.column(0).to_pylist():
                yield from to_batches(self._read(number))

    def _read(self, number: int) -> Iterator[Parcel]:
        topology = topology_of(self.setting)
        rows = PieceRows(self.pieces[number], topology)
        packer = Packer(number, Groups(topology), topology.reading())
        try:
            yield from packer.pack(rows)
        except InputError as error:
            yield from packer.unreadable(str(error))
            return
        yield from packer.rest(rows.lines)


def to_batches(parcels: Iterable[Parcel]) -> Iterator[Any]:
    for held in split_into_chunks(parcels, PARCELS_AT_ONCE):
        yield pa.RecordBatch.from_pylist([each._asdict() for each in held], PARCELS)


def split_into_chunks(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield the items in lists of length `most`; the last list may be shorter."""
    items = iter(items)
    while held := list(islice(items, most)):
        yield held


class OrderGroups(NamedTuple):
    """The function of an ordering task: it orders parcels, writes the output and reports on it.

    The parcels are sorted by group, stretches first.

    Attributes:
        setting: The texts from which a process makes the topology.
        staged: The address of the folder to write in.
        begin: The values at the end of the previous run.
        states: The state file of each group at the end of the previous run.
        to_end: Whether to emit buffered events at the end; otherwise a state is written.
    """

    setting: Setting
    staged: str
    begin: Beginning = Beginning()
    states: Mapping[int, str] = {}
    to_end: bool = True

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        task_process.begin()
        rows = chain.from_iterable(_parcels(batch) for batch in taken)
        files, folder = file_system(self.staged)
        name = f"{os.getpid()}-{time.monotonic_ns():x}"
        part = Part(files, folder, name)
        group = None
        for group, parcels in groupby(rows, key=attrgetter("group")):
            yield from _to_report_batches(
                self._order(group, parcels, part, files, f"{folder}/{name}")
            )
        if group is not None:
            written = part.close()
            yield from _to_report_batches((group, FILE, *file, b"") for file in written)

    def _order(
        self, group: int, parcels: Iterable[Parcel], part: Part, files: fs.FileSystem, path: str
    ) -> Iterator[tuple[Any, ...]]:
        started_s = time.process_time()
        topology = topology_of(self.setting)
        summary = Summary()
        before = self._state_of(group)
        order = GroupRun(self, group, summary, before)
        try:
            for step in whole_instants(order.steps(parcels, self.begin), topology):
                part.take(make_step_lines(step), order.positions)
        except PieceUnreadable as error:
            yield group, UNREADABLE, "", str(error), 0, b""
            return
        if not self.to_end:
            state = f"{path}-{group:05d}.state"
            with files.open_output_stream(state) as out:
                out.write(pack(order.state()))
            end = marshal.dumps(tuple(order.end))
            yield group, STATE, "", state.rpartition("/")[2], 0, end
        summary.thin()
        summary.set_times(0.0, time.process_time() - started_s)
        yield group, SUMMARY, "", "", 0, pickle.dumps(summary)

    def _state_of(self, group: int) -> GroupState:
        address = self.states.get(group)
        if address is None:
            return GroupState(None, (), {})
        files, path = file_system(address)
        with files.open_input_stream(path) as file:
            return unpack(file.read())


class GroupRun:
    """One group of streams with its operators, which continue from the state `before`.

    Counts go to the summary.
    """

    def __init__(
        self, order: OrderGroups, group: int, summary: Summary, before: GroupState
    ) -> None:
        self._to_end = order.to_end
        self._topology = topology = topology_of(order.setting)
        groups = Groups(topology)
        # The group for unknown streams has no streams itself, so its replay gets all streams.
        self._streams = groups.streams[group] or list(topology.streams)
        self._summary = summary
        self._waiting: list[Content] = []
        self._before = before
        self._reads_reports = group != groups.strange
        self._replay = Replay(topology, self._streams, reads_reports=self._reads_reports)
        self.positions = dict(before.positions)
        self.end = Beginning()
        """The values after the last line, with which the next run starts."""

    def steps(self, parcels: Iterable[Parcel], begin: Beginning) -> Iterator[Step]:
        """Yield the output of all lines of the group, as `inorder replay` computes it."""
        stretches: list[bytes] = []
        parcels = iter(parcels)
        first = None
        for parcel in parcels:
            if parcel.number:
                first = parcel
                break
            stretches.append(parcel.content)
        unpacker = Unpacker(stretches, begin)
        self.end = unpacker.end
        if self.end.bears_arrivals is False:
            self._topology = self._summary.without_arrivals(self._topology)
            self._replay = Replay(self._topology, self._streams, reads_reports=self._reads_reports)
        rest = parcels if first is None else chain([first], parcels)
        contents = chain.from_iterable(
            unpacker.contents(parcel.piece, parcel.content) for parcel in rest
        )
        if self._before.saved is not None:
            self._replay.restore(self._before.saved)
        yield from self._run(chain(self._before.waiting, contents), self.end.arrival_ns)

    def state(self) -> GroupState:
        """Return the state from which the next run continues."""
        return GroupState(self._replay.save(), self._waiting, self.positions)

    def _run(self, contents: Iterable[Content], last_ns: int | None) -> Iterator[Step]:
        replay, summary = self._replay, self._summary
        summary.count_resumed(event for event in replay.iter_held() if event.kind == DATA)
        if not self._to_end:
            contents = self._hold_back_last(contents, last_ns)
        yield from run_steps(replay, contents, summary, counts_clocks=not self._reads_reports)
        if last_ns is not None:
            steps = [replay.on_other_input(last_ns)]
            if self._to_end and (flushed := replay.on_end()) is not None:
                steps.append(flushed)
            for step in steps:
                summary.count_step(step)
                yield step
        add_left(replay, [self._topology.streams[stream] for stream in self._streams], summary)

    def _hold_back_last(
        self, contents: Iterable[Content], last_ns: int | None
    ) -> Iterator[Content]:
        """Yield the contents that arrived before `last_ns`, and leave the others to the next run.

        The next run may read more lines that arrived at `last_ns`.
        """
        for content in contents:
            is_last = isinstance(content, Event | Malformed) and content.at_ns == last_ns
            if is_last or self._waiting:
                self._waiting.append(content)
            else:
                yield content


def _to_report_batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    reports = [dict(zip(REPORT.names, row, strict=True)) for row in rows]
    yield from pa.Table.from_pylist(reports, REPORT).to_batches()


def _parcels(batch: Any) -> Iterator[Parcel]:
    columns: Mapping[str, list[Any]] = batch.to_pydict()
    return map(Parcel._make, zip(*(columns[name] for name in Parcel._fields), strict=True))
