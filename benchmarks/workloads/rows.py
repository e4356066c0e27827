"""Define the rows of a workload and their figures, and make events from rows.

The figures use these words. *Descent*: a time below that of the row just before it. *Late*: a time
below the largest seen so far; lateness is that difference. `overtaken`: a sequence number below the
largest seen so far from its source, seen for the first time. *Missing*: a number never seen between
a source's smallest and largest. *Copy*: a number of a source seen before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topology.base.event import Event


class Row(NamedTuple):
    """One arrival of an event; times are in ns."""

    arrival_ns: int
    source: str
    seq: int
    ts_ns: int


@dataclass(slots=True)
class Workload:
    """The rows of a workload, in arrival order.

    `lost` contains the (source, seq) of events that never arrived, and `doubled` of those that
    arrived twice.
    """

    name: str
    seed: int
    rows: list[Row]
    lost: list[tuple[str, int]] = field(default_factory=list)
    doubled: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class Figures:
    """The counts of a list of rows.

    `source_descents` are counted within each source and summed; the other figures of time compare
    rows of all sources.
    """

    n: int = 0
    sources: int = 0
    descents: int = 0
    source_descents: int = 0
    late: int = 0
    overtaken: int = 0
    missing: int = 0
    copies: int = 0
    span_ns: int = 0
    largest_lateness_ns: int = 0
    largest_step_ns: int = 0


@dataclass(slots=True)
class _Seen:
    """The latest time and the numbers seen so far of one source."""

    last_ts_ns: int
    highest: int
    numbers: set[int] = field(default_factory=set)


def figures(rows: Sequence[Row]) -> Figures:
    """Return the figures of `rows`, in O(n) time and memory."""
    found = Figures(n=len(rows))
    if not rows:
        return found
    seen: dict[str, _Seen] = {}
    newest = before = rows[0].ts_ns
    for row in rows:
        found.largest_step_ns = max(found.largest_step_ns, abs(row.ts_ns - before))
        found.descents += row.ts_ns < before
        if row.ts_ns < newest:
            found.late += 1
            found.largest_lateness_ns = max(found.largest_lateness_ns, newest - row.ts_ns)
        before = row.ts_ns
        newest = max(newest, before)
        _count_in_source(found, seen, row)
    found.sources = len(seen)
    found.missing = sum(max(s.numbers) - min(s.numbers) + 1 - len(s.numbers) for s in seen.values())
    found.span_ns = newest - min(row.ts_ns for row in rows)
    return found


def _count_in_source(found: Figures, seen: dict[str, _Seen], row: Row) -> None:
    source = seen.get(row.source)
    if source is None:
        seen[row.source] = _Seen(row.ts_ns, row.seq, {row.seq})
        return
    found.source_descents += row.ts_ns < source.last_ts_ns
    source.last_ts_ns = row.ts_ns
    if row.seq in source.numbers:
        found.copies += 1
    elif row.seq < source.highest:
        found.overtaken += 1
    source.numbers.add(row.seq)
    source.highest = max(source.highest, row.seq)


def in_arrival_order(rows: Iterable[Row]) -> list[Row]:
    """Return the rows sorted by arrival; rows of one instant keep their order."""
    return sorted(rows, key=lambda row: row.arrival_ns)


def to_events(rows: Iterable[Row], stream: str = "default", epoch: int = 0) -> list[Event]:
    """Return the events of `rows`, whose `offset` is the position in the list.

    If `epoch` is `topology.base.event.NO_EPOCH`, the events have no epoch.
    """
    return [
        Event(stream, row.source, epoch, row.seq, row.ts_ns, row.arrival_ns, offset)
        for offset, row in enumerate(rows)
    ]
