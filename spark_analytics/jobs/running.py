"""Run a job's tables, once over the existing records or as continuous queries.

`run_bounded` writes each table as batch 0. `Running` starts a query for each table, with its own
checkpoint in the job's folder, and waits. A restart repeats at most the last batch, which the
outputs allow (`outputs`).

A checkpoint belongs to a job, its topics with their ids, window, keys, schema and outputs. They are
written beside it (`about`). Another job is refused, and so is a topic that was deleted and created
again. A new checkpoint is refused if there are tables of an earlier one, because its batches would
begin at 0 again and mix with theirs.

A query without an interval processes the existing records and ends. Spark's own trigger for that
asks the source once for its end. A query that also runs batches without records ends when nothing
was read for `Table.rest_s`.

Only the caller can see some reasons to stop, for example that a topic was created again. The
`guard` checks for these reasons every GUARD_S, when a query fails, and at the end. Between these
checks Java is not called: a listener (`watching`) reports the batches and the ends of queries.

Java receives a failed batch's error as one line (`to_java_error`), and Python keeps the error
itself. When a query is stopped during a batch, Spark searches that line for Java's names of an
interruption. Its regular expression uses stack for every character. A Java trace, which pyspark
would include, overflows the stack. The query's thread would then end without an error for us.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_analytics.jobs.errors import first_line
from spark_analytics.jobs.outputs import Output, persist
from spark_analytics.jobs.watching import Watch, settle
from spark_analytics.jobs.work import Group, Part, Table
from spark_analytics.session import require_java

Named = TypeVar("Named", Group, Part)

AT_ONCE: Final = "0 seconds"
POLL_S: Final = 0.1
GUARD_S: Final = 5.0
CALL_FAILED: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling"
INTERRUPTIONS: Final = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""The names of interruptions that Spark searches for, after `CALL_FAILED`, in a Python error."""


COLUMNS: Final = "columns"
"""The key in `about` for the version of the tables' columns; messages do not show it."""


class JobFailed(RuntimeError):
    """The error of a query that has ended by itself, or must not continue; the message says why."""


class CheckpointRefused(ValueError):
    """The error of a checkpoint that this job cannot use; the message says why."""


def run_bounded(tables: Sequence[Table], output: Output, folder: str) -> None:
    """Write all tables once; `folder` is passed to tables with their own `store` function."""
    for table in tables:
        _write(table, table.rows, output, folder, 0)


def _write(table: Table, rows: DataFrame, output: Output, folder: str, batch: int) -> None:
    if table.groups:
        with persist(rows) as records:
            for group in _select_present(table.groups, "topic", records, batch):
                own = records.where(F.col("topic").isin(*group.topics))
                with nullcontext(own) if group.rows is None else persist(group.of(own)) as kept:
                    _write_parts(group.parts, kept, output, batch)
    elif table.parts:
        with persist(rows) as kept:
            parts = _select_present(table.parts, table.named_by, kept, batch)
            _write_parts(parts, kept, output, batch)
    elif table.store is not None:
        table.store(rows, f"{folder}/{table.name}", batch)
    else:
        output.write(rename_offset(rows), table.name, table.keys, batch)


def _write_parts(parts: Sequence[Part], kept: DataFrame, output: Output, batch: int) -> None:
    for part in parts:
        output.write(rename_offset(part.pick(kept)), part.name, part.keys, batch)


def rename_offset(rows: DataFrame) -> DataFrame:
    """Rename the column `offset`, a keyword in SQL, to the name in a backfill's tables."""
    return rows.withColumnRenamed("offset", "position")


def _select_present(
    found: Sequence[Named], named_by: str | None, kept: DataFrame, batch: int
) -> Sequence[Named]:
    """Return the tables to write for this batch: all, or those that have rows in it.

    All are written in the first batch, and if no column (`named_by`) names the table of a row.
    """
    if named_by is None or batch == 0:
        return found
    there = {row[0] for row in kept.select(named_by).distinct().collect()}
    return [each for each in found if not there.isdisjoint(each.named)]


def claim(
    spark: SparkSession, checkpoint: str, about: Mapping[str, Any], there: Sequence[str] = ()
) -> None:
    """Record the job that the checkpoint belongs to.

    Raises:
        CheckpointRefused: The checkpoint belongs to something else, or it is new although tables
            of an earlier run (`there`) exist.
    """
    path = f"{checkpoint}/about"
    try:
        line = spark.read.text(path).head()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        line = None
    mine = json.loads(json.dumps(about))
    if line is None and there:
        raise CheckpointRefused(
            f"there is no checkpoint at {checkpoint}, but there are tables of an earlier run:"
            f" {', '.join(there)}; remove these too, or name the --checkpoint of that run"
        )
    if line is None:
        row = spark.range(1).select(F.lit(json.dumps(mine)).alias("value"))
        row.coalesce(1).write.mode("overwrite").text(path)
        return
    theirs = json.loads(line[0])
    other = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
    if other:
        difference = "; ".join(
            f"{key}: {theirs.get(key)} there, {mine.get(key)} now"
            for key in other
            if key != COLUMNS
        )
        difference = difference or "another version made its tables, with other columns"
        raise CheckpointRefused(
            f"{checkpoint} was made with other settings ({difference}); name another"
            " --checkpoint and --out, or remove it and its tables to start from the beginning of"
            " the topics"
        )


