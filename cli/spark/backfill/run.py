"""A backfill as one job of Spark: pieces read side by side, dealt to groups, groups ordered."""

from __future__ import annotations

import marshal
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cli.account import warn
from cli.recording.file import InputError
from cli.signing import master_keys
from cli.spark.backfill.archived import (
    ReadArchive,
    Taken,
    in_order,
    is_archive,
    records,
    taken,
)
from cli.spark.backfill.archived import (
    places as places_of,
)
from cli.spark.backfill.pieces import NOTHING, Piece, files_of, pieces_of
from cli.spark.backfill.progress import tracker_of, watched
from cli.spark.backfill.setting import Setting, digest
from cli.spark.backfill.work import (
    PARCELS,
    PARCELS_AT_ONCE,
    TOLD,
    OrderGroups,
    ReadPieces,
)
from cli.spark.shipping import shipped
from cli.spark.tables import secrets_of
from cli.summary import Summary
from spark_analytics.backfill.cut import read as stood
from spark_analytics.backfill.dealing import slots
from spark_analytics.backfill.groups import Groups
from spark_analytics.backfill.in_lake import LakeTables
from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import (
    ENDED,
    Coming,
    Kept,
    Known,
    ParquetTables,
    Resumed,
    begun,
)
from spark_analytics.payload import schema_of
from spark_analytics.tables.catalog import Format, catalog_of
from spark_analytics.tables.lake import open_lake
from topology.config import Topology
from topology.wire.stretches import Beginning

ROWS_AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
OWNER: Final = "inorder spark backfill"
NS_PER_S: Final = 1_000_000_000
REST_NS: Final = 3_600 * NS_PER_S
MOST_TASKS: Final = 1_000
"""That order; what are more groups share them."""

TASKS_A_CORE: Final = 4
"""On one machine, where there are more cores than one: enough that groups of unlike sizes come out
even. A task costs what some hundred events cost."""

Mark = int | Sequence[int]
"""A file as it was: its bytes and the time of its last writing, in ns; of earlier versions the
bytes alone."""


class Wanted(NamedTuple):
    """`tasks`: how many order, side by side; None: `tasks_for` the groups. `holes`: whether offsets
    may be missing in an archive. `form`: of the tables. `to_end`: what is held leaves at the end;
    else the state is kept. `resume`: go on from the state in `out`. `catalog` (Iceberg's) and
    `schema` (of payloads) as on the command line. `rest_ns`: so long a partition of an archive has
    to be silent to be taken for one at rest."""

    inputs: Sequence[str]
    out: str
    form: Literal["parquet"] | Format = "parquet"
    tasks: int | None = None
    holes: bool = False
    to_end: bool = True
    resume: bool = False
    catalog: str | None = None
    schema: str | None = None
    rest_ns: int = REST_NS

    @property
    def kept(self) -> Kept:
        catalog = None if self.catalog is None else self.catalog.partition("?")[0]
        return Kept(self.form, catalog, self.schema)


class Noted(NamedTuple):
    """What has been read, for the run after this one; see `Known`."""

    files: Mapping[str, Mark]
    offsets: Mapping[str, int]
    places: Mapping[str, Sequence[str]]
    sources: Mapping[str, Mapping[str, Sequence[str]]]
    cut: Mapping[str, Any] | None = None


class Inputs(NamedTuple):
    """What is read, and what has been."""

    parcels: DataFrame
    noted: Noted


def run(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    wanted: Wanted,
    place: Place,
    resumed: Resumed | None = None,
) -> Summary | None:
    """All tables, published in `place`, or added to those of `resumed`. None if there was nothing
    more to do than to bring a killed run to its end, which flushed all. InputError if an input
    cannot be read."""
    started_s = time.perf_counter()
    about = digest(setting)
    if resumed is not None:
        resumed.require(about, wanted.kept)
    tables = tables_of(spark, topology, wanted, resumed)
    if resumed is not None and resumed.is_unfinished and resumed.finish(tables):
        return None
    order = OrderGroups(setting, place.staged, to_end=wanted.to_end)
    if resumed is not None:
        order = order._replace(begin=resumed.begin, states=resumed.states())
    groups = Groups(topology)
    tasks = wanted.tasks or min(tasks_for(spark, len(groups)), MOST_TASKS)
    slot_of = slots(spark, tasks)
    by_group = [slot_of[group % tasks] for group in range(len(groups))]
    with shipped(spark), _few_rows_at_once(spark):
        tracker = tracker_of(spark)
        with watched("looking at what there is", tracker):
            inputs = _inputs(spark, setting, topology, wanted, by_group, resumed)
        with watched("reading and ordering", tracker):
            told = _ordered(inputs.parcels, order, tasks)
    told.summary.took(time.perf_counter() - started_s, told.summary.cpu_seconds)
    now: Known = {
        "run": 1 if resumed is None else resumed.known["run"] + 1,
        "topology": about,
        "tables": wanted.kept,
    }
    if wanted.to_end:
        now[ENDED] = True
    else:
        now |= {
            "begin": told.end,
            **inputs.noted._asdict(),
            "states": told.states,
        }
    with watched("bringing the rows into the tables", tracker):
        published(wanted, place, tables, resumed, told, now)
    return told.summary


