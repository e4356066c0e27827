"""A backfill as one job of Spark: pieces read side by side, dealt to groups, groups ordered."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from cli.recording.file import InputError
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
from cli.summary import Summary
from spark_analytics.backfill.groups import Groups, slots
from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import Place
from topology.config import Topology

ROWS_AT_ONCE: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_TASKS: Final = 1_000
"""That order; what are more groups share them."""


def setting_of(path: str, topology: Topology) -> Setting:
    """What tasks are told of the topology file at `path`."""
    functions = topology.functions
    if not functions:
        return Setting(Path(path).read_text(encoding="utf-8"))
    own = Path(path).parent / functions
    return Setting(Path(path).read_text(encoding="utf-8"), own.read_text(), functions)


def run(
    spark: SparkSession,
    setting: Setting,
    topology: Topology,
    inputs: Sequence[str],
    place: Place,
    tasks: int | None = None,
) -> Summary:
    """All tables, published in `place`. InputError if an input cannot be read."""
    started_s = time.perf_counter()
    pieces = pieces_of(inputs)
    groups = Groups(topology)
    tasks = min(len(groups), MOST_TASKS) if tasks is None else tasks
    slot_of = slots(spark, tasks)
    by_group = [slot_of[group % tasks] for group in range(len(groups))]
    read = ReadPieces(setting, pieces, by_group)
    with _few_rows_at_once(spark):
        numbers = spark.range(0, len(pieces), 1, len(pieces))
        parcels = numbers.mapInArrow(read.__call__, PARCELS)
        files, summary = _ordered(parcels, OrderGroups(setting, place.staged), tasks)
    summary.took(time.perf_counter() - started_s, summary.cpu_seconds)
    place.publish(files, summary.document())
    return summary


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
