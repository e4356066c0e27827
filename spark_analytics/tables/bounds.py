"""Where rows can lie that a MERGE may replace: conditions that follow from the rows that come.

A MERGE that compares keys alone reads all that there ever was, as an id may lie in any file. What a
key settles besides itself says which files cannot hold one:

* a time that is part of the key lies between the least and the most of what comes;
* an id of results settles its query and, of queries whose results never move (a tumbling window,
  not a session), their start (`shapes.Settled`).

The conditions name values, not columns of the rows that come: only such does a table's format
compare with partitions, and with the bounds of its files, before it reads any. Times are taken
together day by day, so that a late correction of last year does not span the year. Beyond MAX_SPANS
those of a query become one, the query with the most of them first.

Cost: the rows that come are aggregated once, from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from spark_analytics.tables.shapes import Shape

MAX_SPANS: Final = 64
"""Stretches of time that a MERGE names."""

US_PER_DAY: Final = 86_400_000_000
NS_PER_DAY: Final = 1_000 * US_PER_DAY


class Span(NamedTuple):
    """Rows of one `value` of the settling column, of one day. `least`, `most`: of their times;
    None where no row has any. `is_any`: they may lie at any time."""

    value: Any
    least: int | None = None
    most: int | None = None
    has_null: bool = False
    is_any: bool = False


def bounds(rows: DataFrame, shape: Shape, day: str | None = None) -> list[str]:
    """What holds of each row `t` of the table whose key one of `rows`, of which there are some,
    has, in SQL; nothing where the key settles nothing but itself. `day`: a column of the table that
    has the day of `day_of`, by which files are kept apart."""
    settled = shape.settled
    if settled is not None:
        by, time = F.col(settled.by), settled.time
        timed = F.coalesce(by.isin(*sorted(settled.timed)), F.lit(False))
    elif shape.day_of is not None and shape.day_of in shape.keys:
        by, time, timed = F.lit(""), shape.day_of, F.lit(True)
    else:
        return []
    spans = fewer(_spans(rows, by, time, timed))
    name = None if settled is None else f"t.{quoted(settled.by)}"
    spelled = _instant if _is_instant(rows, time) else _long
    is_timed = not all(span.is_any for span in spans)
    said = [_any(_said(span, name, f"t.{quoted(time)}", spelled) for span in spans)]
    if is_timed and day is not None and time == shape.day_of:
        # Delta prunes by conditions on partitions only if they are separate from all others, and
        # not at all if the query is named a second time.
        said.append(_any(_said(span, name, f"t.{quoted(day)}", _day) for span in spans))
    elif is_timed and name is not None:
        values = dict.fromkeys(span.value for span in spans)
        said.append(_any(f"{name} <=> {_text(value)}" for value in values))
    return said


def fewer(spans: Iterable[Span]) -> list[Span]:
    """At most MAX_SPANS, or one for each value."""
    of: dict[Any, list[Span]] = {}
    for span in spans:
        of.setdefault(span.value, []).append(span)
    count = sum(map(len, of.values()))
    while count > max(MAX_SPANS, len(of)):
        value = max(of, key=lambda each: len(of[each]))
        count -= len(of[value]) - 1
        of[value] = [_together(value, of[value])]
    return [span for each in of.values() for span in each]


def _together(value: Any, spans: list[Span]) -> Span:
    return Span(
        value,
        min((span.least for span in spans if span.least is not None), default=None),
        max((span.most for span in spans if span.most is not None), default=None),
        any(span.has_null for span in spans),
        any(span.is_any for span in spans),
    )


def _spans(rows: DataFrame, by: Column, time: str, timed: Column) -> list[Span]:
    is_instant = _is_instant(rows, time)
    at, per_day = (F.unix_micros(time), US_PER_DAY) if is_instant else (F.col(time), NS_PER_DAY)
    found = rows.select(by.alias("value"), timed.alias("timed"), F.when(timed, at).alias("at"))
    days = found.groupBy("value", "timed", F.floor(F.col("at") / per_day).alias("day")).agg(
        F.min("at").alias("least"), F.max("at").alias("most")
    )
    return [
        Span(row.value, row.least, row.most, row.timed and row.least is None, not row.timed)
        for row in days.orderBy("value", "day").collect()
    ]


def _said(span: Span, by: str | None, time: str, spelled: Callable[[int], str]) -> str:
    said = [] if by is None else [f"{by} <=> {_text(span.value)}"]
    if not span.is_any:
        said.append(_any(_times(span, time, spelled)))
    return f"({' AND '.join(said)})"


def _times(span: Span, time: str, spelled: Callable[[int], str]) -> list[str]:
    conditions = [f"{time} IS NULL"] if span.has_null else []
    if span.least is not None and span.most is not None:
        conditions.append(f"({time} >= {spelled(span.least)} AND {time} <= {spelled(span.most)})")
    return conditions


def _instant(time_us: int) -> str:
    return f"timestamp_micros({time_us})"


def _day(time_us: int) -> str:
    return f"CAST({_instant(time_us)} AS DATE)"


def _long(time: int) -> str:
    return f"{time}L"


def _any(said: Iterable[str]) -> str:
    return f"({' OR '.join(said)})"


def _is_instant(rows: DataFrame, time: str) -> bool:
    return isinstance(rows.schema[time].dataType, TimestampType)


def _text(value: str | None) -> str:
    """As a literal of SQL."""
    if value is None:
        return "NULL"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
