"""Running a job's tables: once over what there is, or as queries that go on.

`run_bounded` writes each table as batch 0. `Running` starts a query for each table, with a
checkpoint of its own below the job's, and waits. A batch is written by `foreachBatch`, so a
restart repeats at most the last batch, which the outputs bear (`outputs`).

A checkpoint belongs to what it was made for: job, topics with their ids, table, window,
keys, schema. That is written beside it (`about`), and another job, or a topic that was
deleted and made again, is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_analytics.jobs import Table
from spark_analytics.outputs import Output

POLL_S: Final = 0.5
STOP_TIMEOUT_S: Final = 60.0


class JobFailed(RuntimeError):
    """A query ended by itself; the message says which and why."""


class CheckpointRefused(ValueError):
    """The checkpoint was made for something else."""


def run_bounded(tables: Sequence[Table], output: Output, folder: str) -> None:
    """Write all tables once; `folder` is for tables that store themselves."""
    for table in tables:
        _write(table, table.rows, output, folder, 0)


def _write(table: Table, rows: DataFrame, output: Output, folder: str, batch: int) -> None:
    if table.fold is not None:
        rows = table.fold(rows)
    if table.store is not None:
        table.store(rows, f"{folder}/{table.name}", batch)
    else:
        output.write(rows, table.name, table.keys, batch)


def claim(spark: SparkSession, checkpoint: str, about: Mapping[str, Any]) -> None:
    """Write down what the checkpoint is for; CheckpointRefused if it says otherwise."""
    path = f"{checkpoint}/about"
    try:
        line = spark.read.text(path).head()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        line = None
    mine = json.loads(json.dumps(about))
    if line is None:
        spark.createDataFrame([(json.dumps(mine),)], "value string").coalesce(1).write.mode(
            "overwrite"
        ).text(path)
        return
    theirs = json.loads(line[0])
    other = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
    if other:
        told = "; ".join(f"{key}: {theirs.get(key)} there, {mine.get(key)} now" for key in other)
        raise CheckpointRefused(
            f"{checkpoint} belongs to something else ({told}); name another --checkpoint, or"
            " remove it to start from the beginning of the topics"
        )


class Running:
    """The queries of a job. `interval` is the time between batches (`10 seconds`); None: do
    what there is and end."""

    def __init__(
        self,
        tables: Sequence[Table],
        output: Output,
        folder: str,
        checkpoint: str,
        interval: str | None,
    ) -> None:
        self._stopping = False
        self.queries: list[StreamingQuery] = []
        for table in tables:
            self.queries.append(_start(table, output, folder, checkpoint, interval))

    def wait(self) -> None:
        """Until all have ended, or `stop` was called; JobFailed if one ends with an error
        or has dropped a row."""
        try:
            while not self._stopping and any(query.isActive for query in self.queries):
                self._examine()
                time.sleep(POLL_S)
            self._examine()
        finally:
            for query in self.queries:
                query.stop()

    def stop(self) -> None:
        """Let `wait` return: what is not committed is done again next time."""
        self._stopping = True

    def _examine(self) -> None:
        for query in self.queries:
            error = query.exception()
            if error is not None:
                raise JobFailed(f"{query.name}: {first_line(error)}") from error
            dropped = dropped_rows(query)
            if dropped:
                raise JobFailed(
                    f"{query.name}: the watermark had passed {dropped} rows, which are in no"
                    " window; is the topic written by this topology's merge? Run it with --batch"
                )


def _start(
    table: Table, output: Output, folder: str, checkpoint: str, interval: str | None
) -> StreamingQuery:
    def write(rows: DataFrame, batch: int) -> None:
        _write(table, rows, output, folder, batch)

    writer = table.rows.writeStream.queryName(table.name).foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{checkpoint}/{table.name}")
    if interval is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval).start()


def dropped_rows(query: StreamingQuery) -> int:
    """What its watermark has made it drop, as far as its latest batches tell."""
    return sum(
        operator.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for operator in progress.stateOperators
    )


def first_line(error: BaseException) -> str:
    """What Spark says, without its stack."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = str(error.desc if isinstance(error, StreamingQueryException) else error)  # type: ignore[attr-defined]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(part for part in (condition, lines[0] if lines else "") if part)[:500]