def tasks_for(spark: SparkSession, parts: int) -> int:
    """So many that share the parts, side by side. Elsewhere than on this machine nobody knows how
    many cores there will be, and each part has a task."""
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        return parts
    cores = context.defaultParallelism
    return min(parts, 1 if cores == 1 else TASKS_A_CORE * cores)


def tables_of(
    spark: SparkSession, topology: Topology, wanted: Wanted, resumed: Resumed | None
) -> ParquetTables | LakeTables:
    """Where the rows go; TablesRefused if they cannot go there."""
    if wanted.form == "parquet":
        return ParquetTables(wanted.out)
    schema = None if wanted.schema is None else schema_of(wanted.schema)
    is_iceberg = wanted.form == "iceberg"
    catalog = catalog_of(wanted.catalog, secrets_of(wanted.catalog)) if is_iceberg else None
    lake = open_lake(spark, wanted.form, wanted.out.rstrip("/"), OWNER, catalog)
    tables = LakeTables(lake, topology, schema)
    is_halfway = resumed is not None and resumed.is_unfinished
    tables.require(made=None if is_halfway else resumed is not None)
    return tables


def published(
    wanted: Wanted,
    place: Place,
    tables: ParquetTables | LakeTables,
    resumed: Resumed | None,
    told: RunTold,
    now: Known,
) -> None:
    """What was told is in the tables; if a first run fails amid them, none of them is left."""
    account = told.summary.document()
    coming = Coming(now["run"], place.staged, told.files, now, account)
    if resumed is not None:
        resumed.add(place, coming, tables)
    elif isinstance(tables, LakeTables):
        place.open()
        try:
            Resumed(wanted.out, first=True).add(place, coming, tables)
        except BaseException:
            with suppress(Py4JError, PySparkException, ConnectionError):
                tables.drop()
            place.take_away()
            raise
    else:
        place.complete(told.files)
        if not wanted.to_end:
            begun(place, now)
        place.publish(account)


def _inputs(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    wanted: Wanted,
    slot_of: Sequence[int],
    resumed: Resumed | None,
) -> Inputs:
    """InputError if archives and files are mixed, or one cannot be read."""
    known: Known = {} if resumed is None else resumed.known
    noted = Noted(
        {place_of(path): mark for path, mark in known.get("files", {}).items()},
        known.get("offsets", {}),
        known.get("places", {}),
        known.get("sources", {}),
        known.get("cut"),
    )
    archives = [path for path in wanted.inputs if is_archive(path)]
    refuse_mixed(wanted.inputs, archives, noted)
    if not archives:
        return _of_files(spark, setting, wanted, slot_of, noted)
    told_ns = known["begin"][1] if noted.offsets else None
    found, noted = _of_archives(spark, topology, wanted, noted, told_ns)
    if found.is_empty:
        return Inputs(_read([NOTHING], spark, setting, slot_of), noted)
    read = ReadArchive(setting, slot_of)
    return Inputs(in_order(found.lines, topology).mapInArrow(read.__call__, PARCELS), noted)


def refuse_mixed(inputs: Sequence[str], archives: Sequence[str], noted: Noted) -> None:
    """InputError if not all `inputs` are `archives`, or runs before have read the other kind: who
    reads files takes no record that an archive has left, and a worker that goes on behind an
    archive believes that nothing came from files."""
    files = [path for path in inputs if path not in archives]
    if archives and files:
        raise InputError(
            f"{archives[0]} is an archive, {files[0]} is not, and nobody says which lines come"
            " first; name archives alone, or files alone"
        )
    if files and noted.offsets:
        raise InputError(
            f"{files[0]}: is no archive, and a run before has read one, of which records may be"
            " left; name that archive again, or backfill the files into a new folder"
        )
    if archives and noted.files:
        raise InputError(
            f"{archives[0]}: is an archive, and a run before has read files"
            f" ({next(iter(noted.files))}); name files again, or backfill the archive into a new"
            " folder"
        )


