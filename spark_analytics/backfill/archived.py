"""Read an archive of the job `archive` as the lines that `inorder dump` would print for its topics.

From the folder of a whole archive, only the topics that the topology reads are taken. These are the
input topics, and `clock.offsets` if a stream syncs. The folder of a single topic gives only that
topic. Records are in the order of `inorder dump` (`log_order`). Spark sorts them by range, so each
task reads a range of that order. Afterwards an archive is processed like files.

Missing offsets, within a partition or between two runs, would look like lost events. An error names
the first missing or repeated offset. In a compacted topic, or with transactions, whose markers take
offsets, missing offsets are normal; `--holes pass` accepts them.

An archive is also refused if it lacks something that an earlier run has seen: a topic, or the
records left to the next run. A whole archive that lacks one of several input topics is refused. If
it lacks `clock.offsets`, which has no folder before its first record, a warning says so.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from agents.master_keys import masters_in
from agents.stage.arrival import LOG_APPEND_TIME, NS_PER_MS, ArrivalClock
from recordings.file import InputError
from recordings.topic_dump import topics_with_clocks
from recordings.topic_lines import TopicLines
from spark_analytics import archive
from spark_analytics.backfill import cut, log_order
from spark_analytics.backfill.cut import Cut, LogEnd
from spark_analytics.backfill.in_lake import PATTERN
from spark_analytics.backfill.parcels import OF_TOPIC, Groups, Packer, Parcel
from spark_analytics.backfill.place import PlaceRefused, file_system
from spark_analytics.backfill.work import to_batches
from spark_analytics.executors import task_process
from spark_analytics.executors.setting import Setting, topology_of
from topology.config import Topology
from topology.records.json_lines import JsonObject
from topology.records.line_reader import Row

STREAM: Final = "stream="
REMOTE: Final = "://"
BY_STAMPS: Final = "timestamp"
"""The value of `arrival` that makes a record's own timestamp its arrival time."""


