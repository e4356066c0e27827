"""INTAKE: what MERGE learns from an event about its source, and whether the event is in time.

An event in sequence says how far its source is, how late it comes and that nothing of it waits
behind a hole; `blocked` and `unblocked` are REORDER's word on that; a heartbeat and a bye speak of
time alone; a dead letter only fills its number. What is in time waits in the queue of its source;
what is late (topology.merge.passage) waits beside the queues until the instant is over.

The plain case are the next events of a live source, in time. A *run* are events of one source that
came at one instant and follow on one another. Its first event goes into the queue of its source at
once, and the others in one piece (`follow`), if of the first one all holds that `Merge.on_batch`
asks:

* its source is live, however it is bounded, and no gap in the log waits to be judged;
* the source had not been silent for more than `idle_after` before it;
* it bears the number after the newest one, of the same epoch and input partition;
* it is later than the newest of its source, and than all that has left or been announced;

for as long as the queues have room; one by one until the delays of the source are known (`warm`),
as each of them is a sample of the pool. Whatever else comes, and what a run leaves, goes by `take`,
which does the same one at a time.

Most runs do not change what may leave (`opens`), and then nobody asks: as long as one source alone
holds everything up, or time alone does, only a word of that source, time, or an event below all
that wait can let something go; or, where the one or the other rests on the pool, another wait by
the pool.

Cost: O(1) an event and what a queue costs; in the plain case O(log sources) a run.
"""

from __future__ import annotations

from topology.merge.bounds import SourceBounds
from topology.merge.passage import Passage
from topology.merge.pause import Pause
from topology.merge.queues import Queues
from topology.merge.source import AWAITED, BEHIND, NOT_LED, OUT, POOL_EVERY, SourceProgress
from topology.merge.sources import KnownSources
from topology.merge.watermark import Watermark
from topology.model.event import BLOCKED, BYE, DATA, DEAD, HEARTBEAT, UNBLOCKED, Event
from topology.model.operator import NEVER
from topology.model.outcome import Duplicate, Step


