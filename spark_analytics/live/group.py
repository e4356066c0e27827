"""One group of streams, from batch to batch: lines come, those that nothing can precede any more go
through the operators, and what follows is told.

What a group is told of time is up to when the log is known (`spark_analytics.live.lanes`), so its
answers are those of a replay of the same log, however Spark cuts it into batches.

Proved by: tests/spark_analytics/live/test_live_law.py
"""

from __future__ import annotations

import marshal
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from spark_analytics.backfill import parcels
from spark_analytics.backfill.groups import Groups
from spark_analytics.backfill.kinds import TABLE_OF
from spark_analytics.backfill.parcels import DECLARED, content_of
from spark_analytics.live.lanes import (
    HIDDEN,
    MOST_HIDDEN,
    Lane,
    LaneName,
    Lanes,
    Stretch,
    Waiting,
)
from spark_analytics.live.state import Common, Held, Stood, entry, snapshot
from spark_analytics.live.told import OVERTAKEN
from topology.clock.sample import Declared, Sample
from topology.config import Topology
from topology.flow.batches import batches
from topology.flow.instants import whole_instants
from topology.flow.replay import Replay
from topology.model.outcome import Step
from topology.wire.json_lines import JsonObject, step_lines
from topology.wire.line_reader import Content

MAX_WAITING: Final = 1_000_000


class TooManyWait(Exception):
    """Some partition is too far behind the others; the message says what to do."""


class LaneParcel(NamedTuple):
    """As tasks that read give it. `number` 0: the content is a stretch; else lines of it. The
    lane HIDDEN has no content."""

    name: LaneName
    first: int
    number: int
    content: bytes


class ToldLine(NamedTuple):
    """A line, and its place among those of its stream and table."""

    table: str
    position: int
    line: JsonObject


