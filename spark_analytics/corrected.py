"""Windows that late events correct: aggregated from the table `events`, merged by key.

A batch is what was added to `events`. The windows that its rows touch are computed anew, each from
all of its events that the table has, and merged into theirs where they count more than before
(`n`). So a window stands from its first event on, and late events change it whenever they come;
the tables that a stream makes are those of a bounded run over all of `events`, whatever was killed
in between. No watermark is waited for, no state is kept, and all streams go in one query.

Cost: a batch reads, of `events`, the hours that its windows touch (`narrowed`: bounds that the
table's format compares with those of its files), so a late event of last year reads an hour of
last year. A window of open hours is read again by each batch: batches should be longer than
windows, or windows shorter than an hour's data.

Sessions are refused: a late event can make one of two, and MERGE would leave the other standing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.aggregates import Windows
from spark_analytics.work import JobRefused, Silver, Table

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
            return Table(name, self.figures(_kinded(self.silver.rows())), keys, newer="n")
        added = self.silver.stream()
        return Table(name, added, keys, fold=self.of_batch, newer="n", chased=True)

    def of_batch(self, added: DataFrame) -> DataFrame:
        """The windows that these events touch, from all events there are."""
        window = self.windows.column().alias("_w")
        touched = added.select("stream", window).select("stream", "_w.start", "_w.end")
        hour = F.date_trunc("hour", "start")
        hours = touched.groupBy(hour.alias("hour")).agg(
            F.min("start").alias("start"), F.max("end").alias("end")
        )
        ranges = joined((row.start, row.end) for row in hours.orderBy("start").collect())
        if not ranges:
            return self.figures(_kinded(added.limit(0)))
        events = self.silver.rows(added.sparkSession)
        events = events.where(within(F.col(self.windows.time), ranges))
        once = touched.select("stream", "start").distinct()
        return self.figures(_kinded(events)).join(once, ["stream", "start"], "left_semi")


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


def _kinded(events: DataFrame) -> DataFrame:
    return events.withColumn("kind", F.lit(""))
