"""MERGE, the plain case: the next ones of a live source, in time.

A *run* are events of one source that came at one instant and follow on one another. Its first event
goes into the queue of its source at once, and the others in one piece (`follow`), if of the first
one all holds that `Merge.on_batch` asks:

* its source is live, however it is bounded, and no gap in the log waits to be judged;
* the source had not been silent for more than `idle_after` before it;
* it bears the number after the newest one, of the same epoch and input partition;
* it is later than the newest of its source, and than all that has left or been announced;

if the delays of the source are known (`warm`), and for as long as the queues have room. Whatever
else comes, and what a run leaves, goes by `topology.merge.intake`, which does the same with the
events of a run one at a time.

Most runs do not change what may leave (`opens`), and then nobody asks: as long as one source alone
holds everything up, or time alone does, only a word of that source, time, or an event below all
that wait can let something go.

Cost: O(1) an event, O(log sources) a run.
"""

from __future__ import annotations

from topology.merge.bounds import SourceBounds
from topology.merge.queues import Queues
from topology.merge.source import AWAITED, POOL_EVERY, SourceProgress
from topology.model.event import DATA, Event
from topology.model.histogram import Histogram


class PlainRuns:
    """Over the parts of a `Merge`, which it shares."""

    __slots__ = ("_bounds", "_numbered", "_pool", "_position", "_queues")

    def __init__(
        self,
        bounds: SourceBounds,
        queues: Queues,
        pool: Histogram,
        position: int,
        numbered: bool,
    ) -> None:
        self._bounds = bounds
        self._queues = queues
        self._pool = pool
        self._position = position
        self._numbered = numbered

    def knows(self, progress: SourceProgress) -> bool:
        """The source is bounded by time, or its events wait behind a hole, and all that its next
        one says of that is that it no longer is."""
        return (
            progress.state < AWAITED
            and not progress.said_bye
            and (self._numbered or not progress.blocked)
        )

    def opens(self, progress: SourceProgress, was_empty: bool, led_max_ns: int) -> bool:
        """A run of the source, behind no hole before, may change what leaves. Before it the queue
        was empty or not, and the bound by time at that distance."""
        bounds = self._bounds
        if was_empty and self._queues.heads[0][1] == progress.source:
            return True
        if bounds.limited_by_time:
            return bounds.led_max_ns != led_max_ns
        return not bounds.limiting or bounds.limiting == progress.source

    def follow(self, progress: SourceProgress, batch: list[Event], at: int) -> int:
        """Takes the rest of a run, from this place on, and returns the place behind it; the first
        event of the run has been taken."""
        queues = self._queues
        last = min(len(batch), at + queues.max_count - queues.count)
        room = queues.max_bytes - queues.bytes
        position = self._position
        source, epoch, partition = progress.source, progress.epoch, progress.input_partition
        at_ns = batch[at - 1].at_ns
        seq = progress.seq
        newest_ns = progress.newest_ns
        received_ns = progress.last_arrival_ns
        idle_after_ns = self._bounds.idle_after_ns
        error_ns = progress.error_ns
        delays: list[int] = []
        size = 0
        end = at
        while end < last:
            event = batch[end]
            ref_ns = event.ref_time_ns
            number = event.seq
            if (
                event.source != source
                or event.at_ns != at_ns
                or number != seq + 1
                or ref_ns <= newest_ns
                or event.epoch != epoch
                or event.kind != DATA
                or event.late
                or event.lane != partition
            ):
                break
            arrival_ns = event.arrival_ns
            if arrival_ns - received_ns > idle_after_ns:
                break
            value = event.value
            if isinstance(value, bytes):
                if size + len(value) > room:
                    break
                size += len(value)
            seq = number
            newest_ns = ref_ns
            if arrival_ns > received_ns:
                received_ns = arrival_ns
            if event.error_ns > error_ns:
                error_ns = event.error_ns
            delays.append(arrival_ns - ref_ns)
            event.held_by |= position
            end += 1
        if end == at:
            return at
        progress.queue.extend(batch[at:end])
        queues.count += end - at
        queues.bytes += size
        progress.seq = seq
        progress.newest_ns = newest_ns
        progress.error_ns = error_ns
        progress.last_arrival_ns = received_ns
        until_pooled = POOL_EVERY - 1 - progress.delays.since_halved % POOL_EVERY
        progress.delays.add_all(delays)
        if until_pooled < end - at:
            self._pool.add_all(delays[until_pooled::POOL_EVERY])
        return end
