"""Run a backfill as one Spark job: tasks read pieces in parallel, then order groups of streams."""

from __future__ import annotations

import marshal
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from recordings.file import InputError
from recordings.summary import Summary
from spark_analytics.backfill.archived import (
    ReadArchive,
    RecordLines,
    Taken,
    is_archive,
    records,
    take,
)
from spark_analytics.backfill.archived import find_places as places_of
from spark_analytics.backfill.cut import read as read_cut
from spark_analytics.backfill.in_lake import LakeTables
from spark_analytics.backfill.kinds import File
from spark_analytics.backfill.log_order import in_order
from spark_analytics.backfill.parcels import Groups
from spark_analytics.backfill.pieces import NOTHING, Piece, files_of, pieces_of
from spark_analytics.backfill.place import Place
from spark_analytics.backfill.resuming import (
    ENDED,
    Known,
    ParquetTables,
    PendingRows,
    Resumed,
    TableForm,
    begin_run,
)
from spark_analytics.backfill.stretches import Beginning
from spark_analytics.backfill.work import PARCELS, PARCELS_AT_ONCE, REPORT, OrderGroups, ReadPieces
from spark_analytics.executors.setting import Setting, digests, topology_of
from spark_analytics.executors.shipping import ship
from spark_analytics.payload import schema_of
from spark_analytics.tables.catalog import Format, catalog_of
from spark_analytics.tables.lake import open_lake
from topology.config import Topology

ROWS_AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
OWNER: Final = "inorder spark backfill"
NS_PER_S: Final = 1_000_000_000
MOST_TASKS: Final = 1_000
"""The maximum number of ordering tasks; if there are more groups, groups share a task."""

TASKS_A_CORE: Final = 4
"""The number of tasks per core on one machine with several cores.

Four are enough to balance groups of different sizes. A task costs as much as a few hundred events.
"""

TRIED: Final = 32
"""The number of integers per task that `find_task_slots` tries first, before it doubles it."""

Warn = Callable[[str], object]

Mark = Sequence[int]
"""The size of a file in bytes and the time of its last write in ns, when a run read it."""


class Options(NamedTuple):
    """The user's options for a backfill.

    `inputs` are files or archives, `out` is the folder of the tables, and `form` their format. With
    `holes` offsets may be missing in an archive. With `to_end` buffered events are emitted at the
    end; otherwise the state is kept. With `resume` the run continues from the state in `out`.
    `catalog` (Iceberg's) and `schema` (of payloads) are as on the command line.
    """

    inputs: Sequence[str]
    out: str
    form: Literal["parquet"] | Format = "parquet"
    holes: bool = False
    to_end: bool = True
    resume: bool = False
    catalog: str | None = None
    schema: str | None = None

    @property
    def table_form(self) -> TableForm:
        catalog = None if self.catalog is None else self.catalog.partition("?")[0]
        return TableForm(self.form, catalog, self.schema)


class ReadInput(NamedTuple):
    """Notes on the input that has been read, for the next run; see `Known`."""

    files: Mapping[str, Mark] = {}
    offsets: Mapping[str, int] = {}
    places: Mapping[str, Sequence[str]] = {}
    sources: Mapping[str, Mapping[str, Sequence[str]]] = {}
    cut: Mapping[str, Any] | None = None


