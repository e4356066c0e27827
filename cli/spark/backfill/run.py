"""A backfill as one job of Spark: pieces read side by side, dealt to groups, groups ordered."""

from __future__ import annotations

import marshal
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cli.recording.file import InputError
from cli.signing import master_keys
from cli.spark.backfill.archived import (
    ReadArchive,
    in_order,
    is_archive,
    records,
    refuse_holes,
)
from cli.spark.backfill.archived import (
    places as places_of,
)
from cli.spark.backfill.pieces import NOTHING, files_of, pieces_of
from cli.spark.backfill.setting import Setting, digest
from cli.spark.backfill.work import (
    PARCELS,
    PARCELS_AT_ONCE,
    TOLD,
    OrderGroups,
    ReadPieces,
)
from cli.spark.shipping import shipped
from cli.summary import Summary
from spark_analytics.backfill import log_order
from spark_analytics.backfill.dealing import slots
from spark_analytics.backfill.groups import Groups
from spark_analytics.backfill.kinds import TABLES
from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import Known, Resumed, begun
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.shapes import Shape
from topology.config import Topology
from topology.wire.stretches import Beginning

ROWS_AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
OWNER: Final = "inorder spark backfill"
SHAPE: Final = Shape(("stream", "position"), ("stream",), order=("stream", "position"))
NS_PER_S: Final = 1_000_000_000
MOST_TASKS: Final = 1_000
"""That order; what are more groups share them."""

Mark = int | Sequence[int]
"""A file as it was: its bytes and the time of its last writing, in ns; of earlier versions the
bytes alone."""


class Wanted(NamedTuple):
    """`tasks`: how many order, side by side; None: one for each group. `holes`: whether offsets may
    be missing in an archive. `form`: of the tables. `to_end`: what is held leaves at the end;
    else the state is kept. `resume`: go on from the state in `out`."""

    inputs: Sequence[str]
    out: str
    form: Literal["parquet"] | Format = "parquet"
    tasks: int | None = None
    holes: bool = False
    to_end: bool = True
    resume: bool = False


class Inputs(NamedTuple):
    """What is read, and what has been, for the run after this one."""

    parcels: DataFrame
    files: Mapping[str, Mark]
    offsets: Mapping[str, int]
    places: Mapping[str, Sequence[str]]
    sources: Mapping[str, Mapping[str, Sequence[str]]]


def run(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    wanted: Wanted,
    place: Place,
    resumed: Resumed | None = None,
) -> Summary:
    """All tables, published in `place`, or added to those of `resumed`. InputError if an input
    cannot be read."""
    started_s = time.perf_counter()
    about = digest(setting)
    order = OrderGroups(setting, place.staged, to_end=wanted.to_end)
    if resumed is not None:
        resumed.require(about)
        order = order._replace(begin=resumed.begin, states=resumed.states())
    groups = Groups(topology)
    tasks = min(len(groups), MOST_TASKS) if wanted.tasks is None else wanted.tasks
    slot_of = slots(spark, tasks)
    by_group = [slot_of[group % tasks] for group in range(len(groups))]
    with shipped(spark), _few_rows_at_once(spark):
        inputs = _inputs(spark, setting, topology, wanted, by_group, resumed)
        told = _ordered(inputs.parcels, order, tasks)
    told.summary.took(time.perf_counter() - started_s, told.summary.cpu_seconds)
    now: Known | None = None
    if not wanted.to_end:
        now = {
            "run": 1 if resumed is None else resumed.known["run"] + 1,
            "topology": about,
            "begin": told.end,
            "files": inputs.files,
            "offsets": inputs.offsets,
            "places": inputs.places,
            "sources": inputs.sources,
            "states": told.states,
        }
    _publish(spark, wanted, place, resumed, told, now)
    return told.summary


def _publish(
    spark: SparkSession,
    wanted: Wanted,
    place: Place,
    resumed: Resumed | None,
    told: Told,
    now: Known | None,
) -> None:
    account = told.summary.document()
    if resumed is not None:
        resumed.add(place, told.files, now, account)
        return
    place.complete(told.files)
    if now is not None:
        begun(place, now)
    if wanted.form == "parquet":
        place.publish(account)
    else:
        form: Format = wanted.form
        place.publish_by(lambda: _write_lake(spark, form, place.staged, wanted.out), account)