class Running:
    """The running queries of a job.

    `interval` is the time between batches (`10 seconds`); with None the queries process the
    existing records and end. `guard` raises JobFailed if the job must not continue.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        output: Output,
        folder: str,
        checkpoint: str,
        interval: str | None,
        guard: Callable[[], None] | None = None,
    ) -> None:
        self._stopping = False
        self._goes_on = interval is not None
        self._failures: dict[str, Exception] = {}
        """Errors in writing, by table; Java would hide them in its own stack trace."""

        self._guard = guard or (lambda: None)
        self.watch = Watch(frozenset(table.name for table in tables))
        for table in tables:
            require_java(table.rows.sparkSession, "a stream")
        self._streams = tables[0].rows.sparkSession.streams
        self._streams.addListener(self.watch)
        self.queries: list[StreamingQuery] = []
        for table in tables:
            write = self._writer(table, output, folder)
            query = _start(table, write, checkpoint, interval)
            self.queries.append(query)
            if self._goes_on:
                continue
            if table.rest_s is not None:
                at_rest = query, self.watch, table.rest_s
                threading.Thread(target=_end_when_at_rest, args=at_rest, daemon=True).start()

    def wait(self) -> None:
        """Wait until all queries have ended, or `stop` was called.

        Raises:
            JobFailed: A query ended with an error, or unexpectedly, or has dropped a row. Or the
                guard refuses to continue.
        """
        due_s = time.monotonic() + GUARD_S
        try:
            while not self._stopping and any(query.isActive for query in self.queries):
                self._examine()
                self._wait_until(due_s)
                if time.monotonic() > due_s:
                    self._guard()
                    due_s = time.monotonic() + GUARD_S
            self._examine()
            for query in self.queries if not self._goes_on else ():
                self._refuse_dropped(query.name, settle(query))
            self._guard()
        finally:
            self.watch.ended = True
            for query in self.queries:
                query.stop()
            self._streams.removeListener(self.watch)

    def _wait_until(self, due_s: float) -> None:
        """Wait without calling Java, until a query changes, `stop` is called or `due_s` is past.

        `stop` sets no event, since a signal handler may call it during this wait.
        """
        while not self._stopping and time.monotonic() < due_s:
            if self.watch.changed.wait(POLL_S):
                self.watch.changed.clear()
                return

    def stop(self) -> None:
        """Make `wait` return; the next run repeats work that was not committed."""
        self._stopping = True

    def _writer(self, table: Table, output: Output, folder: str) -> Callable[..., None]:
        def write(rows: DataFrame, batch: int) -> None:
            try:
                _write(table, rows, output, folder, batch)
            except Exception as error:  # noqa: BLE001 - raised again, in few words
                self._failures[table.name] = error
                raise to_java_error(error) from None

        return write

    def _examine(self) -> None:
        for query in self.queries:
            # `isActive` is read first: once it is False, `exception` returns the error, if there is
            # one.
            was_active = query.isActive
            error = query.exception()
            if error is not None:
                self._guard()  # The guard may raise a more precise reason.
                known = self._failures.get(query.name, error)
                raise JobFailed(f"{query.name}: {first_line(known)}") from known
            if self._goes_on and not was_active and not self._stopping:
                raise JobFailed(f"{query.name}: has ended; only the log of Spark has the reason")
            self._refuse_dropped(query.name, self.watch.figures[query.name].dropped)

    def _refuse_dropped(self, name: str, dropped: int) -> None:
        if dropped:
            self._guard()
            raise JobFailed(
                f"{name}: {dropped} rows were below the watermark, and no window counts them; check"
                " that this topology's merge writes the topic, and run the job with --batch"
            )


def _start(
    table: Table, write: Callable[..., None], checkpoint: str, interval: str | None
) -> StreamingQuery:
    writer = table.rows.writeStream.queryName(table.name).foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{checkpoint}/{table.name}")
    if interval is None and table.rest_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval or AT_ONCE).start()


def _end_when_at_rest(query: StreamingQuery, watch: Watch, rest_s: float) -> None:
    """Stop the query once it has searched for new records for `rest_s` and found none.

    This asks the listener, not Java; the listener also reports any other end of the query.
    """
    rows, looks, since_s = 0, 0, time.monotonic()
    while not watch.ended:
        found = watch.figures[query.name]
        if found.rows != rows:
            rows, looks, since_s = found.rows, found.looks, time.monotonic()
        elif found.looks > looks and time.monotonic() - since_s > rest_s:
            break
        time.sleep(POLL_S)
    with suppress(PySparkException, Py4JError, ConnectionError):
        query.stop()


def to_java_error(error: Exception) -> RuntimeError:
    """Return the exception to pass to Java: one line, or the name of an interruption."""
    text = str(error)
    cut = next((name for name in INTERRUPTIONS if name in text), None)
    return RuntimeError(first_line(error) if cut is None else f"{CALL_FAILED} {cut}")