class Intake:
    """Over the parts of a `Merge`. `numbered`: the sources number their events."""

    def __init__(
        self,
        known: KnownSources,
        bounds: SourceBounds,
        queues: Queues,
        passage: Passage,
        pause: Pause,
        watermark: Watermark,
        position: int,
        numbered: bool,
    ) -> None:
        self._pool, self._scattered = known.pool, known.scattered
        self._errors = known.errors
        self._bounds = bounds
        self._queues = queues
        self._passage = passage
        self._pause = pause
        self._watermark = watermark
        self._position = position
        self._numbered = numbered

    # -- any event ---------------------------------------------------------------------------------

    def take(
        self, progress: SourceProgress, event: Event, is_next: bool, now_ns: int, step: Step
    ) -> bool:
        """Whether it may change what leaves at this instant. `is_next`: it is plain
        (`follow`), so no gap is to be judged."""
        # In one piece because it runs for every event that is not the plain next one.
        if event.kind != DATA:
            self._take_word(progress, event)
            return True
        if progress.input_partition != event.lane:
            if progress.input_partition != -1:
                self._scattered.add(progress.source)
            progress.input_partition = event.lane
        if event.late:
            self._take_late(progress, event, now_ns)
            return True
        if progress.is_copy(event):
            progress.duplicate += 1
            step.reports.append(Duplicate(now_ns, event))
            return False
        if not is_next and (self._pause.since_ns != NEVER or progress.state == AWAITED):
            self._pause.receive(progress, event)
        self._receive(progress, event)
        ref_ns = event.ref_time_ns
        if progress.state != AWAITED:  # a delay through a pause is no sample of other times
            progress.sample(event.arrival_ns - ref_ns, self._pool)
        self._follow(progress, event, ref_ns)
        cause = self._passage.judge(progress, event)
        if cause:
            progress.newest_ns = max(progress.newest_ns, ref_ns)
            if progress.state != AWAITED:
                self._bounds.fall_behind(progress, event.arrival_ns - ref_ns)
            self.turn_away(progress, event, cause, now_ns)
            return True
        self._queues.add(progress, event)
        self._bounds.enter(progress, ref_ns)
        return True

    def turn_away(self, progress: SourceProgress, event: Event, cause: str, now_ns: int) -> None:
        """It is late."""
        self._passage.count(progress, cause)
        self._queues.hold_late(progress, event, cause, now_ns)

    def _take_word(self, progress: SourceProgress, event: Event) -> None:
        """Something that is no event."""
        kind = event.kind
        if kind == BLOCKED:
            self._bounds.block(progress)
        elif kind == UNBLOCKED:
            self._bounds.unblock(progress)
        elif progress.is_copy(event):
            return
        elif kind == DEAD:
            self._bounds.unblock(progress)
            self._follow(progress, event, progress.newest_ns)
        elif kind == HEARTBEAT:
            self._pause.receive(progress, event)
            self._receive(progress, event)
            self._follow(progress, event, event.ref_time_ns)
            if progress.state != BEHIND or event.ref_time_ns >= self._passage.floor_ns:
                self._bounds.speak(progress, max(progress.newest_ns, event.ref_time_ns))
        elif kind == BYE:
            self._receive(progress, event)
            self._follow(progress, event, event.ref_time_ns)
            progress.newest_ns = max(progress.newest_ns, event.ref_time_ns)
            if progress.state != BEHIND:
                self._bounds.leave(progress, OUT)
            self._bounds.say_bye(progress)

    def _take_late(self, progress: SourceProgress, event: Event, now_ns: int) -> None:
        """Late in REORDER: its number had been declared missing. Where its place in both orders is
        still open nothing is late, and it leaves there."""
        fits = progress.fill(event)
        self._watermark.note(progress)
        idle_ns = progress.last_arrival_ns + self._bounds.idle_after_ns
        if progress.state < OUT or (progress.state == BEHIND and event.at_ns <= idle_ns):
            progress.last_arrival_ns = max(progress.last_arrival_ns, event.arrival_ns)
        cause = self._passage.judge_filled(event, fits)
        if cause:
            progress.late += 1
            self._queues.hold_late(progress, event, cause, now_ns)
            return
        event.late = ""
        progress.error_ns = (
            max(progress.error_ns, event.error_ns) if progress.queue else event.error_ns
        )
        self._note_error(progress)
        self._queues.insert(progress, event)

    def _follow(self, progress: SourceProgress, event: Event, ref_time_ns: int) -> None:
        progress.follow(event, ref_time_ns)
        if progress.lacks_numbers:
            self._watermark.lacking.add(progress.source)

    def _receive(self, progress: SourceProgress, event: Event) -> None:
        silent_ns = event.arrival_ns - progress.last_arrival_ns
        if silent_ns > self._bounds.idle_after_ns and progress.state != AWAITED:
            progress.wake(silent_ns)
        if silent_ns > 0:
            progress.last_arrival_ns = event.arrival_ns
        elif progress.last_arrival_ns > event.at_ns:
            # It was expected, and counted as received until later than this.
            progress.last_arrival_ns = event.arrival_ns
            self._bounds.watch(progress)
        if not progress.queue or event.error_ns > progress.error_ns:
            progress.error_ns = event.error_ns
            self._note_error(progress)
        self._bounds.receive(progress, event.at_ns)

    def _note_error(self, progress: SourceProgress) -> None:
        if progress.error_ns > progress.noted_error_ns:
            self._errors.grows(progress)

    # -- the plain case ----------------------------------------------------------------------------

    def knows(self, progress: SourceProgress) -> bool:
        """The source is bounded by time, is idle, or its events wait behind a hole, and all that
        its next one says of that is that it no longer is."""
        return (
            progress.state not in (AWAITED, BEHIND)
            and not progress.said_bye
            and (self._numbered or not progress.blocked)
        )

    def opens(self, progress: SourceProgress, was_empty: bool, led_max_ns: int) -> bool:
        """A run of the source, behind no hole before, may change what leaves. Before it the queue
        was empty or not, and the bound by time at that distance."""
        bounds = self._bounds
        if was_empty and self._queues.heads[0][1] == progress.source:
            return True
        if bounds.pooled_ns != NOT_LED and bounds.pooled_ns != bounds.pool_wait_ns():
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
