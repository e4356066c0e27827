"""Takes long runs of plain events into MERGE without a separate decision about each event.

An event is *plain* if it is the next one of its source (`Intake.is_next`). Its source must be live,
and must not have been silent for more than `idle_after`. The queues must have room. A *stretch* is
a run of consecutive plain events of a batch, from any sources. It ends

* before an event that is not plain, and before a gap of the log;
* at the end of an instant at which something may be emitted, or is due.

So nothing is emitted and no source becomes idle within a stretch. The work at the end of each
instant is done once, at the last one. The results equal those of `Merge._take`, which takes one
event of any kind and is the definition (tests/laws/test_plain.py).

Cost: O(log sources) an event at worst, O(1) after a buffered one of the same source.
"""

from __future__ import annotations

from collections import deque
from heapq import heappush

from topology.base.event import DATA, Event
from topology.order.merge.intake import Intake
from topology.order.merge.source import COLD, KEYED, NOTHING_QUEUED, POOL_EVERY, SourceProgress


class Stretches(Intake):
    """An intake that takes runs of plain events together, and all other events one by one."""

    def take_plain(  # noqa: C901, PLR0912, PLR0915
        self, batch: list[Event], begin: int, end: int, now_ns: int, due_ns: int, is_open: bool
    ) -> tuple[int, int, bool, bool]:
        """Take the stretch that begins at `begin`.

        Nothing is due from `now_ns` to before `due_ns`. `is_open` means that something may be
        emitted at the end of the instant `now_ns`. Events may have earlier instants than `now_ns`.

        Return the index after the stretch, the instant that is reached, and whether something may
        be emitted at its end. The last value says whether the kind of a source's bound may have
        changed.
        """
        # This is one function, because it runs for every event and calls would cost time.
        sources = self._sources
        queues = self._queues
        heads = queues.heads
        bounds = self._bounds
        floor_ns = self._passage.floor_ns
        idle_after_ns = bounds.idle_after_ns
        revived = False
        at = begin
        while at < end:
            event = batch[at]
            if event.at_ns > now_ns:
                if is_open or event.at_ns > due_ns:
                    break
                now_ns = event.at_ns
            source = event.source
            progress = sources.get(source)
            ref_ns = event.ref_time_ns
            arrival_ns = event.arrival_ns
            if (
                progress is None
                or event.seq != progress.seq + 1
                or ref_ns < progress.newest_ns
                or ref_ns < floor_ns
                or event.epoch != progress.epoch
                or event.kind != DATA
                or event.late
                or event.lane != progress.input_partition
                or progress.state > COLD
                or arrival_ns - progress.last_arrival_ns > idle_after_ns
                or (progress.blocked and not self._numbered)
            ):
                break
            value = event.value
            size = len(value) if isinstance(value, bytes) else 0
            if size > queues.max_bytes - queues.bytes or queues.count >= queues.max_count:
                break

            # Learn from the event.
            was_blocked = progress.blocked
            is_steady = progress.state == KEYED and not was_blocked
            led_max_ns = bounds.led_max_ns
            if not progress.dirty:
                self._known.mark(progress)
            if arrival_ns > progress.last_arrival_ns:
                progress.last_arrival_ns = arrival_ns
            if not is_steady:
                revived = True
                if was_blocked or progress.said_bye:
                    bounds.record_in_sequence(progress, event.at_ns)
            delays = progress.delays
            delays.add(arrival_ns - ref_ns)
            if not progress.warm:
                progress.add_pool_delay(arrival_ns - ref_ns, self._pool)
            elif not delays.since_halved % POOL_EVERY:
                self._pool.add(arrival_ns - ref_ns)

            # Put the event into the queue of its source.
            progress.seq = event.seq
            progress.newest_ns = ref_ns
            queue = progress.queue
            was_empty = not queue
            if was_empty:
                if queue is NOTHING_QUEUED:
                    queue = progress.queue = deque()
                heappush(heads, (ref_ns, source))
                progress.error_ns = event.error_ns
            elif event.error_ns > progress.error_ns:
                progress.error_ns = event.error_ns
            queue.append(event)
            queues.kept.append(event)
            queues.count += 1
            queues.bytes += size
            at += 1
            if at < end and batch[at].source == source and progress.warm:
                at = self._take_run(progress, batch, at, end)
            if progress.error_ns > progress.recorded_error_ns:
                self._errors.record_growth(progress)
            # The delay was sampled first, because the sample may change the source's wait.
            if not is_steady and (was_blocked or not bounds.is_redundant(progress)):
                bounds.make_live(progress, progress.newest_ns)
            if not is_open and (was_blocked or self.opens(progress, was_empty, led_max_ns)):
                is_open = True
        return at, now_ns, is_open, revived

    def _take_run(self, progress: SourceProgress, batch: list[Event], at: int, end: int) -> int:
        """Take the rest of a run of one source and one instant, and return the index after it.

        The first event of the run has been taken.
        """
        queues = self._queues
        last = min(end, at + queues.max_count - queues.count)
        room = queues.max_bytes - queues.bytes
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
            if (
                event.source != source
                or event.at_ns != at_ns
                or event.seq != seq + 1
                or ref_ns < newest_ns
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
            seq += 1
            newest_ns = ref_ns
            if arrival_ns > received_ns:
                received_ns = arrival_ns
            if event.error_ns > error_ns:
                error_ns = event.error_ns
            delays.append(arrival_ns - ref_ns)
            end += 1
        if end == at:
            return at
        progress.queue.extend(batch[at:end])
        queues.kept += batch[at:end]
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