class LiveGroup:
    """`names`: all partitions that are read. `stood`: where it stood, where that is known;
    `activation_ns` as for `inorder dump`."""

    def __init__(
        self,
        topology: Topology,
        group: int,
        names: Iterable[LaneName],
        stood: Stood | None = None,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        groups = Groups(topology)
        self._topology = topology
        self._max_waiting = max_waiting
        streams = topology.streams.values()
        self._activation_ns = min(stream.clock.activation_ns for stream in streams)
        # Those of no stream are told which there are.
        streams_here = groups.streams[group] or list(topology.streams)
        self._hears = group != groups.strange
        self._replay = Replay(topology, streams_here, hears=self._hears)
        self._held: Held = {}
        self._heard: list[Sample | Declared] = []
        self._common = Common(Lanes({}))
        if stood is not None:
            self._common, self._held = stood.common, stood.held
            saved = stood.saved()
            if saved is not None:
                self._replay.restore(saved)
        for name in names:
            self._common.lanes.lanes.setdefault(name, Lane())

    def take(self, taken: Sequence[LaneParcel], quiet_ns: int) -> list[ToldLine]:
        """What follows from a batch. Lanes of which it took nothing were at their ends at
        `quiet_ns`. TooManyWait if lines beyond the bound wait."""
        lanes, waiting = self._common.lanes, self._common.waiting
        told: list[ToldLine] = []
        for parcel in sorted(taken, key=attrgetter("name", "first", "number")):
            name = parcel.name
            if name == HIDDEN:
                lanes.hide()
                continue
            if not parcel.number:
                stretch = Stretch(name, parcel.first, *marshal.loads(parcel.content))
                begin_ns, come = lanes.begin_of(name), lanes.come(name)
                is_late = begin_ns > lanes.lanes[name].clock_ns  # then time has been told
                lanes.add(stretch)
                continue
            for packed in marshal.loads(parcel.content):
                later_ns = self._activation_ns if packed[0] == DECLARED else 0
                arrival_ns = max(packed[2], begin_ns + later_ns)
                if is_late and packed[2] < begin_ns + later_ns:
                    told.append(self._overtaken(packed, begin_ns))
                waiting.append(Waiting(arrival_ns, name, come + packed[1] - 1, packed))
        waiting.sort(key=_order)
        told += self._advance(lanes.time_ns(quiet_ns))
        if len(waiting) > self._max_waiting:
            raise TooManyWait(self._too_many())
        return told

    def rest(self, quiet_ns: int) -> list[ToldLine]:
        """What follows from nothing having come up to then."""
        return self._advance(self._common.lanes.time_ns(quiet_ns))

    def due_ns(self) -> int | None:
        """`rest` says nothing before."""
        due_ns = self._replay.next_deadline_ns()
        if self._common.waiting:
            waits_ns = self._common.waiting[0].arrival_ns
            return waits_ns if due_ns is None else min(due_ns, waits_ns)
        return due_ns

    def snapshot(self) -> bytes:
        """All of it, for `folded`."""
        told, self._held = snapshot(self._replay, self._common)
        self._heard = []
        return told

    def entry(self) -> bytes:
        """What is other than when this or `snapshot` was last called."""
        told, self._held = entry(self._replay, self._held, self._heard, self._common)
        self._heard = []
        return told

    def _advance(self, time_ns: int) -> list[ToldLine]:
        lanes, waiting = self._common.lanes, self._common.waiting
        if time_ns <= lanes.told_ns:
            return []
        until = bisect_left(waiting, time_ns, key=_arrival)
        numbered = lanes.numbered(waiting[:until])
        contents = [content_of(line.packed, line.arrival_ns, at) for line, at in numbered]
        del waiting[:until]
        words = [each for each in contents if isinstance(each, Sample | Declared)]
        if self._hears:
            self._heard += words
        lanes.let_go(time_ns, len(words))
        told = []
        for step in whole_instants(self._steps(contents, time_ns), self._topology):
            told += [self._told(TABLE_OF[line["kind"]], line) for line in step_lines(step)]
        return told

    def _steps(self, contents: Iterable[Content], time_ns: int) -> Iterator[Step]:
        for inputs, until_ns in batches(contents):
            step = self._replay.on_inputs(inputs, time_ns if until_ns is None else until_ns)
            if step is not None:
                yield step
        yield self._replay.on_others(time_ns)

    def _told(self, table: str, line: JsonObject) -> ToldLine:
        positions = self._common.positions
        at = (line["stream"], table)
        position = positions.get(at, 0)
        positions[at] = position + 1
        return ToldLine(table, position, line)

    def _overtaken(self, packed: tuple[Any, ...], begin_ns: int) -> ToldLine:
        return self._told(OVERTAKEN, overtaken_line(packed, begin_ns))

    def _too_many(self) -> str:
        lanes = self._common.lanes.lanes
        name = min(lanes, key=lambda each: lanes[each].promised_ns)
        waits = f"{len(self._common.waiting):,} lines wait for {name.topic}/{name.partition}, which"
        batches = len(lanes[name].hidden)
        if not batches:
            return (
                f"{waits} is read more slowly than the other partitions; raise --max-waiting, and"
                " memory with it"
            )
        return (
            f"{waits} had no record in the last {batches} batches, where some partition had marks"
            f" of transactions alone; after {MOST_HIDDEN} such they wait no longer: raise"
            f" --max-waiting to {MOST_HIDDEN} times --max-per-batch, or lower the latter"
        )


def overtaken_line(packed: tuple[Any, ...], taken_ns: int) -> JsonObject:
    """What is told about a record that arrived before the time that had been told."""
    line: JsonObject = {"kind": "overtaken", "stream": None, "source": None, "seq": None}
    if packed[0] == parcels.EVENT:
        line |= {"stream": packed[4], "source": packed[5], "seq": packed[7]}
    elif packed[0] != parcels.DEAD:
        line["source"] = packed[3]
    return {**line, "arrival": packed[2], "at": taken_ns}


def _order(line: Waiting) -> tuple[int, LaneName, int]:
    return line.arrival_ns, line.name, line.place


def _arrival(line: Waiting) -> int:
    return line.arrival_ns
