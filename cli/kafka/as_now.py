"""Shifts a recording to the present, for `inorder produce --as-now`.

Stamps and arrivals move by the same time, so they stay apart as they were. A worker of
`inorder dev` thus measures the clocks and waits of the recording. The last arrival becomes the
instant at which the last record is published, so none is in the future.

The shift is cut to whole steps of the windows of the topology, so each window has the rows that it
has in a replay. So the last record may be older than now, by less than such a step. Windows whose
steps have no common multiple within `LONGEST_STEP_NS` begin elsewhere than in a replay. The stamps
in a topic have ms, so arrivals are cut to them.

A topic with LogAppendTime keeps no arrival of a producer. There only `--speed 1` brings records as
far apart as they were, and the shift is not cut, because stamps must fit the arrivals.

The times of a row are in the row itself, so it is written anew. A number is moved in its unit, and
a text becomes RFC 3339 in UTC. Cost: the file is read twice. Memory: one row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from math import lcm
from typing import Any, Final

import orjson

from inorder import rfc3339
from inorder.contract import UNIT_NS
from producers.replayer import ReplayPace
from recordings.values import FileMapping
from topology.base.event import Event
from topology.config import Topology, WindowQuery
from topology.records.line_reader import Content
from topology.records.values import follow_path
from topology.records.where import Where

NS_PER_S: Final = 1_000_000_000
STEP_NS: Final = 60 * NS_PER_S
"""The least step of a shift, by which times of day keep their seconds."""

LONGEST_STEP_NS: Final = 24 * 3600 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Extent:
    """The arrivals of a recording: the first and the last, in ns, and how many there are."""

    first_ns: int
    last_ns: int
    events: int

    def planned_ns(self, pace: ReplayPace) -> int:
        """Return how long after its begin a playback may publish the last record.

        It is no longer than the recording. A slower playback publishes records after their arrival.
        """
        span_ns = self.last_ns - self.first_ns
        if pace.rate_per_s is not None:
            return min(span_ns, int(self.events / pace.rate_per_s * NS_PER_S))
        return 0 if pace.speed is None else min(span_ns, int(span_ns / pace.speed))


def extent_of(contents: Iterable[Content]) -> Extent | None:
    """Return the extent of a recording; None if it has no event."""
    first_ns = last_ns = events = 0
    for content in contents:
        if isinstance(content, Event):
            first_ns = first_ns if events else content.arrival_ns
            last_ns = max(last_ns, content.arrival_ns)
            events += 1
    return Extent(first_ns, last_ns, events) if events else None


def step_of(topology: Topology | None) -> int:
    """Return the time to a multiple of which a shift is cut, in ns."""
    steps = [STEP_NS]
    windows = {} if topology is None else topology.queries_of(WindowQuery)
    for query in windows.values():
        steps += [query.window.step_ns, query.emits_every_ns]
    step_ns = lcm(*(each for each in steps if each))
    return step_ns if step_ns <= LONGEST_STEP_NS else STEP_NS


def shift_of(extent: Extent, now_ns: int, pace: ReplayPace, step_ns: int) -> int:
    """Return the time to add to a recording whose playback begins at `now_ns`."""
    by_ns = now_ns + extent.planned_ns(pace) - extent.last_ns
    return by_ns - by_ns % step_ns


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of all times of a recording.

    Attributes:
        by_ns: The time that is added, a whole number of the unit of the file's times.
        values: The mapping of the file; None if it has inorder's own form.
    """

    by_ns: int
    values: FileMapping | None = None

    def row(self, event: Event, *, in_ns: bool) -> dict[str, Any]:
        """Return the values of an event's line in inorder's own form, with both times moved.

        `in_ns` states that the reader takes a number in `ts` as nanoseconds.
        """
        ts_ns = event.ts_ns + self.by_ns
        ts: int | str = ts_ns if in_ns else rfc3339.format_ns(ts_ns)
        return {**event.record, "ts": ts, "arrival": event.arrival_ns + self.by_ns}

    def event(self, event: Event) -> Event:
        """Move the times of the event of a row of any file, and those in its value."""
        assert self.values is not None
        fields = self.values.fields
        value = orjson.loads(event.value)
        for where in dict.fromkeys((fields.ts, self.values.arrival)):
            if where is not None and where.place == "payload":
                self._move(value, where, UNIT_NS[fields.ts_unit], event)
        event.value = orjson.dumps(value)
        event.ts_ns += self.by_ns
        event.arrival_ns += self.by_ns
        return event

    def _move(self, value: Any, where: Where, unit_ns: int, event: Event) -> None:
        """Move the time at this place of a value, if there is one."""
        *way, last = where.path
        holder, given = follow_path(value, tuple(way)), follow_path(value, where.path)
        if given is None or not isinstance(holder, dict | list):
            return
        assert self.values is not None
        is_arrival = where == self.values.arrival and where != self.values.fields.ts
        then_ns = event.record["arrival"] if is_arrival else event.ts_ns
        holder[last] = move(given, then_ns, self.by_ns, unit_ns)  # type: ignore[index]


def move(given: object, then_ns: int, by_ns: int, unit_ns: int) -> object:
    """Return a time as it is written in a row, moved; `then_ns` is the instant that it means."""
    if isinstance(given, int):
        return given + by_ns // unit_ns
    if isinstance(given, float):
        return float(Decimal(repr(given)) + Decimal(by_ns) / unit_ns)
    return rfc3339.format_ns(then_ns + by_ns)
