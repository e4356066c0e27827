"""How tables are keyed, partitioned and sorted.

`keys` name a row. `day_of` is the timestamp by whose day files are kept apart, beside the columns
`apart`; rows lie in order of `order` within a file, so that a query for an hour skips most of it.
`newer` is the column that decides which of two rows of one key is current: the higher one.
`settled` is what a key determines besides itself
(`bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructType, TimestampType


@dataclass(frozen=True)
class Settled:
    """What a key settles besides itself: the column `by`; where that is one of `timed`, `time` too,
    so that rows of one key have one time."""

    by: str
    time: str
    timed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shape:
    keys: Sequence[str]
    apart: Sequence[str] = ()
    day_of: str | None = None
    order: Sequence[str] = ()
    newer: str | None = None
    settled: Settled | None = None

    def within(self, schema: StructType) -> Shape:
        """What of it a table of these columns can have."""
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
"""The newest word of each."""

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
