"""Puts the records of several upstream partitions of a derived topic into one order.

The arrival time of a record in a derived topic is the time when a worker ran, not the time when
things happened. So every record there has `at`, the instant of the decision, and the header `lane`,
the upstream partition. Records are released in the order (at, upstream partition, offset).

A record may be released when no upstream partition can still send an earlier one. This is true up
to the *frontier*, the smallest (newest `at`, upstream partition) of all awaited partitions. An
upstream partition without records sends `progress`, so a worker that crashed or lags is awaited and
not taken for idle. Progress goes only to partitions that the sender's own streams can reach, so
others do not await it (`topology.stage.lanes`). An older event from a partition that is not awaited
counts as arriving now.

Time downstream is the `at` of the frontier and nothing else; `on_time` does not advance it. At most
`max_queued` records are buffered, with at most `max_queued_bytes` of payload. Beyond that, the
alignment stops waiting for the upstream partition that holds up the others, and counts this
(`waivers`). Its older records then count as arriving now. It is awaited again once it has caught
up.

Cost: O(1) per record, O(log partitions) per run of records of one partition, O(partitions) per
batch. Memory: the buffered records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from topology.base.event import NO_EPOCH, PROGRESS, Event
from topology.base.operator import Plain
from topology.base.outcome import Step
from topology.order.reorder.shared import size_of
from topology.stage.lanes import Lanes
from topology.state.saved import FLAG, INT, Shape, list_of
from topology.state.saved_operator import SavedOperator
from topology.state.tables import SavedState

NOTHING_YET: Final = -1
ALIGNMENT: Final = Shape(
    "alignment",
    1,
    _now_ns=INT,
    _newest_ns=list_of(INT),
    _waived=list_of(FLAG),
    waivers=INT,
    overtaken=INT,
)


class Alignment(SavedOperator):
    """An operator that releases the events of several upstream partitions in one order."""

    def __init__(self, lanes: Lanes, max_queued: int, max_queued_bytes: int = 256 << 20) -> None:
        partitions = len(lanes.places)
        self._lanes = lanes
        self._max_queued = max_queued
        self._max_queued_bytes = max_queued_bytes
        self._bytes = 0
        self._saved = SavedState("lanes", ALIGNMENT)
        self._newest_ns = [NOTHING_YET] * partitions
        """The newest time of each upstream partition."""
        self._waits = [lane in lanes.awaited for lane in range(partitions)]
        self._queues: list[deque[Event]] = [deque() for _ in range(partitions)]
        self._listed = [0] * partitions
        """How many events at the front of each queue a step has listed as kept."""
        self._heads: list[tuple[int, int]] = []
        self._frontier = self._find_frontier()
        self._queued = 0
        self._now_ns = 0
        self.waivers = 0
        self.overtaken = 0

    @property
    def now_ns(self) -> int:
        """The instant of the frontier, which is the time of the operators after the alignment."""
        return self._now_ns

    @property
    def queued(self) -> int:
        """The number of buffered events."""
        return self._queued

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        """Buffer the events, and release those that no awaited partition can precede.

        The frontier is recomputed at the end. It is also recomputed when the buffer is full, and
        before an event that is out of order or whose partition is not awaited.
        """
        # Buffering is written out here, because it happens for every event and calls cost time.
        newest_ns, waits, queues = self._newest_ns, self._waits, self._queues
        released: list[Event] = []
        for event in events:
            lane = event.lane
            if event.at_ns < newest_ns[lane] or not waits[lane]:
                self._release_ready(released)
                self._admit(event)
            else:
                newest_ns[lane] = event.at_ns
            if event.kind == PROGRESS:
                continue
            queue = queues[lane]
            if not queue:
                heappush(self._heads, (event.at_ns, lane))
            queue.append(event)
            self._queued += 1
            value = event.value
            if isinstance(value, bytes):
                self._bytes += len(value)
            if self._queued > self._max_queued or self._bytes > self._max_queued_bytes:
                self._release_ready(released)
        self._release_ready(released)
        step = Step(self._now_ns, released)
        step.freed += released
        for lane, queue in enumerate(self._queues):
            if len(queue) > self._listed[lane]:
                step.kept += islice(queue, self._listed[lane], None)
                self._listed[lane] = len(queue)
        return step

    def on_time(self, now_ns: int) -> Step:
        """Return a step without events, up to the last instant that is over.

        The instant does not depend on `now_ns`.
        """
        return Step(self._now_ns - 1)

    def on_end(self, now_ns: int) -> Step:
        released: list[Event] = []
        last = len(self._queues) - 1
        self._release_until((max(max(self._newest_ns), self._now_ns), last), released)
        if released:
            self._now_ns = max(self._now_ns, released[-1].at_ns)
        step = Step(self._now_ns, released)
        step.freed += released
        return step

    def begin_at(self, now_ns: int) -> None:
        """Begin at this instant, before any event. No partition may send anything older."""
        self._now_ns = now_ns
        self._newest_ns = [now_ns] * len(self._newest_ns)
        self._frontier = self._find_frontier()

    def explain(self) -> dict[str, Plain]:
        waiting_for = self.blocking_partitions() if self._queued else []
        return {"waiting_for": waiting_for, "waivers": self.waivers}

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """Return the data of one buffered event, or None if the event is not here.

        Cost: O(buffered events).
        """
        for event in self.iter_held():
            if (event.source, event.seq) == (source, seq) and epoch in {NO_EPOCH, event.epoch}:
                where = {"stream": event.stream, "epoch": event.epoch, "since": event.at_ns}
                return {**where, "waiting_for": self.blocking_partitions()}
        return None

    def blocking_partitions(self) -> list[str]:
        """Return the names TOPIC/NUMBER of the upstream partitions that hold up the others."""
        first = self._frontier[0]
        return [
            f"{topic}/{partition}"
            for lane, (topic, partition) in enumerate(self._lanes.places)
            if self._waits[lane] and self._newest_ns[lane] <= first
        ]

    def _admit(self, event: Event) -> None:
        """Admit an event that is out of order, or whose partition is not awaited.

        An event that is too old counts as arriving now. Any other event shows that its partition
        has caught up, so the partition is awaited again.
        """
        lane = event.lane
        if event.at_ns < self._now_ns:
            event.at_ns = self._now_ns
            self.overtaken += 1
        self._newest_ns[lane] = max(self._newest_ns[lane], event.at_ns)
        if event.at_ns > self._now_ns and lane in self._lanes.awaited:
            self._waits[lane] = True

    def _buffer(self, event: Event) -> None:
        queue = self._queues[event.lane]
        if not queue:
            heappush(self._heads, (event.at_ns, event.lane))
        queue.append(event)
        self._queued += 1
        self._bytes += size_of(event)

    def _is_full(self) -> bool:
        return self._queued > self._max_queued or self._bytes > self._max_queued_bytes

    def _release_ready(self, released: list[Event]) -> None:
        """Release events up to the frontier, and waive partitions while the buffer is full."""
        while True:
            self._frontier = self._find_frontier()
            self._release_until(self._frontier, released)
            if not self._is_full():
                break
            self._waits[self._frontier[1]] = False
            self.waivers += 1
        self._now_ns = max(self._now_ns, self._frontier[0])

    def _find_frontier(self) -> tuple[int, int]:
        newest = [(at_ns, lane) for lane, at_ns in enumerate(self._newest_ns)]
        last = max(self._newest_ns), len(newest) - 1
        return min([each for each in newest if self._waits[each[1]]], default=last)

    def _release_until(self, frontier: tuple[int, int], released: list[Event]) -> None:
        """Release the events up to the frontier, in runs of one partition each.

        A run ends before the next event of another partition, or at the frontier.
        """
        heads = self._heads
        while heads and heads[0] <= frontier:
            lane = heappop(heads)[1]
            end_ns, end_lane = min(heads[0], frontier) if heads else frontier
            if lane > end_lane:  # At the same instant, the other partition is first.
                end_ns -= 1
            queue = self._queues[lane]
            size, before = 0, len(queue)
            while queue and queue[0].at_ns <= end_ns:
                event = queue.popleft()
                released.append(event)
                value = event.value
                if isinstance(value, bytes):
                    size += len(value)
            self._queued -= before - len(queue)
            self._listed[lane] = max(0, self._listed[lane] - before + len(queue))
            self._bytes -= size
            if queue:
                heappush(heads, (queue[0].at_ns, lane))

    @property
    def _waived(self) -> list[bool]:
        """Whether each upstream partition is no longer waited for because it held up the others."""
        awaited = self._lanes.awaited
        return [lane in awaited and not waits for lane, waits in enumerate(self._waits)]

    @_waived.setter
    def _waived(self, waived: list[bool]) -> None:
        for lane in self._lanes.awaited & frozenset(range(len(waived))):
            self._waits[lane] = not waived[lane]

    def iter_held(self) -> Iterable[Event]:
        for queue in self._queues:
            yield from queue

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self._newest_ns += [NOTHING_YET] * (len(self._queues) - len(self._newest_ns))
        self._frontier = self._find_frontier()
        for event in held:
            self._buffer(event)
        self._listed = [len(queue) for queue in self._queues]
        yield len(held)
