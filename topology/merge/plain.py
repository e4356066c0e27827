"""MERGE, the plain case: the next ones of a live source, in time.

A *run* are events of one source that came at one instant and follow on one another. It goes into
the queue of its source in one piece, if of its first event holds (`is_next`)

* its source is live, bounded by its newest key, and nothing of it waits behind a hole;
* it bears the number after the newest one, of the same epoch, and came by the same lane;
* it is later than the newest of its source, and than all that has left or been announced;

if the delays of the source are known (`warm`), and for as long as the queues have room. Whatever
else comes, and what a run leaves, goes by `topology.merge.hearing`, which does the same with the
events of a run one at a time.

Cost: O(1) an event, O(log sources) a run.

Proved by: tests/laws/test_plain.py, tests/topology/merge/test_operator.py
"""

from __future__ import annotations

from heapq import heappush

from topology.merge.bounds import SourceBounds
from topology.merge.passage import Passage
from topology.merge.pause import Pause
from topology.merge.queues import Queues
from topology.merge.source import AWAITED, KEYED, POOL_EVERY, SourceProgress
from topology.model.event import DATA, Event
from topology.model.histogram import Histogram
from topology.model.operator import NEVER


class PlainRuns:
    """Over the parts of a `Merge`, which it shares. `lets_go`: the run taken last may
    change what leaves at its instant."""

    __slots__ = (
        "_bounds",
        "_dirty",
        "_numbered",
        "_passage",
        "_pause",
        "_pool",
        "_position",
        "_queues",
        "_sources",
        "lets_go",
    )

    def __init__(
        self,
        sources: dict[str, SourceProgress],
        dirty: list[SourceProgress],
        bounds: SourceBounds,
        queues: Queues,
        passage: Passage,
        pause: Pause,
        pool: Histogram,
        position: int,
        numbered: bool,
    ) -> None:
        self._sources = sources
        self._dirty = dirty
        self._bounds = bounds
        self._queues = queues
        self._passage = passage
        self._pause = pause
        self._pool = pool
        self._position = position
        self._numbered = numbered
        self.lets_go = False

    def follows(self, progress: SourceProgress, event: Event) -> bool:
        """It is the next one of its source, in time."""
        ref_ns = event.ref_time_ns
        return (
            event.seq == progress.seq + 1
            and event.epoch == progress.epoch
            and ref_ns > progress.newest_ns
            and ref_ns > self._passage.floor_ns
            and event.kind == DATA
            and not event.late
            and event.lane == progress.lane
        )

    def is_steady(self, progress: SourceProgress) -> bool:
        """The next one of the source changes only how far it is."""
        return progress.state == KEYED and not progress.blocked and not self._bounds.sees_all

    def opens(self, progress: SourceProgress, was_empty: bool) -> bool:
        """The next one of a steady source, whose queue was empty or not, may change what leaves."""
        limiting = self._bounds.limiting
        return (
            not limiting
            or limiting == progress.source
            or (was_empty and self._queues.heads[0][1] == progress.source)
        )

    def take(self, batch: list[Event], at: int) -> int:
        """Takes the run that begins at this place; returns the place behind it. The same place: the
        event there begins no run, and nothing has been done."""
        event = batch[at]
        source = event.source
        progress = self._sources.get(source)
        if progress is None or not progress.warm or not self.follows(progress, event):
            return at
        bounds = self._bounds
        is_steady = self.is_steady(progress)
        if not is_steady and not self._may_go_on(progress):
            return at
        queues = self._queues
        value = event.value
        size = len(value) if isinstance(value, bytes) else 0
        if queues.count >= queues.max_count or queues.bytes + size > queues.max_bytes:
            return at
        ref_ns = event.ref_time_ns
        arrival_ns = event.arrival_ns
        if arrival_ns > progress.last_arrival_ns:
            progress.last_arrival_ns = arrival_ns
        if not is_steady:
            bounds.hear(progress, event.at_ns)
            bounds.enter(progress, ref_ns)
        queue = progress.queue
        was_empty = not queue
        if was_empty:
            heappush(queues.heads, (ref_ns, source))
        if was_empty or event.error_ns > progress.error_ns:
            progress.error_ns = event.error_ns
        queue.append(event)
        event.held_by = self._position
        queues.count += 1
        queues.bytes += size
        progress.seq = event.seq
        progress.newest_ns = ref_ns
        progress.delays.add(arrival_ns - ref_ns)
        if progress.delays.since_halved % POOL_EVERY == 0:
            self._pool.add(arrival_ns - ref_ns)
        if not progress.dirty:
            progress.mark(self._dirty)
        end = at + 1
        if end < len(batch) and batch[end].source == source:
            end = self._follow(progress, batch, end)
        self.lets_go = not is_steady or self.opens(progress, was_empty)
        return end

    def _may_go_on(self, progress: SourceProgress) -> bool:
        """The source was bounded by time, or behind a hole; it is known what its next one says of
        that."""
        return (
            progress.state < AWAITED
            and not progress.said_bye
            and (self._numbered or not progress.blocked)
            and self._pause.since_ns == NEVER
            and not self._bounds.sees_all
        )

    def _follow(self, progress: SourceProgress, batch: list[Event], at: int) -> int:
        """The rest of a run whose first event has been taken."""
        queues = self._queues
        last = min(len(batch), at + queues.max_count - queues.count)
        room = queues.max_bytes - queues.bytes
        position = self._position
        source, epoch, lane = progress.source, progress.epoch, progress.lane
        at_ns = batch[at - 1].at_ns
        seq = progress.seq
        newest_ns = progress.newest_ns
        heard_ns = progress.last_arrival_ns
        error_ns = progress.error_ns
        delays: list[int] = []
        size = 0
        end = at
        while end < last:
            event = batch[end]
            ref_ns = event.ref_time_ns
            if (
                event.source != source
                or event.at_ns != at_ns
                or event.seq != seq + 1
                or ref_ns <= newest_ns
                or event.epoch != epoch
                or event.kind != DATA
                or event.late
                or event.lane != lane
            ):
                break
            value = event.value
            if isinstance(value, bytes):
                if size + len(value) > room:
                    break
                size += len(value)
            seq += 1
            newest_ns = ref_ns
            arrival_ns = event.arrival_ns
            if arrival_ns > heard_ns:
                heard_ns = arrival_ns
            if event.error_ns > error_ns:
                error_ns = event.error_ns
            delays.append(arrival_ns - ref_ns)
            event.held_by = position
            end += 1
        if end == at:
            return at
        progress.queue.extend(batch[at:end])
        queues.count += end - at
        queues.bytes += size
        progress.seq = seq
        progress.newest_ns = newest_ns
        progress.error_ns = error_ns
        progress.last_arrival_ns = heard_ns
        until_pooled = POOL_EVERY - 1 - progress.delays.since_halved % POOL_EVERY
        progress.delays.add_all(delays)
        if until_pooled < end - at:
            self._pool.add_all(delays[until_pooled::POOL_EVERY])
        return end