def run(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    options: Options,
    place: Place,
    resumed: Resumed | None = None,
    warn: Warn = print,
) -> Summary | None:
    """Write all tables: publish them in `place`, or add to those of `resumed`.

    `warn` is called with each warning for the user.

    Returns:
        The summary. It is None if the only work was to finish a killed run that had emitted all
        buffered events.

    Raises:
        InputError: An input cannot be read.
    """
    started_s = time.perf_counter()
    about = digests(setting)
    if resumed is not None:
        resumed.find_new_queries(about, options.table_form)
    tables = tables_of(spark, topology, options, resumed)
    if resumed is not None and resumed.is_unfinished and resumed.finish(tables):
        return None
    order = OrderGroups(setting, place.staged, to_end=options.to_end)
    if resumed is not None:
        order = order._replace(begin=resumed.begin, states=resumed.states())
    known: Known = {"run": 0} if resumed is None else resumed.known
    with ship(spark), _limit_batch_rows(spark):
        parcels, recorded = _read_input(spark, setting, options, known, warn)
        output = _order(spark, parcels, order, len(Groups(topology)))
    output.summary.set_times(time.perf_counter() - started_s, output.summary.cpu_seconds)
    now: Known = {"run": known["run"] + 1, "topology": about, "tables": options.table_form}
    if options.to_end:
        now[ENDED] = True
    else:
        now |= {"begin": output.end, **recorded._asdict(), "states": output.states}
    publish(options, place, tables, resumed, output, now)
    return output.summary


def find_task_slots(spark: SparkSession, tasks: int) -> list[int]:
    """Return an integer for each task, such that Spark assigns a row with it to that task.

    Spark assigns rows by the hash of a column, so integers are tried until each task has one.
    """
    found: dict[int, int] = {}
    tried = TRIED * tasks
    while len(found) < tasks:
        dealt = F.expr(f"pmod(hash(cast(id AS INT)), {tasks})")
        rows = spark.range(0, tried, 1, 1).select("id", dealt.alias("task")).collect()
        found = {row["task"]: row["id"] for row in rows}
        tried *= 2
    return [found[task] for task in range(tasks)]


