"""What waits in MERGE: one queue per source, each in order, and a heap of their heads."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any

from topology.event import Event
from topology.feed import Feed
from topology.frontier import Bound
from topology.rules import size_of


class Queues:
    """Over the feeds of a `Merge`, whose table and list of changed feeds it shares.

    `heads` holds (reference time, source) of each queue's head; `count` is how many
    events wait, `bytes` their payload.
    """

    __slots__ = (
        "_dirty",
        "_feeds",
        "_position",
        "bytes",
        "count",
        "heads",
        "max_bytes",
        "max_count",
    )

    def __init__(
        self, feeds: dict[str, Feed], dirty: list[Feed], position: int, config: Any
    ) -> None:
        self.max_count: int = config.max_queued
        self.max_bytes: int = config.max_queued_bytes
        self._feeds = feeds
        self._dirty = dirty
        self._position = position
        self.heads: list[Bound] = []
        self.count = 0
        self.bytes = 0

    def are_full(self) -> bool:
        return self.count > self.max_count or self.bytes > self.max_bytes

    def add(self, feed: Feed, event: Event) -> None:
        """`event` is not below the last one of its source. O(log sources) at worst."""
        if not feed.queue:
            heappush(self.heads, (event.ref_time_ns, event.source))
        feed.queue.append(event)
        event.held_by = self._position
        self.count += 1
        self.bytes += size_of(event)

    def take_until(self, limit: Bound, now_ns: int) -> list[Event]:
        """All at or below `limit`, in order; they leave at `now_ns`."""
        heads = self.heads
        limit_ns, limiting = limit
        runs: list[list[Event]] = []
        while heads and heads[0] <= limit:
            source = heads[0][1]
            feed = self._feeds[source]
            queue = feed.queue
            last_ns = limit_ns if source <= limiting else limit_ns - 1
            run: list[Event] = []
            while queue and queue[0].ref_time_ns <= last_ns:
                event = queue.popleft()
                event.at_ns = now_ns
                event.held_by = 0
                if isinstance(event.value, bytes):
                    self.bytes -= len(event.value)
                run.append(event)
            feed.released += len(run)
            feed.mark(self._dirty)
            runs.append(run)
            if queue:
                heapreplace(heads, (queue[0].ref_time_ns, source))
            else:
                heappop(heads)
        if not runs:
            return []
        events = runs[0]
        if len(runs) > 1:
            # Each run is in order and the sort is stable: sources in order of name settle ties.
            runs.sort(key=source_of_run)
            events = [event for run in runs for event in run]
            events.sort(key=ref_time)
        self.count -= len(events)
        return events

    def take_smallest(self, now_ns: int) -> Event:
        """The first of all, whoever might still come before it."""
        source = self.heads[0][1]
        feed = self._feeds[source]
        event = feed.queue.popleft()
        event.at_ns = now_ns
        event.held_by = 0
        feed.released += 1
        feed.mark(self._dirty)
        self.count -= 1
        self.bytes -= size_of(event)
        if feed.queue:
            heapreplace(self.heads, (feed.queue[0].ref_time_ns, source))
        else:
            heappop(self.heads)
        return event


def source_of_run(run: list[Event]) -> str:
    return run[0].source


ref_time = attrgetter("ref_time_ns")