class Record(NamedTuple):
    """A record of a topic with the fields that a stage reads."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int
    timestamp_type: int = LOG_APPEND_TIME


def is_archive(path: str) -> bool:
    """Return whether the path is a table of records, or the folder of one or several topics.

    Any address on another file system counts as an archive.
    """
    if REMOTE in path:
        return True
    place = Path(path)
    if not place.is_dir():
        return False
    if archive.table_of(path) is not None:
        return True
    return _is_topic(place) or any(_is_topic(each) for each in place.iterdir() if each.is_dir())


def _is_topic(folder: Path) -> bool:
    return any(each.name.startswith(STREAM) for each in folder.iterdir())


def find_topics_to_read(topology: Topology) -> list[str]:
    """Return the topics to read: the input topics, and the clock topic if a stream syncs."""
    return topics_with_clocks(topology, sorted({s.input for s in topology.streams.values()}))


def records(
    spark: SparkSession,
    paths: Sequence[str],
    topology: Topology,
    seen: Collection[str] = (),
    *,
    holes: bool,
) -> tuple[DataFrame, str | None]:
    """Return all records of these archives, and a warning about topics that they lack, or None.

    `seen` has the topics that earlier runs have read.

    Raises:
        InputError: An archive has nothing that the topology reads, or other topics. Unless `holes`
            are allowed, also if a whole archive lacks an input topic, or a `seen` topic is absent.
    """
    wanted = find_topics_to_read(topology)
    refuse_patterns(paths)
    found = [folder for path in paths for folder in folders_of(path.rstrip("/"), wanted)]
    whole = reduce(DataFrame.union, [_read(spark, folder, wanted) for folder in found])
    there = {row.topic for row in whole.select("topic").distinct().collect()}
    unread = sorted(there - set(wanted))
    if unread:
        raise InputError(
            f"{', '.join(paths)}: contains records of {', '.join(unread)}, which the topology does"
            f" not read; name an archive of {', '.join(wanted)}"
        )
    lacking = sorted(set(wanted) - there)
    if not lacking:
        return whole, None
    missing = sorted(set(lacking) & set(seen))
    if missing and not holes:
        raise InputError(
            f"{', '.join(paths)}: contains no records of {', '.join(missing)}, which an earlier run"
            " has read; name all archives that it named, or add `--holes pass` to continue without"
            " these records"
        )
    lack = (
        f"{', '.join(paths)}: contains no records of {', '.join(lacking)}, which the topology reads"
    )
    inputs = {stream.input for stream in topology.streams.values()}
    # A user who names a topic's own folder wants only that topic.
    are_whole = found != [path.rstrip("/") for path in paths]
    if are_whole and not holes and inputs & set(lacking):
        raise InputError(
            f"{lack}; archive these topics too, or add `--holes pass` if they were always empty"
        )
    return whole, lack


def _read(spark: SparkSession, folder: str, wanted: Sequence[str]) -> DataFrame:
    rows = archive.read(spark, folder)
    return rows if archive.format_of(folder) is None else rows.where(rows["topic"].isin(*wanted))


def refuse_patterns(paths: Iterable[str]) -> None:
    """Raise InputError for paths that Spark would read as patterns."""
    for path in paths:
        found = sorted(set(PATTERN) & set(path))
        if found:
            raise InputError(
                f"{path}: Spark treats {' '.join(found)} in a path as part of a pattern, so it"
                " would read other folders; rename the folder without these characters"
            )


def folders_of(path: str, wanted: Sequence[str]) -> list[str]:
    """Return the topics' own folders below the path, or the table there.

    The result is `path` itself if it is a topic's folder, or if only Spark can list it.
    """
    table = archive.table_of(path)
    if table is not None:
        return [table]
    try:
        files, place = file_system(path, "--in")
        is_file = files.get_file_info(place).is_file
        found = [] if is_file else files.get_file_info(fs.FileSelector(place))
    except (PlaceRefused, OSError):
        return [path]
    if is_file:
        raise InputError(
            f"{path}: is a file, but only archives can be read at an address; name the file by a"
            " path"
        )
    there = sorted(each.base_name for each in found if each.type == fs.FileType.Directory)
    if not there or any(name.startswith(STREAM) for name in there):
        return [path]
    folders = [f"{path}/{topic}" for topic in wanted if topic in there]
    if not folders:
        raise InputError(
            f"{path}: is an archive of {', '.join(there)}, but the topology reads"
            f" {', '.join(wanted)}; name another folder, or correct `input` in the topology file"
        )
    return folders


def warn_of_unstamped(ends: Mapping[str, LogEnd], topology: Topology) -> str | None:
    """Return a warning about topics whose records lack the broker's timestamp, or None.

    A worker uses another arrival time for such records: the time at which it reads them.
    """
    found = {log.rpartition("/")[0] for log, end in ends.items() if not end.is_stamped}
    topics = sorted(topic for topic in found if topology.arrival_of(topic)[0] != BY_STAMPS)
    if not topics:
        return None
    return (
        f"records of {', '.join(topics)} have the producer's time (CreateTime), which is used"
        " as their arrival here; a worker uses the time at which it reads them, so the results may"
        " differ. Set message.timestamp.type=LogAppendTime for these topics"
    )


def refuse_ahead(ends: Mapping[str, LogEnd], topology: Topology, now_ns: int) -> None:
    """Raise InputError if a timestamp that counts as arrival is more than `max_ahead` after now.

    A worker ignores such a timestamp. In a backfill, the timestamp would become the arrival of all
    later records of the partition.
    """
    for log, end in sorted(ends.items()):
        arrival, max_ahead_ns = topology.arrival_of(log.rpartition("/")[0])
        if arrival == BY_STAMPS and end.arrival_ms * NS_PER_MS > now_ns + max_ahead_ns:
            raise InputError(
                f"{log} has a record whose timestamp is further ahead of now than `max_ahead`"
                " allows; a worker ignores such timestamps, but a backfill cannot: use the file"
                " that `inorder dump` writes of the topic as its input"
            )


def refuse_jumps(ends: Mapping[str, LogEnd]) -> None:
    """Raise InputError if offsets are missing within a log, or repeated."""
    for log, end in sorted(ends.items()):
        if end.jump is None:
            continue
        before, offset = end.jump
        if offset == before:
            raise InputError(
                f"{log} has the offset {offset} twice, because the named archives overlap; name"
                " each topic once"
            )
        raise _make_hole_error(log, before + 1, offset - 1)


def _make_hole_error(log: str, first: int, last: int) -> InputError:
    return InputError(
        f"the archive has a hole: {log} lacks the offsets {first} to {last}; archive them again, or"
        " add --holes pass if producers use transactions or the topic was compacted"
    )


def find_places(rows: DataFrame, topology: Topology) -> dict[str, dict[str, list[str]]]:
    """Return the partitions of each stream's records, as `topic/partition`, by source.

    If one stage orders streams that are each in one partition, sources are not distinguished, and
    the only key is "". The cost is one pass over the headers.
    """
    is_whole = topology.fused and {s.keyed_by for s in topology.streams.values()} == {"stream"}
    found: dict[str, dict[str, set[str]]] = {}
    for topic in sorted({stream.input for stream in topology.streams.values()}):
        headers, unnamed = topology.headers_of(topic), topology.reading(topic).unnamed
        streams = {name for name, stream in topology.streams.items() if stream.input == topic}
        named = archive.place(rows.where(rows["topic"] == topic), headers)
        columns = ["stream", "partition"]
        if not is_whole:
            named = named.withColumn("source", archive.source(headers))
            columns.append("source")
        for row in named.select(*columns).distinct().collect():
            stream = row["stream"] if row["stream"] in streams else unnamed
            source = "" if is_whole else row["source"] or ""
            logs = found.setdefault(stream, {}).setdefault(source, set())
            logs.add(f"{topic}/{row['partition']}")
    return {
        stream: {source: sorted(logs) for source, logs in of.items()}
        for stream, of in found.items()
    }


class Taken(NamedTuple):
    """The records that one run takes from an archive.

    Attributes:
        lines: The records, as a DataFrame.
        is_empty: Whether there are no records.
        cut: The cut after these records, at which the next run begins.
        warning: A warning for the user, or None.
    """

    lines: DataFrame
    is_empty: bool
    cut: Cut
    warning: str | None = None


def take(rows: DataFrame, topology: Topology, before: Cut, *, to_end: bool, holes: bool) -> Taken:
    """Return the records after `before`: with `to_end` all of them, otherwise up to a new cut.

    The new cut is chosen so that no future record can arrive before it.

    Raises:
        InputError: The result would differ from that of a single run over the whole archive.
    """
    rows = log_order.select_beyond(rows, before.offsets)
    ends = log_order.find_log_ends(rows, before, holes=holes)
    refuse_jumps(ends)
    refuse_ahead(ends, topology, time.time_ns())
    hole = None if holes else cut.find_offset_gap(before, ends)
    if hole is not None:
        raise _make_hole_error(*hole)
    log = cut.find_overtaking_log(before, ends)
    if log is not None:
        raise InputError(
            f"{log}: the archive has records that arrived before the end of an earlier run, so"
            " the tables would differ from those of a single run; run the backfill again into a new"
            " folder, and do not let a topic of the archive pause for an hour"
        )
    activation_ns = min(stream.clock.activation_ns for stream in topology.streams.values())
    lines = log_order.select_new(rows, before, topology.topics.clock, activation_ns)
    if to_end:
        # Some records beyond the cut's offsets may have been taken already, so only `lines` shows
        # whether any remain.
        is_empty = not ends if before.until_ns is None else lines.isEmpty()
        return Taken(
            lines,
            is_empty,
            cut.behind(before, ends, {}, before.until_ns),
            warn_of_unstamped(ends, topology),
        )
    until_ns = cut.find_complete_ns(before, ends)
    if until_ns is None:
        return Taken(lines, is_empty=True, cut=before)
    parted = log_order.split_lines(lines, until_ns)
    after = cut.behind(before, ends, parted.left, until_ns)
    due = lines.where(lines["due_ns"] < until_ns)
    return Taken(due, not parted.taken, after, warn_of_unstamped(ends, topology))


class ReadArchive(NamedTuple):
    """The function of a reading task: it packs sorted records into parcels.

    The records of each task are one piece.
    """

    setting: Setting

    def __call__(self, taken: Iterable[Any]) -> Iterator[Any]:
        task_process.begin()
        context = TaskContext.get()
        assert context is not None
        piece = context.partitionId()
        yield from to_batches(self._read(piece, taken))

    def _read(self, piece: int, taken: Iterable[Any]) -> Iterator[Parcel]:
        topology = topology_of(self.setting)
        packer = Packer(piece, Groups(topology), topology.reading(), archived=True)
        lines = RecordLines(topology)
        rows = DumpedRows(lines, _await_schemas(lines, taken), _clock_of)
        yield from packer.pack(rows)
        yield from packer.rest(rows.lines)


class RecordLines:
    """A converter from records to the lines that `inorder dump` prints."""

    def __init__(self, topology: Topology) -> None:
        self._clock_topic = topology.topics.clock
        inputs = {stream.input for stream in topology.streams.values()}
        # Each executor reads the master keys from its own environment, so that none is sent to it.
        self._lines = TopicLines(topology, inputs, masters_in(os.environ))

    def line(self, values: Mapping[str, Any], clock: ArrivalClock) -> JsonObject | None:
        """Return the line of a record, or None for a clock record that is not a clock line.

        `values` has the columns `log_order.COLUMNS` and `stamp_ms`. `clock` is the arrival clock of
        the record's partition.
        """
        record = _to_record(values)
        line = self._lines.line(record, clock)
        if line is None or record.topic != self._clock_topic:
            return line
        return {**line, OF_TOPIC: record.offset}

    def await_schemas(self, batch: Iterable[Mapping[str, Any]]) -> None:
        """Wait until the registry, if there is one, has sent the schemas of these records."""
        asyncio.run(self._lines.await_schemas(map(_to_record, batch)))


def _to_record(values: Mapping[str, Any]) -> Record:
    headers = [(each["key"], each["value"]) for each in values["headers"] or ()]
    return Record._make((*_PLAIN(values), headers, values["stamp_ms"], LOG_APPEND_TIME))


_PLAIN: Final = itemgetter("topic", "partition", "offset", "key", "value")


class DumpedRows:
    """An iterable that converts records to rows.

    `lines` counts the rows yielded. `clock_of` returns the arrival clock of a record.
    """

    def __init__(
        self,
        lines: RecordLines,
        records: Iterable[Mapping[str, Any]],
        clock_of: Callable[[Mapping[str, Any]], ArrivalClock],
    ) -> None:
        self._lines = lines
        self._records = records
        self._clock_of = clock_of
        self.lines = 0

    def __iter__(self) -> Iterator[Row]:
        for record in self._records:
            line = self._lines.line(record, self._clock_of(record))
            if line is not None:
                self.lines += 1
                yield Row(self.lines, orjson.loads(orjson.dumps(line)))


def _await_schemas(lines: RecordLines, taken: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the records, batch by batch, after the schemas of each batch have been fetched."""
    for batch in taken:
        listed = batch.to_pylist()
        lines.await_schemas(listed)
        yield from listed


def _clock_of(record: Mapping[str, Any]) -> ArrivalClock:
    clock = ArrivalClock(0, judges=False)
    clock.now_ns = record["arrival_ms"] * NS_PER_MS
    return clock