def tasks_for(spark: SparkSession, parts: int) -> int:
    """Return the number of tasks among which to divide this number of parts.

    On a cluster the number of cores is unknown, so each part gets its own task.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        return parts
    cores = context.defaultParallelism
    return min(parts, 1 if cores == 1 else TASKS_A_CORE * cores)


def tables_of(
    spark: SparkSession, topology: Topology, options: Options, resumed: Resumed | None
) -> ParquetTables | LakeTables:
    """Return the tables to write to.

    Raises:
        TablesRefused: The tables exist already, are absent, or do not fit the run.
    """
    if options.form == "parquet":
        return ParquetTables(options.out)
    schema = None if options.schema is None else schema_of(options.schema)
    catalog = catalog_of(options.catalog)
    lake = open_lake(spark, options.form, options.out.rstrip("/"), OWNER, catalog)
    tables = LakeTables(lake, topology, schema)
    is_halfway = resumed is not None and resumed.is_unfinished
    tables.require(made=None if is_halfway else resumed is not None)
    return tables


def publish(
    options: Options,
    place: Place,
    tables: ParquetTables | LakeTables,
    resumed: Resumed | None,
    output: RunOutput,
    now: Known,
) -> None:
    """Add the output to the tables; if a first run fails to do so, remove all of them."""
    account = output.summary.document()
    pending = PendingRows(now["run"], place.staged, output.files, now, account)
    if resumed is not None:
        resumed.add(place, pending, tables)
    elif isinstance(tables, LakeTables):
        place.open()
        try:
            Resumed(options.out, first=True).add(place, pending, tables)
        except BaseException:
            with suppress(Py4JError, PySparkException, ConnectionError):
                tables.drop()
            place.remove_created()
            raise
    else:
        place.complete(output.files)
        if not options.to_end:
            begin_run(place, now)
        place.publish(account)


def _read_input(
    spark: SparkSession, setting: Setting, options: Options, known: Known, warn: Warn
) -> tuple[DataFrame, ReadInput]:
    """Return the input that no earlier run has read, as parcels, and the notes on it.

    Raises:
        InputError: Archives and files are mixed, or one cannot be read.
    """
    recorded = ReadInput(**{name: known[name] for name in ReadInput._fields if name in known})
    recorded = recorded._replace(
        files={canonical_path(path): mark for path, mark in recorded.files.items()}
    )
    archives = [path for path in options.inputs if is_archive(path)]
    refuse_mixed(options.inputs, archives, recorded)
    if not archives:
        return _read_files(spark, setting, options, recorded)
    topology = topology_of(setting)
    found, recorded = _read_archives(spark, topology, options, recorded, warn)
    if found.is_empty:
        return _read([NOTHING], spark, setting), recorded
    ordered = in_order(found.lines, topology.topics.clock)
    return ordered.mapInArrow(ReadArchive(setting).__call__, from_arrow_schema(PARCELS)), recorded


def refuse_mixed(inputs: Sequence[str], archives: Sequence[str], recorded: ReadInput) -> None:
    """Raise InputError if only some `inputs` are `archives`, or earlier runs read the other kind.

    A run over files does not read the records that an archive has left. A worker that continues
    after an archive assumes that nothing came from files.
    """
    files = [path for path in inputs if path not in archives]
    if archives and files:
        raise InputError(
            f"{archives[0]} is an archive, but {files[0]} is not, so the order of their lines is"
            " unknown; name only archives, or only files"
        )
    if files and recorded.offsets:
        raise InputError(
            f"{files[0]}: is not an archive, but an earlier run has read one and may have left"
            " records in it; name that archive again, or backfill the files into a new folder"
        )
    if archives and recorded.files:
        raise InputError(
            f"{archives[0]}: is an archive, but an earlier run has read files"
            f" ({next(iter(recorded.files))}); name files again, or backfill the archive into a new"
            " folder"
        )


def _read_files(
    spark: SparkSession, setting: Setting, options: Options, recorded: ReadInput
) -> tuple[DataFrame, ReadInput]:
    """Return the files that no earlier run has read, as parcels, and the notes on them."""
    new = new_files(files_of(options.inputs), recorded.files)
    # The sizes are read before the files are cut. A file that grows meanwhile then counts as
    # changed in the next run.
    marks = {canonical_path(path): mark_of(path) for path in new if Path(path).exists()}
    parcels = _read(pieces_of(new) or [NOTHING], spark, setting)
    return parcels, recorded._replace(files={**recorded.files, **marks})


def _read(pieces: Sequence[Piece], spark: SparkSession, setting: Setting) -> DataFrame:
    numbers = spark.range(0, len(pieces), 1, tasks_for(spark, len(pieces)))
    return numbers.mapInArrow(ReadPieces(setting, pieces).__call__, from_arrow_schema(PARCELS))


def _read_archives(
    spark: SparkSession, topology: Topology, options: Options, recorded: ReadInput, warn: Warn
) -> tuple[Taken, ReadInput]:
    """Return the records that this run takes, and the notes on them."""
    # The constructor raises an error if master keys are missing, before any task does.
    RecordLines(topology)
    before = read_cut(recorded.offsets, recorded.cut)
    rows, lacking = records(spark, options.inputs, topology, before.topics, holes=options.holes)
    found = take(rows, topology, before, to_end=options.to_end, holes=options.holes)
    for word in filter(None, (lacking, found.warning)):
        warn(word)
    recorded = recorded._replace(offsets=dict(found.cut.offsets), cut=found.cut.record())
    if not options.to_end:
        recorded = _add_partitions(recorded, places_of(found.lines, topology))
    return found, recorded


def _add_partitions(
    recorded: ReadInput, found: Mapping[str, Mapping[str, Sequence[str]]]
) -> ReadInput:
    """Return the notes with the partitions of each stream's sources in this run (`found`) added."""
    places, sources = (
        dict(recorded.places),
        {each: dict(of) for each, of in recorded.sources.items()},
    )
    for stream, logs in found.items():
        known_of = sources.setdefault(stream, {})
        for source, where in logs.items():
            known_of[source] = sorted({*where, *known_of.get(source, ())})
            places[stream] = sorted({*where, *places.get(stream, ())})
    return recorded._replace(places=places, sources=sources)


def mark_of(path: str) -> list[int]:
    """Return the size of a file in bytes and the time of its last write in ns."""
    stat = Path(path).stat()
    return [stat.st_size, stat.st_mtime_ns]


