"""Buffers the events of MERGE, with one ordered queue per source and a heap of their heads.

The late events of the open instant are kept outside the queues until it is over.

The bounds are `max_queued` events and `reorder.max_held_bytes` of payload. At a bound the late
events are emitted at once. If that is not enough, one in `CLEARED` of the buffered events is
removed. The source that fills the queues yields, not those that are on time:

* The first to yield are sources whose newest event is further ahead of the arrival clock than MERGE
  ever waits, the fullest first. They would fill any queue, and these events may not be emitted yet.
* If there are none, a source yields that has more than half of all events, or of their payload.
* Such a source gives up its newest events, which are late.
* If no source fills the queues, the smallest events of all are emitted in order, whichever source
  might still send an earlier one. They are never events ahead of the arrival clock.
* If there are only events ahead of the clock, the fullest source gives up its newest ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import Final

from topology.base.event import Event
from topology.order.merge.bounds import Bound
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import SourceProgress
from topology.order.merge.sources import KnownSources
from topology.order.reorder.shared import size_of

CLEARED: Final = 64


class Queues:
    """The queues of the sources that a `Merge` knows.

    `heads` has (corrected timestamp, source) of each queue's head. It also keeps the entry of an
    earlier head when another event is put in front of it. `late` has the late events in the order
    of arrival, each marked with its cause. `count` is the number of buffered events, and `bytes`
    the size of their payloads. `kept` and `freed` have the events that were put in and taken out
    since the last step, for `Step.kept` and `Step.freed`.
    """

    def __init__(self, known: KnownSources, config: MergeConfig) -> None:
        self.max_count = config.max_queued
        self.max_bytes = config.reorder.max_held_bytes
        self._ahead_ns = config.max_wait_ns
        self._known = known
        self._sources = known.rows
        self.heads: list[Bound] = []
        self.late: list[Event] = []
        self.count = 0
        self.bytes = 0
        self.kept: list[Event] = []
        self.freed: list[Event] = []

    def are_full(self) -> bool:
        return self.count > self.max_count or self.bytes > self.max_bytes

    def add(self, progress: SourceProgress, event: Event) -> None:
        """Append an event to the queue of its source; its time is not below that of the last one.

        Cost: O(log sources) at worst.
        """
        if not progress.queue:
            heappush(self.heads, (event.ref_time_ns, event.source))
        progress.ensure_queue().append(event)
        self._count(event)

    def insert(self, progress: SourceProgress, event: Event) -> None:
        """Insert an event into the queue of its source, by time and number.

        It is one that is set back, or whose number had been given up.

        Cost: O(log sources + queue of its source).
        """
        place = bisect_right(progress.queue, sequence_key(event), key=sequence_key)
        if place == 0:
            heappush(self.heads, (event.ref_time_ns, event.source))
        progress.ensure_queue().insert(place, event)
        self._count(event)

    def buffer_late(self, progress: SourceProgress, event: Event, cause: str, now_ns: int) -> None:
        """Buffer an event that is late because of `cause`, until the open instant is over."""
        progress.held_late += 1
        event.late = cause
        event.at_ns = now_ns
        self.late.append(event)
        self._count(event)

    def _count(self, event: Event) -> None:
        self.kept.append(event)
        self.count += 1
        self.bytes += size_of(event)

    def take_late(self) -> list[Event]:
        """Remove and return the late events, in order."""
        events, self.late = self.late, []
        events.sort(key=in_stream)
        for event in events:
            self._sources[event.source].held_late -= 1
            self.bytes -= size_of(event)
        self.count -= len(events)
        self.freed += events
        return events

    def restoring(self, held: Iterable[Event]) -> Iterator[int]:
        """Buffer restored events again, late ones outside the queues; yield 1 for each of them."""
        for event in sorted(held, key=sequence_key):
            progress = self._sources[event.source]
            if event.late:
                self.buffer_late(progress, event, event.late, event.at_ns)
            else:
                self.add(progress, event)
                progress.released -= 1
            yield 1
        self.kept.clear()

    def take_until(self, limit: Bound, now_ns: int) -> list[Event]:
        """Remove and return all events at or below `limit`, in order.

        Their `at_ns` becomes `now_ns`.
        """
        heads = self.heads
        limit_ns, limiting = limit
        sources = self._sources
        runs: list[list[Event]] = []
        while heads:
            head_ns, source = heads[0]
            if head_ns > limit_ns or (head_ns == limit_ns and source > limiting):
                break
            progress = sources[source]
            queue = progress.queue
            last_ns = limit_ns if source <= limiting else limit_ns - 1
            run: list[Event] = []
            for event in queue:
                if event.ref_time_ns > last_ns:
                    break
                run.append(event)
            if not run:
                heappop(heads)  # This head was emitted with the event that was put in front of it.
                continue
            if len(run) == len(queue):
                queue.clear()
                heappop(heads)
            else:
                for _ in run:
                    queue.popleft()
                heapreplace(heads, (queue[0].ref_time_ns, source))
            progress.released += len(run)
            runs.append(run)
        events = in_order(runs)
        for event in events:
            event.at_ns = now_ns
        if self.bytes:
            self.bytes -= sum([size_of(event) for event in events])
        self.count -= len(events)
        self.freed += events
        return events

    def take_first(self, now_ns: int, taken: list[Event]) -> None:
        """Move the first of all events to `taken`, even if a smaller one may still arrive.

        Its `at_ns` becomes `now_ns`. Only an entry of an earlier head may be removed instead.
        """
        heads = self.heads
        head_ns, source = heads[0]
        progress = self._sources[source]
        queue = progress.queue
        if not queue or queue[0].ref_time_ns > head_ns:
            heappop(heads)
            return
        event = queue.popleft()
        if queue:
            heapreplace(heads, (queue[0].ref_time_ns, source))
        else:
            heappop(heads)
        progress.released += 1
        event.at_ns = now_ns
        self.freed.append(event)
        self.count -= 1
        value = event.value
        if isinstance(value, bytes):
            self.bytes -= len(value)
        taken.append(event)

    # -- At the bound ------------------------------------------------------------------------------

    def make_room(self, now_ns: int) -> tuple[list[Event], list[Event]]:
        """Remove events at a bound; return those given up, and those to be emitted in order.

        The events given up are grouped by source. Both lists together have one in `CLEARED` of the
        buffered events, at least one. Cost: O(sources), or O(buffered events) if the payload is too
        large.
        """
        left = -(-self.count // CLEARED)
        size = self._bytes_of if self.count <= self.max_count else self._count_of
        fullest = sorted(
            (
                (size(progress), progress.source)
                for progress in self._sources.values()
                if progress.queue
            ),
            reverse=True,
        )
        given_up: list[Event] = []
        for _, source in fullest:
            queue = self._sources[source].queue
            if left and queue[-1].ref_time_ns - now_ns > self._ahead_ns:
                last = self._give_up(source, left, now_ns)
                given_up += last
                left -= len(last)
        if left and not given_up and 2 * fullest[0][0] > sum(each for each, _ in fullest):
            given_up = self._give_up(fullest[0][1], left, now_ns)
            left = 0
        self._rebuild_heads()
        smallest: list[Event] = []
        while left and self.heads and self.heads[0][0] <= now_ns:
            self.take_first(now_ns, smallest)
            left -= 1
        if not given_up and not smallest:
            given_up = self._give_up(fullest[0][1], left, now_ns)
            self._rebuild_heads()
        return given_up, smallest

    def _count_of(self, progress: SourceProgress) -> int:
        return len(progress.queue)

    def _bytes_of(self, progress: SourceProgress) -> int:
        return sum(size_of(event) for event in progress.queue)

    def _give_up(self, source: str, most: int, now_ns: int) -> list[Event]:
        """Remove and return, in order, the newest events of a source, at most `most` of them.

        They are not `freed`, because MERGE then buffers them as late events.
        """
        progress = self._sources[source]
        self._known.mark(progress)
        given_up = [progress.queue.pop() for _ in range(min(most, len(progress.queue)))]
        for event in given_up:
            self._mark_removed(event, now_ns)
        return given_up[::-1]

    def _mark_removed(self, event: Event, now_ns: int) -> None:
        event.at_ns = now_ns
        self.count -= 1
        self.bytes -= size_of(event)

    def _rebuild_heads(self) -> None:
        """Rebuild the heap from the heads of the queues."""
        self.heads[:] = [
            (progress.queue[0].ref_time_ns, source)
            for source, progress in self._sources.items()
            if progress.queue
        ]
        heapify(self.heads)


def in_order(runs: list[list[Event]]) -> list[Event]:
    """Merge runs of different sources, each of which is in order, into one ordered list."""
    if len(runs) == 1:
        return runs[0]
    runs.sort(key=source_of_run)  # The sort by time is stable, so this settles ties.
    events = [event for run in runs for event in run]
    events.sort(key=ref_time)
    return events


def source_of_run(run: list[Event]) -> str:
    return run[0].source


def sequence_key(event: Event) -> tuple[int, int, int]:
    """Return the key that sorts the events of one source: by time, then by epoch and number."""
    return (event.ref_time_ns, event.epoch, event.seq)


in_stream = attrgetter("ref_time_ns", "source", "epoch", "seq")
ref_time = attrgetter("ref_time_ns")
