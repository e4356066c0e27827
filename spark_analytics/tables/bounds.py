"""Bound the rows that a MERGE may replace, by conditions derived from the new rows.

A MERGE that compares keys alone reads the whole table, since an id may be in any file. Values that
a key determines exclude files that cannot contain it:

* A time that is part of the key is between the smallest and the largest of the new rows.
* The id of a result determines its query. For some queries, such as those with tumbling windows,
  the id also determines the start (`shapes.Settled`).

The conditions contain constants instead of columns of the new rows. Only constants can be compared
with partitions and with the bounds of files before the format reads any file. Times are grouped by
day, so that a late correction of last year does not span the whole year. If there are more than
MAX_SPANS spans, those of a query are merged into one, beginning with the query that has the most.

The cost is one aggregation of the new rows, which the caller has persisted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from spark_analytics.tables.shapes import Shape

MAX_SPANS: Final = 64
"""The maximum number of time spans in the condition of a MERGE."""

US_PER_DAY: Final = 86_400_000_000
NS_PER_DAY: Final = 1_000 * US_PER_DAY


class Span(NamedTuple):
    """The times of new rows: those of one day with one `value` in the determining column.

    Attributes:
        value: The value of the column that the key determines (`Settled.by`).
        least: The smallest of the times; None if no row has a time.
        most: The largest of the times.
        has_null: Whether a row has no time.
        is_any: Whether matching rows may have any time.
    """

    value: Any
    least: int | None = None
    most: int | None = None
    has_null: bool = False
    is_any: bool = False


def bounds(rows: DataFrame, shape: Shape, day: str | None = None) -> list[str]:
    """Return SQL conditions that hold for every row `t` of the table with a key of `rows`.

    `rows` must not be empty. The result is empty if the key determines no other column. `day` is a
    column of the table with the day of `day_of`, by which files are partitioned.
    """
    settled = shape.settled
    if settled is not None:
        by, time = F.col(settled.by), settled.time
        timed = F.coalesce(by.isin(*sorted(settled.timed)), F.lit(False))
    elif shape.day_of is not None and shape.day_of in shape.keys:
        by, time, timed = F.lit(""), shape.day_of, F.lit(True)
    else:
        return []
    spans = reduce_spans(_spans(rows, by, time, timed))
    name = None if settled is None else f"t.{quote(settled.by)}"
    spelled = _instant if _is_instant(rows, time) else _long
    is_timed = not all(span.is_any for span in spans)
    said = [
        _join_with_or(_write_condition(span, name, f"t.{quote(time)}", spelled) for span in spans)
    ]
    if is_timed and day is not None and time == shape.day_of:
        # Delta prunes by a condition on partitions only if it is separate from all others, and does
        # not mention the query.
        said.append(
            _join_with_or(_write_condition(span, name, f"t.{quote(day)}", _day) for span in spans)
        )
    elif is_timed and name is not None:
        values = dict.fromkeys(span.value for span in spans)
        said.append(_join_with_or(f"{name} <=> {_text(value)}" for value in values))
    return said


def reduce_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge the spans of a value until at most MAX_SPANS remain, or one for each value."""
    of: dict[Any, list[Span]] = {}
    for span in spans:
        of.setdefault(span.value, []).append(span)
    count = sum(map(len, of.values()))
    while count > max(MAX_SPANS, len(of)):
        value = max(of, key=lambda each: len(of[each]))
        count -= len(of[value]) - 1
        of[value] = [_merge_spans(value, of[value])]
    return [span for each in of.values() for span in each]


def _merge_spans(value: Any, spans: list[Span]) -> Span:
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


def _write_condition(span: Span, by: str | None, time: str, spelled: Callable[[int], str]) -> str:
    said = [] if by is None else [f"{by} <=> {_text(span.value)}"]
    if not span.is_any:
        said.append(_join_with_or(_times(span, time, spelled)))
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


def _join_with_or(said: Iterable[str]) -> str:
    return f"({' OR '.join(said)})"


def _is_instant(rows: DataFrame, time: str) -> bool:
    return isinstance(rows.schema[time].dataType, TimestampType)


def _text(value: str | None) -> str:
    """Return the value as a SQL literal."""
    if value is None:
        return "NULL"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quote(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
