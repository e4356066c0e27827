"""A backfill as one job of Spark: pieces read side by side, dealt to groups, groups ordered."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cli.recording.file import InputError
from cli.spark.backfill.archived import (
    ReadArchive,
    in_order,
    is_archive,
    records,
    refuse_holes,
)
from cli.spark.backfill.pieces import pieces_of
from cli.spark.backfill.work import (
    FILE,
    PARCELS,
    PARCELS_AT_ONCE,
    SUMMARY,
    TOLD,
    OrderGroups,
    ReadPieces,
    Setting,
)
from cli.spark.shipping import shipped
from cli.summary import Summary
from spark_analytics.backfill.groups import Groups, slots
from spark_analytics.backfill.kinds import TABLES
from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import Place
from spark_analytics.tables.catalog import Format
from spark_analytics.tables.lake import open_lake
from spark_analytics.tables.shapes import Shape
from topology.config import Topology

ROWS_AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
OWNER: Final = "inorder spark backfill"
SHAPE: Final = Shape(("stream", "position"), ("stream",), order=("stream", "position"))
MOST_TASKS: Final = 1_000
"""That order; what are more groups share them."""


def setting_of(path: str, topology: Topology) -> Setting:
    """What tasks are told of the topology file at `path`."""
    functions = topology.functions
    if not functions:
        return Setting(Path(path).read_text(encoding="utf-8"))
    own = Path(path).parent / functions
    return Setting(Path(path).read_text(encoding="utf-8"), own.read_text(), functions)


class Wanted(NamedTuple):
    """`tasks`: how many order, side by side; None: one for each group. `holes`: whether offsets may
    be missing in an archive. `form`: of the tables."""

    inputs: Sequence[str]
    out: str
    form: Literal["parquet"] | Format = "parquet"
    tasks: int | None = None
    holes: bool = False


def run(
    spark: SparkSession, setting: Setting, topology: Topology, wanted: Wanted, place: Place
) -> Summary:
    """All tables, published in `place`. InputError if an input cannot be read."""
    started_s = time.perf_counter()
    groups = Groups(topology)
    tasks = min(len(groups), MOST_TASKS) if wanted.tasks is None else wanted.tasks
    slot_of = slots(spark, tasks)
    by_group = [slot_of[group % tasks] for group in range(len(groups))]
    with shipped(spark), _few_rows_at_once(spark):
        parcels = _parcels(spark, setting, topology, wanted, by_group)
        files, summary = _ordered(parcels, OrderGroups(setting, place.staged), tasks)
    place.complete(files)
    summary.took(time.perf_counter() - started_s, summary.cpu_seconds)
    account = summary.document()
    if wanted.form == "parquet":
        place.publish(account)
    else:
        form: Format = wanted.form
        place.publish_by(lambda: _write_lake(spark, form, place.staged, wanted.out), account)
    return summary


def _parcels(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    wanted: Wanted,
    slot_of: Sequence[int],
) -> DataFrame:
    archives = [path for path in wanted.inputs if is_archive(path)]
    if archives:
        if len(archives) < len(wanted.inputs):
            other = next(path for path in wanted.inputs if path not in archives)
            raise InputError(
                f"{archives[0]} is an archive, {other} is not, and nobody says which lines come"
                " first; name archives alone, or files alone"
            )
        rows = records(spark, archives, topology)
        if not wanted.holes:
            refuse_holes(rows)
        return in_order(rows, topology).mapInArrow(ReadArchive(setting, slot_of).__call__, PARCELS)
    pieces = pieces_of(wanted.inputs)
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    return numbers.mapInArrow(ReadPieces(setting, pieces, slot_of).__call__, PARCELS)


def _write_lake(spark: SparkSession, form: Format, staged: str, out: str) -> None:
    lake = open_lake(spark, form, out, owner=OWNER)
    for table in TABLES:
        lake.append(table, spark.read.parquet(f"{staged}/{table}"), SHAPE)


def _ordered(parcels: DataFrame, order: OrderGroups, tasks: int) -> tuple[list[File], Summary]:
    told = (
        parcels.repartition(tasks, "slot")
        .selectExpr("*", "number > 0 AS later")
        .sortWithinPartitions("group", "later", "piece", "number")
        .drop("later")
        .mapInArrow(order.__call__, TOLD)
    )
    return folded(told.collect())


def folded(told: Iterable[Any]) -> tuple[list[File], Summary]:
    """What the tasks that order have told, put together. InputError if an input was none."""
    files: list[File] = []
    summary = Summary()
    for row in told:
        if row.word == FILE:
            files.append(File(row.table, row.name, row.rows))
        elif row.word == SUMMARY:
            summary.add(pickle.loads(bytes(row.told)))
        else:
            raise InputError(row.name)
    return files, summary


@contextmanager
def _few_rows_at_once(spark: SparkSession) -> Iterator[None]:
    """Rows are large here."""
    before = spark.conf.get(ROWS_AT_ONCE)
    spark.conf.set(ROWS_AT_ONCE, str(PARCELS_AT_ONCE))
    try:
        yield
    finally:
        spark.conf.set(ROWS_AT_ONCE, before or "10000")
