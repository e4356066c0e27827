"""ALIGNMENT: the upstream partitions that meet in one partition of a derived topic, in one order.

The append time of a topic that a stage writes is the time when a worker ran, not the time when
things happened. So every record there bears `at`, the instant of the decision, and the header
`lane`, the upstream partition. Records are taken in the order (at, upstream partition, offset). A
record may be taken when no upstream partition can still bring an earlier one: at or below the
smallest (newest at, upstream partition) over all that are awaited. An upstream partition without
records sends `progress`, so a worker that crashed or lags is waited for and not taken for silence.
It sends that only where its own streams go, so others are not awaited here
(topology.flow.lanes): an event that comes by one all the same counts as arriving now.

Time downstream is the `at` of that smallest upstream partition and nothing else; `on_time` moves
nothing. At `max_queued` waiting records, or `max_queued_bytes` of their payload, the upstream
partition that holds the others up is waived, which is counted (`waivers`). What it brings later
counts as arriving now, and it is waited for again once it has caught up.

Cost: O(1) per record, O(log partitions) per stretch of one partition, O(partitions) per batch.
Memory: the waiting records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from topology.flow.lanes import Lanes
from topology.model.event import NO_EPOCH, PROGRESS, Event
from topology.model.kept import FLAG, INT, list_of, tuple_of
from topology.model.operator import Operator, Plain, State
from topology.model.outcome import Step
from topology.reorder.shared import size_of

NOTHING_YET: Final = -1
STATE: Final = "lanes"
SAVED_LANES: Final = tuple_of(INT, list_of(INT), list_of(FLAG), INT, INT)
"""The time, of each lane the newest time and whether it is waived, and the counts."""


class Alignment(Operator):
    """An operator that takes the events of several lanes in one order."""

    def __init__(
        self, lanes: Lanes, max_queued: int, position: int = 1, max_queued_bytes: int = 256 << 20
    ) -> None:
        partitions = len(lanes.places)
        self._lanes = lanes
        self._position = position
        self._max_queued = max_queued
        self._max_queued_bytes = max_queued_bytes
        self._bytes = 0
        self._newest_ns = [NOTHING_YET] * partitions
        self._waits = [lane in lanes.awaited for lane in range(partitions)]
        self._queues: list[deque[Event]] = [deque() for _ in range(partitions)]
        self._heads: list[tuple[int, int]] = []
        self._frontier = self._smallest_newest()
        self._queued = 0
        self._now_ns = 0
        self.waivers = 0
        self.overtaken = 0

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """The frontier is moved where an event may change more than it, and at the end."""
        newest_ns, waits = self._newest_ns, self._waits
        released: list[Event] = []
        for event in events:
            lane = event.lane
            if event.at_ns < newest_ns[lane] or not waits[lane]:
                self._advance(released)
                self._settle(event)
            else:
                newest_ns[lane] = event.at_ns
            if event.kind != PROGRESS:
                self._hold(event)
                if self._is_full():
                    self._advance(released)
        self._advance(released)
        return Step(self._now_ns, released)

    def on_time(self, now_ns: int) -> Step:
        """Time comes from the partitions: all before the frontier's instant is over."""
        return Step(self._now_ns - 1)

    def on_end(self, now_ns: int) -> Step:
        released: list[Event] = []
        last = len(self._queues) - 1
        self._release_until((max(max(self._newest_ns), self._now_ns), last), released)
        if released:
            self._now_ns = max(self._now_ns, released[-1].at_ns)
        return Step(self._now_ns, released)

    def begin_at(self, now_ns: int) -> None:
        """Begin there, nothing being taken yet: no partition sends anything before this instant."""
        self._now_ns = now_ns
        self._newest_ns = [now_ns] * len(self._newest_ns)
        self._frontier = self._smallest_newest()

    def explain(self) -> dict[str, Plain]:
        waiting_for = self.waiting_for() if self._queued else []
        return {"waiting_for": waiting_for, "waivers": self.waivers}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """As of every operator, but in O(events that wait)."""
        for event in self.held():
            if (event.source, event.seq) == (source, seq) and epoch in {NO_EPOCH, event.epoch}:
                where = {"stream": event.stream, "epoch": event.epoch, "since": event.at_ns}
                return {**where, "waiting_for": self.waiting_for()}
        return None

    def waiting_for(self) -> list[str]:
        """Return the upstream partitions that hold the others up, as TOPIC/NUMBER, for people."""
        first = self._frontier[0]
        return [
            f"{topic}/{partition}"
            for lane, (topic, partition) in enumerate(self._lanes.places)
            if self._waits[lane] and self._newest_ns[lane] <= first
        ]

    def _settle(self, event: Event) -> None:
        """It is older than one before it, or of a partition that is not waited for."""
        lane = event.lane
        if event.at_ns < self._now_ns:
            event.at_ns = self._now_ns
            self.overtaken += 1
        self._newest_ns[lane] = max(self._newest_ns[lane], event.at_ns)
        if event.at_ns > self._now_ns and lane in self._lanes.awaited:
            self._waits[lane] = True

    def _hold(self, event: Event) -> None:
        queue = self._queues[event.lane]
        if not queue:
            heappush(self._heads, (event.at_ns, event.lane))
        queue.append(event)
        event.held_by = self._position
        self._queued += 1
        self._bytes += size_of(event)

    def _is_full(self) -> bool:
        return self._queued > self._max_queued or self._bytes > self._max_queued_bytes

    def _advance(self, released: list[Event]) -> None:
        """Release up to the frontier; at the bound, drop the wait for the partition at it."""
        while True:
            self._frontier = self._smallest_newest()
            self._release_until(self._frontier, released)
            if not self._is_full():
                break
            self._waits[self._frontier[1]] = False
            self.waivers += 1
        self._now_ns = max(self._now_ns, self._frontier[0])

    def _smallest_newest(self) -> tuple[int, int]:
        newest = [(at_ns, lane) for lane, at_ns in enumerate(self._newest_ns)]
        last = max(self._newest_ns), len(newest) - 1
        return min([each for each in newest if self._waits[each[1]]], default=last)

    def _release_until(self, frontier: tuple[int, int], released: list[Event]) -> None:
        """A partition's events leave together, up to the next of another or the frontier."""
        heads = self._heads
        while heads and heads[0] <= frontier:
            lane = heappop(heads)[1]
            end_ns, end_lane = min(heads[0], frontier) if heads else frontier
            if lane > end_lane:  # at the very instant the other is first
                end_ns -= 1
            queue = self._queues[lane]
            while queue and queue[0].at_ns <= end_ns:
                event = queue.popleft()
                event.held_by = 0
                released.append(event)
                self._queued -= 1
                self._bytes -= size_of(event)
            if queue:
                heappush(heads, (queue[0].at_ns, lane))

    def snapshot(self) -> State:
        waits, awaited = self._waits, self._lanes.awaited
        waived = [lane in awaited and not each for lane, each in enumerate(waits)]
        row = (self._now_ns, self._newest_ns, waived, self.waivers, self.overtaken)
        return {STATE: SAVED_LANES.dump(row)}

    def held(self) -> Iterable[Event]:
        for queue in self._queues:
            yield from queue

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        if STATE in state:
            row = SAVED_LANES.load(state[STATE], None, self, STATE)
            self._now_ns, newest_ns, waived, self.waivers, self.overtaken = row
            self._newest_ns[: len(newest_ns)] = newest_ns
            for lane in self._lanes.awaited & frozenset(range(len(waived))):
                self._waits[lane] = not waived[lane]
            self._frontier = self._smallest_newest()
        for event in held:
            self._hold(event)
        yield len(held)