def canonical_path(path: str) -> str:
    """Return the canonical path of a file: absolute, and without symbolic links."""
    return str(Path(path).resolve())


def new_files(paths: Sequence[str], known: Mapping[str, Mark]) -> list[str]:
    """Return the files that no earlier run has read; the keys of `known` are canonical paths.

    Raises:
        InputError: A file has changed since a run read it, or is named twice. Or a new file sorts
            before one that was read, so a single run would have read it first.
    """
    new: dict[str, str] = {}
    for path in paths:
        place = canonical_path(path)
        if place in new:
            raise InputError(f"{path}: is the same file as {new[place]}; name each file once")
        if place not in known:
            new[place] = path
            continue
        if (changed := _change(mark_of(path), known[place])) is not None:
            raise InputError(
                f"{path}: has changed since a run read it ({changed}); put new lines into new"
                " files, or run the backfill again into a new folder"
            )
        if new:
            first = next(iter(new.values()))
            raise InputError(
                f"{first}: sorts before {path}, which a run has read, but is new; rename new files"
                " so that they sort last, name a growing folder last, or run the backfill again"
                " into a new folder"
            )
    return list(new.values())


def _change(now: Sequence[int], known: Mark) -> str | None:
    """Return how a file has changed, or None; if a time is 0, only the sizes are compared."""
    size, written_ns = known
    if now[0] != size:
        return f"{size:,} bytes then, {now[0]:,} now"
    if written_ns and now[1] and now[1] != written_ns:
        seconds, rest_ns = divmod(written_ns, NS_PER_S)
        return (
            "the same size, but another time of the last write; if the content is the same, restore"
            f" the time: touch -d @{seconds}.{rest_ns:09d}"
        )
    return None


class RunOutput(NamedTuple):
    """The combined reports of the ordering tasks.

    Attributes:
        files: The files that they wrote.
        summary: The sum of their summaries.
        states: The name of the state file of each group.
        end: The fields of the Beginning for the next run.
    """

    files: list[File]
    summary: Summary
    states: dict[int, str]
    end: tuple[Any, ...]


def _order(spark: SparkSession, parcels: DataFrame, order: OrderGroups, groups: int) -> RunOutput:
    """Order the groups, divided evenly among tasks, and return the combined reports."""
    tasks = min(tasks_for(spark, groups), MOST_TASKS)
    slot_of = F.from_json(F.lit(str(find_task_slots(spark, tasks))), "ARRAY<INT>")
    reports = (
        parcels.repartition(tasks, F.get(slot_of, F.col("group") % tasks))
        .selectExpr("*", "number > 0 AS later")
        .sortWithinPartitions("group", "later", "piece", "number")
        .drop("later")
        .mapInArrow(order.__call__, from_arrow_schema(REPORT))
    )
    return gather(reports.collect())


def gather(rows: Iterable[Any]) -> RunOutput:
    """Return the combined reports of the tasks; raise InputError if a piece was unreadable."""
    files: list[File] = []
    summary = Summary()
    states: dict[int, str] = {}
    end: tuple[Any, ...] = tuple(Beginning())
    for row in sorted(rows, key=lambda row: int(row.group)):
        match row.word:
            case "file":
                files.append(File(row.table, row.name, row.rows))
            case "summary":
                summary.add(pickle.loads(bytes(row.content)))
            case "state":
                states[row.group] = row.name
                end = marshal.loads(bytes(row.content))
            case _:
                raise InputError(row.name)
    return RunOutput(files, summary, states, end)


@contextmanager
def _limit_batch_rows(spark: SparkSession) -> Iterator[None]:
    """Limit Spark's Arrow batches to few rows within the context, because rows are large."""
    before = spark.conf.get(ROWS_AT_ONCE)
    spark.conf.set(ROWS_AT_ONCE, str(PARCELS_AT_ONCE))
    try:
        yield
    finally:
        spark.conf.set(ROWS_AT_ONCE, before or "10000")
