"""Windows that late events correct: aggregated from the table `events`, merged by key.

A batch is what was added to `events`. The windows that its rows touch are computed anew, each from
all of its events that the table has, and merged into theirs where they count more than before
(`n`). So a window exists from its first event on, and late events change it whenever they come;
the tables that a stream makes are those of a bounded run over all of `events`, whatever was killed
in between. No watermark is waited for, no state is kept, and all streams go in one query.

Windows of reference time have a column `final`: they cannot change. A window is final once it ends
at or before the complete frontier C of its stream, which the job `events` keeps. C is read
before the events are, so a window that is called final counts all that lies before C. A batch looks
into the written windows that are not final yet; those that have become final are computed once
more. So `final` is written with the next batch of events, not when time alone goes on.

Cost: a batch reads, of `events`, the hours that its windows touch (`narrowed`: bounds that the
table's format compares with those of its files), so a late event of last year reads an hour of
last year. A window of open hours is read again by each batch: batches should be longer than
windows, or windows shorter than an hour's data.

Sessions are refused: a late event can join two of them, and MERGE would keep the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.aggregates import Windows
from spark_analytics.jobs.work import JobRefused, Silver, Table

FINAL: Final = "final"
MAX_RANGES: Final = 64
"""Stretches of hours that a query names; beyond that neighbours are taken together."""


@dataclass(frozen=True)
class Corrected:
    """`figures` makes rows with `stream`, `start`, `end` and `n` from events with a `kind`."""

    silver: Silver
    windows: Windows
    figures: Callable[[DataFrame], DataFrame]

    def __post_init__(self) -> None:
        if self.windows.kind == "session":
            raise JobRefused(
                "--silver: a late event can join two sessions, and the second would stay; write a"
                " tumbling or sliding --window, or leave --silver out"
            )

    def table(self, name: str, keys: Sequence[str], *, streaming: bool) -> Table:
        if not streaming:
            complete = self.silver.complete()
            rows = self._judged(self.figures(_kinded(self.silver.rows())), complete)
            return Table(name, rows, keys, newer=self._newer)

        def fold(added: DataFrame) -> DataFrame:
            return self.of_batch(added, name)

        return Table(name, self.silver.stream(), keys, fold=fold, newer=self._newer, chased=True)

    @property
    def _is_judged(self) -> bool:
        return self.windows.time == "ref_time"

    @property
    def _newer(self) -> tuple[str, ...]:
        return ("n", FINAL) if self._is_judged else ("n",)

    def _judged(self, rows: DataFrame, complete: Mapping[str, datetime]) -> DataFrame:
        if not self._is_judged:
            return rows
        return rows.withColumn(FINAL, F.coalesce(_ended(complete), F.lit(False)))

    def of_batch(self, added: DataFrame, name: str) -> DataFrame:
        """The windows that these events touch, and those that are final since, from all events
        there are. `name`: the table they go to."""
        complete = self.silver.complete() if self._is_judged else {}
        window = self.windows.column().alias("_w")
        touched = added.select("stream", window).select("stream", "_w.start", "_w.end")
        known = self.silver.own_table(name, added.sparkSession) if complete else None
        if known is not None and FINAL in known.columns:
            done = known.where(~F.col(FINAL) & _ended(complete))
            touched = touched.unionByName(done.select("stream", "start", "end"))
        hour = F.date_trunc("hour", "start")
        hours = touched.groupBy(hour.alias("hour")).agg(
            F.min("start").alias("start"), F.max("end").alias("end")
        )
        ranges = joined((row.start, row.end) for row in hours.orderBy("start").collect())
        if not ranges:
            return self._judged(self.figures(_kinded(added.limit(0))), complete)
        events = self.silver.rows(added.sparkSession)
        events = events.where(within(F.col(self.windows.time), ranges))
        once = touched.select("stream", "start").distinct()
        found = self.figures(_kinded(events)).join(once, ["stream", "start"], "left_semi")
        return self._judged(found, complete)


def joined(spans: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Spans in order of their start, those that touch made one; at most MAX_RANGES, the nearest
    neighbours taken together."""
    found: list[tuple[Any, Any]] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    while len(found) > MAX_RANGES:
        at = min(range(1, len(found)), key=lambda i: found[i][0] - found[i - 1][1])
        found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
    return found


def within(time: Column, ranges: Sequence[tuple[Any, Any]]) -> Column:
    """At or after the start and before the end of one of them."""
    said = F.lit(False)
    for start, end in ranges:
        said = said | ((time >= F.lit(start)) & (time < F.lit(end)))
    return said


def _ended(complete: Mapping[str, datetime]) -> Column:
    """Whether a window ends where its stream is complete; null for a stream without a frontier."""
    if not complete:
        return F.lit(None).cast("boolean")
    words = [word for name, until in complete.items() for word in (F.lit(name), F.lit(until))]
    return F.col("end") <= F.create_map(*words)[F.col("stream")]


def _kinded(events: DataFrame) -> DataFrame:
    return events.withColumn("kind", F.lit(""))
