"""Read records in the tasks of a live job: records become lines, packed for their groups.

A task reads a stretch of one partition, or of several in turn. The lines are those that `inorder
dump` prints. Each group gets its own lines, and all groups get clock lines. The parcel with number
0 describes the stretch to all groups (`spark_analytics.live.partitions.Stretch`). A task computes
arrivals from the stretch alone; the groups correct them by the earlier records of the partition.

Spark starts a task only for the partitions from which a batch takes offsets. If the offsets of a
task are all of transaction markers or aborted records, it sees no record. The task then cannot know
which partition it reads, and reports `partitions.HIDDEN` to all groups.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from agents.stage.arrival import ArrivalClock
from spark_analytics.backfill.archived import DumpedRows, RecordLines
from spark_analytics.backfill.parcels import Groups, Packer
from spark_analytics.backfill.work import PARCELS_AT_ONCE, split_into_chunks
from spark_analytics.executors import task_process
from spark_analytics.executors.setting import Setting, topology_of
from spark_analytics.live.group import PartitionParcel
from spark_analytics.live.partitions import CLOCK, HIDDEN, RAW, PartitionName
from topology.config import Topology
from topology.records.line_reader import Row

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
    """The function that Spark calls with Arrow batches of records.

    The batches have the columns `log_order.COLUMNS` and `stamp_ms`.
    """

    setting: Setting

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        task_process.begin()
        topology = topology_of(self.setting)
        rows = chain.from_iterable(batch.to_pylist() for batch in taken)
        stretches = groupby(_number_stretches(rows), key=itemgetter(0))
        parcels = chain.from_iterable(
            parcels_of(topology, (record for _, record in records)) for _, records in stretches
        )
        is_hidden = True
        for held in split_into_chunks(parcels, PARCELS_AT_ONCE):
            is_hidden = False
            yield _arrow(held)
        if is_hidden:
            yield _arrow(hidden_parcels(topology))


def _number_stretches(rows: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Yield each record with its stretch's number; in a stretch one partition's offsets ascend."""
    number, last = 0, ("", -1)
    offset = -1
    for row in rows:
        log = row["topic"], row["partition"]
        if log != last or row["offset"] <= offset:
            number += 1
            last = log
        offset = row["offset"]
        yield number, row


def hidden_parcels(topology: Topology) -> list[tuple[int, PartitionParcel]]:
    """Return the parcels by which a task without a record reports HIDDEN, one for each group."""
    return [(group, PartitionParcel(HIDDEN, 0, 0, b"")) for group in range(len(Groups(topology)))]


def parcels_of(
    topology: Topology, records: Iterator[Record]
) -> Iterator[tuple[int, PartitionParcel]]:
    """Yield the parcels of one stretch, with their groups; records are in the order of offsets."""
    first = next(records)
    rank = CLOCK if first["topic"] == topology.topics.clock else RAW
    name = PartitionName(rank, first["topic"], first["partition"])
    groups = Groups(topology)
    packer = Packer(0, groups, topology.reading())
    clock = ArrivalClock(0, judges=False)
    rows = DumpedRows(RecordLines(topology), chain([first], records), lambda _: clock)
    runs: list[int] = []
    for part in (packer.pack(_count_runs(rows, runs) if rank == RAW else rows), packer.pack_rest()):
        for group, _, number, content in part:
            yield group, PartitionParcel(name, first["offset"], number, content)
    stretch = marshal.dumps((rows.lines, clock.now_ns, runs))
    for group in range(len(groups)):
        yield group, PartitionParcel(name, first["offset"], 0, stretch)


def _count_runs(rows: Iterable[Row], runs: list[int]) -> Iterator[Row]:
    """Yield the rows unchanged, and add their arrivals to `runs`, in the form of `Stretch.runs`."""
    for row in rows:
        arrival_ns = row.values["arrival"]
        if not runs or runs[-2] != arrival_ns:
            runs += (arrival_ns, 0)
        runs[-1] += 1
        yield row


def _arrow(parcels: Sequence[tuple[int, PartitionParcel]]) -> Any:
    rows = [
        {"group": group, **dict(zip(NAMES, (*each.name, *each[1:]), strict=True))}
        for group, each in parcels
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)
