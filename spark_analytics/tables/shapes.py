"""Define the keys, partitions and sort order of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructType, TimestampType


@dataclass(frozen=True)
class Settled:
    """The columns that a key determines, although they are not part of it.

    Attributes:
        by: A column that every key determines.
        time: A column that a key determines if the value of `by` is in `timed`.
        timed: The values of `by` for which all rows of a key have the same `time`.
    """

    by: str
    time: str
    timed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shape:
    """The keys, partitions and sort order of a table.

    Attributes:
        keys: The columns that identify a row.
        apart: Columns by which files are partitioned.
        day_of: The timestamp by whose day files are also partitioned.
        order: The sort order within a file, by which a query for an hour skips most of it.
        newer: The column that decides which of two rows of one key is current: the higher one.
        settled: The columns that a key determines, although they are not part of it (`bounds`).
    """

    keys: Sequence[str]
    apart: Sequence[str] = ()
    day_of: str | None = None
    order: Sequence[str] = ()
    newer: str | None = None
    settled: Settled | None = None

    def within(self, schema: StructType) -> Shape:
        """Return the shape restricted to the columns of this schema."""
        columns = schema.fieldNames()
        has_day = self.day_of in columns and isinstance(schema[self.day_of].dataType, TimestampType)
        settled = self.settled
        is_settled = settled is not None and {settled.by, settled.time} <= set(columns)
        return Shape(
            [name for name in self.keys if name in columns],
            [name for name in self.apart if name in columns],
            self.day_of if has_day else None,
            [name for name in self.order if name in columns],
            self.newer if self.newer in columns else None,
            settled if is_settled else None,
        )


EVENT: Final = ("stream", "source", "epoch", "seq")
IN_TIME: Final = ("stream", "ref_time", "source", "epoch", "seq")
PLACE: Final = ("topic", "partition", "position")

RESULTS: Final = Shape(
    *(("id",), ("query",), "start_time", ("query", "start_time")),
    newer="revision",
    settled=Settled("query", "start_time"),
)
"""The shape of a table with the newest revision of each result."""

SHAPES: Final[Mapping[str, Shape]] = {
    "events": Shape(EVENT, ("stream",), "ref_time", IN_TIME),
    "late": Shape(EVENT, ("stream",), "ref_time", IN_TIME),
    "duplicates": Shape(EVENT, ("stream",), "ref_time", IN_TIME),
    "frontiers": Shape(("stream",), order=("stream",), newer="watermark_ns"),
    "gaps": Shape(("stream", "source", "epoch", "first"), ("stream",), order=("stream", "at_ns")),
    "dead": Shape(PLACE, order=PLACE),
    "records": Shape(PLACE, ("topic",), "timestamp", PLACE),
    "bad": Shape(PLACE, order=PLACE),
    "windows_current": RESULTS,
    "matches_current": RESULTS,
    "joins_current": RESULTS,
}
