"""The tasks of a live job that read: records become lines, packed for their groups.

A task reads a stretch of one partition, or of several in turn. The lines are those that `inorder
dump` prints. Each group gets its own lines, and all groups get clock lines; the parcel with number
0 describes the stretch to all groups (`spark_analytics.live.partitions.Stretch`). An arrival is
computed within the stretch alone; the groups know what the partition brought before.

Spark starts a task only for the partitions from which a batch takes offsets. A task that sees no
record (its share held marks of transactions, or records of an aborted one) cannot know which
partition it reads; it reports the share to all groups without a name (`partitions.HIDDEN`).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from agents.stage.arrival import ArrivalClock
from spark_analytics.backfill.archived import RecordLines
from spark_analytics.backfill.groups import Groups
from spark_analytics.backfill.parcels import Packer
from spark_analytics.backfill.work import PARCELS_AT_ONCE
from spark_analytics.executors import task_process
from spark_analytics.executors.setting import Setting, topology_of
from spark_analytics.live.group import PartitionParcel
from spark_analytics.live.partitions import BEFORE_EVERYTHING_NS, CLOCK, HIDDEN, RAW, PartitionName
from topology.config import Topology
from topology.wire.line_reader import Row, reading_of

_SCHEMA: Final = pa.schema(
    {
        "group": pa.int32(),
        "rank": pa.int32(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "first": pa.int64(),
        "number": pa.int64(),
        "content": pa.binary(),
    }
)
PARCELS: Final = from_arrow_schema(_SCHEMA)
NAMES: Final = _SCHEMA.names[1:]

Record = Mapping[str, Any]


class ReadRecords(NamedTuple):
    """The function that Spark calls with Arrow batches: rows are `log_order.COLUMNS` and
    `stamp_ms`."""

    setting: Setting

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        task_process.begin()
        topology = topology_of(self.setting)
        rows = chain.from_iterable(batch.to_pylist() for batch in taken)
        held: list[tuple[int, PartitionParcel]] = []
        is_hidden = True
        for _, records in groupby(_in_stretches(rows), key=itemgetter(0)):
            is_hidden = False
            for each in parcels_of(topology, (record for _, record in records)):
                held.append(each)
                if len(held) >= PARCELS_AT_ONCE:
                    yield _arrow(held)
                    held = []
        if is_hidden:
            held = hidden(topology)
        if held:
            yield _arrow(held)


def _in_stretches(rows: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Records with their stretch's number: within one, the partition stays and offsets rise."""
    number, last = 0, ("", -1)
    offset = -1
    for row in rows:
        log = row["topic"], row["partition"]
        if log != last or row["offset"] <= offset:
            number += 1
            last = log
        offset = row["offset"]
        yield number, row


def hidden(topology: Topology) -> list[tuple[int, PartitionParcel]]:
    """The parcels, one for each group, of a share without a record."""
    return [(group, PartitionParcel(HIDDEN, 0, 0, b"")) for group in range(len(Groups(topology)))]


def parcels_of(
    topology: Topology, records: Iterator[Record]
) -> Iterator[tuple[int, PartitionParcel]]:
    """The parcels of one stretch, with their groups; records are in the order of their offsets."""
    first = next(records)
    rank = CLOCK if first["topic"] == topology.topics.clock else RAW
    name = PartitionName(rank, first["topic"], first["partition"])
    groups = Groups(topology)
    packer = Packer(0, groups, reading_of(topology))
    lines = _Lines(topology, chain([first], records), counts_runs=rank == RAW)
    for part in (packer.pack(lines), packer.left()):
        for group, _, number, content in part:
            yield group, PartitionParcel(name, first["offset"], number, content)
    stretch = marshal.dumps((lines.count, lines.clock.now_ns, lines.runs))
    for group in range(len(groups)):
        yield group, PartitionParcel(name, first["offset"], 0, stretch)


class _Lines:
    """Dumped lines of a stretch. `runs` as in `Stretch`."""

    def __init__(self, topology: Topology, records: Iterable[Record], *, counts_runs: bool) -> None:
        self._lines = RecordLines(topology)
        self._records = records
        self._counts_runs = counts_runs
        self.clock = ArrivalClock(0, judges=False)
        self.count = 0
        self.runs: list[int] = []

    def __iter__(self) -> Iterator[Row]:
        last_ns = BEFORE_EVERYTHING_NS
        runs = self.runs
        for record in self._records:
            line = self._lines.line(record, self.clock)
            if line is None:
                continue
            self.count += 1
            if self._counts_runs:
                arrival_ns = line["arrival"]
                if arrival_ns != last_ns:
                    last_ns = arrival_ns
                    runs += (arrival_ns, 0)
                runs[-1] += 1
            yield Row(self.count, orjson.loads(orjson.dumps(line)))


def _arrow(parcels: Sequence[tuple[int, PartitionParcel]]) -> Any:
    rows = [
        {"group": group, **dict(zip(NAMES, (*each.name, *each[1:]), strict=True))}
        for group, each in parcels
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)