def _of_files(
    spark: SparkSession,
    setting: Setting,
    wanted: Wanted,
    slot_of: Sequence[int],
    noted: Noted,
) -> Inputs:
    """Those that no earlier run has read."""
    new = new_files(files_of(wanted.inputs), noted.files)
    # Before they are cut: what is added to a file meanwhile changes it, for the next run.
    marks = {place_of(path): mark_of(path) for path in new if Path(path).exists()}
    parcels = _read(pieces_of(new) or [NOTHING], spark, setting, slot_of)
    return Inputs(parcels, noted._replace(files={**noted.files, **marks}))


def _read(
    pieces: Sequence[Piece], spark: SparkSession, setting: Setting, slot_of: Sequence[int]
) -> DataFrame:
    numbers = spark.range(0, len(pieces), 1, tasks_for(spark, len(pieces)))
    return numbers.mapInArrow(ReadPieces(setting, pieces, slot_of).__call__, PARCELS)


def _of_archives(
    spark: SparkSession, topology: Topology, wanted: Wanted, noted: Noted, told_ns: int | None
) -> tuple[Taken, Noted]:
    """The records that this run takes. `told_ns`: the time that the last one has told."""
    master_keys(topology, {stream.input for stream in topology.streams.values()})
    before = stood(noted.offsets, noted.cut)
    rows, lacking = records(spark, wanted.inputs, topology, before.topics, holes=wanted.holes)
    found = taken(
        rows,
        topology,
        before,
        told_ns=told_ns,
        rest_ns=wanted.rest_ns,
        to_end=wanted.to_end,
        holes=wanted.holes,
    )
    for word in filter(None, (lacking, found.warning)):
        warn(word)
    noted = noted._replace(offsets=dict(found.cut.offsets), cut=found.cut.noted())
    if not wanted.to_end:
        noted = _with_places(noted, places_of(found.lines, topology))
    return found, noted


def _with_places(noted: Noted, found: Mapping[str, Mapping[str, Sequence[str]]]) -> Noted:
    """`found`: where in the topics each source of each stream lies, of the records of this run."""
    places, sources = dict(noted.places), {each: dict(of) for each, of in noted.sources.items()}
    for stream, lies in found.items():
        known_of = sources.setdefault(stream, {})
        for source, where in lies.items():
            known_of[source] = sorted({*where, *known_of.get(source, ())})
            places[stream] = sorted({*where, *places.get(stream, ())})
    return noted._replace(places=places, sources=sources)


def mark_of(path: str) -> list[int]:
    """By what it is seen that a file has changed: its bytes, and when it was written to, in ns."""
    stat = Path(path).stat()
    return [stat.st_size, stat.st_mtime_ns]


def place_of(path: str) -> str:
    """By which a file is known, however it is spelled."""
    return str(Path(path).resolve())


def new_files(paths: Sequence[str], known: Mapping[str, Mark]) -> list[str]:
    """Those that no earlier run has read; keys of `known` are places. InputError if one has
    changed since, is named twice, or is new and stands before one that was read: one run would
    have read it before that one."""
    new: dict[str, str] = {}
    for path in paths:
        place = place_of(path)
        if place in new:
            raise InputError(f"{path}: is the file {new[place]}, named twice; name each file once")
        if place not in known:
            new[place] = path
            continue
        if (changed := _changed(mark_of(path), known[place])) is not None:
            raise InputError(
                f"{path}: has changed since a run has read it ({changed}); put what is new into"
                " files of their own, or backfill anew into a new folder"
            )
        if new:
            first = next(iter(new.values()))
            raise InputError(
                f"{first}: stands before {path}, which a run has read, and nobody has read it; name"
                " what is new so that it sorts last (and inputs that grow alone), or backfill anew"
                " into a new folder"
            )
    return list(new.values())


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


class RunTold(NamedTuple):
    """What the tasks that order have told: `states` by group, `end` a Beginning."""

    files: list[File]
    summary: Summary
    states: dict[int, str]
    end: tuple[Any, ...]


def _ordered(parcels: DataFrame, order: OrderGroups, tasks: int) -> RunTold:
    told = (
        parcels.repartition(tasks, "slot")
        .selectExpr("*", "number > 0 AS later")
        .sortWithinPartitions("group", "later", "piece", "number")
        .drop("later")
        .mapInArrow(order.__call__, TOLD)
    )
    return gathered(told.collect())


def gathered(rows: Iterable[Any]) -> RunTold:
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
    return RunTold(files, summary, states, end)


@contextmanager
def _few_rows_at_once(spark: SparkSession) -> Iterator[None]:
    """Rows are large here."""
    before = spark.conf.get(ROWS_AT_ONCE)
    spark.conf.set(ROWS_AT_ONCE, str(PARCELS_AT_ONCE))
    try:
        yield
    finally:
        spark.conf.set(ROWS_AT_ONCE, before or "10000")