def _inputs(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    wanted: Wanted,
    slot_of: Sequence[int],
    resumed: Resumed | None,
) -> Inputs:
    known: Known = {} if resumed is None else resumed.known
    files: dict[str, Mark] = dict(known.get("files", {}))
    offsets: dict[str, int] = dict(known.get("offsets", {}))
    places: dict[str, Sequence[str]] = dict(known.get("places", {}))
    sources: dict[str, dict[str, Sequence[str]]] = dict(known.get("sources", {}))
    archives = [path for path in wanted.inputs if is_archive(path)]
    pieces = [NOTHING]
    if archives:
        if len(archives) < len(wanted.inputs):
            other = next(path for path in wanted.inputs if path not in archives)
            raise InputError(
                f"{archives[0]} is an archive, {other} is not, and nobody says which lines come"
                " first; name archives alone, or files alone"
            )
        master_keys(topology, {stream.input for stream in topology.streams.values()})
        rows = records(spark, archives, topology)
        if not wanted.holes:
            refuse_holes(rows)
        rows = log_order.beyond(rows, offsets)
        offsets |= log_order.ends(rows)
        if not wanted.to_end:
            for stream, lies in places_of(rows, topology).items():
                known_of = sources.setdefault(stream, {})
                for source, where in lies.items():
                    known_of[source] = sorted({*where, *known_of.get(source, ())})
                    places[stream] = sorted({*where, *places.get(stream, ())})
        if not rows.isEmpty():
            read = ReadArchive(setting, slot_of)
            parcels = in_order(rows, topology).mapInArrow(read.__call__, PARCELS)
            return Inputs(parcels, files, offsets, places, sources)
    else:
        new = new_files(files_of(wanted.inputs), files)
        # Before they are cut: what is added to a file meanwhile changes it, for the next run.
        marks = {path: mark_of(path) for path in new if Path(path).exists()}
        pieces = pieces_of(new) or [NOTHING]
        files |= marks
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    reads = ReadPieces(setting, pieces, slot_of)
    parcels = numbers.mapInArrow(reads.__call__, PARCELS)
    return Inputs(parcels, files, offsets, places, sources)


def mark_of(path: str) -> list[int]:
    """By what it is seen that a file has changed: its bytes, and when it was written to, in ns."""
    stat = Path(path).stat()
    return [stat.st_size, stat.st_mtime_ns]


def new_files(paths: Sequence[str], known: Mapping[str, Mark]) -> list[str]:
    """Those that no earlier run has read. InputError if one has changed since."""
    new = []
    for path in paths:
        if path not in known:
            new.append(path)
        elif (changed := _changed(mark_of(path), known[path])) is not None:
            raise InputError(
                f"{path}: has changed since a run has read it ({changed}); put what is new into"
                " files of their own, or backfill anew into a new folder"
            )
    return new


def _changed(now: Sequence[int], known: Mark) -> str | None:
    """What is other than it was. Where a time is not known, or not told, the size decides."""
    size, written_ns = (known, 0) if isinstance(known, int) else known
    if now[0] != size:
        return f"{size:,} bytes then, {now[0]:,} now"
    if written_ns and now[1] and now[1] != written_ns:
        seconds, rest_ns = divmod(written_ns, NS_PER_S)
        return (
            "as many bytes, but written to at another time; if they are the same, give it back"
            f" its time: touch -d @{seconds}.{rest_ns:09d}"
        )
    return None


def _write_lake(spark: SparkSession, form: Format, staged: str, out: str) -> None:
    lake = open_lake(spark, form, out, owner=OWNER)
    for table in TABLES:
        lake.append(table, spark.read.parquet(f"{staged}/{table}"), SHAPE)


class Told(NamedTuple):
    """What the tasks that order have told: `states` by group, `end` a Beginning."""

    files: list[File]
    summary: Summary
    states: dict[int, str]
    end: tuple[Any, ...]


def _ordered(parcels: DataFrame, order: OrderGroups, tasks: int) -> Told:
    told = (
        parcels.repartition(tasks, "slot")
        .selectExpr("*", "number > 0 AS later")
        .sortWithinPartitions("group", "later", "piece", "number")
        .drop("later")
        .mapInArrow(order.__call__, TOLD)
    )
    return folded(told.collect())


def folded(rows: Iterable[Any]) -> Told:
    """Put together. InputError if an input was none."""
    files: list[File] = []
    summary = Summary()
    states: dict[int, str] = {}
    end: tuple[Any, ...] = tuple(Beginning())
    for row in sorted(rows, key=lambda row: int(row.group)):
        match row.word:
            case "file":
                files.append(File(row.table, row.name, row.rows))
            case "summary":
                summary.add(pickle.loads(bytes(row.told)))
            case "state":
                states[row.group] = row.name
                end = marshal.loads(bytes(row.told))
            case _:
                raise InputError(row.name)
    return Told(files, summary, states, end)


@contextmanager
def _few_rows_at_once(spark: SparkSession) -> Iterator[None]:
    """Rows are large here."""
    before = spark.conf.get(ROWS_AT_ONCE)
    spark.conf.set(ROWS_AT_ONCE, str(PARCELS_AT_ONCE))
    try:
        yield
    finally:
        spark.conf.set(ROWS_AT_ONCE, before or "10000")
