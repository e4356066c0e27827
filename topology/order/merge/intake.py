"""Takes events into MERGE one by one: learns about their sources, and decides which are late.

An event in sequence shows how far its source has got and how long its events take to arrive. It
also shows that REORDER buffers nothing of the source behind a gap. REORDER reports such gaps by
`blocked` and `unblocked`. Only the number and time of a heartbeat or an end-of-stream marker count,
and only the number of a dead letter. An event in time is buffered in the queue of its source. A
late event (`Passage.judge` decides) is buffered outside the queues until the instant is over.

Most events do not change what may be emitted (`opens`). If one source, or only the clock, holds all
others up, only three things can change this. These are a record of that source, the passing of
time, and an event below all buffered ones. If the limit depends on the pool's delays, a change of
the pool's wait can too.

Cost: O(1) an event, and the cost of a queue.
"""

from __future__ import annotations

from topology.base.event import BLOCKED, BYE, DATA, DEAD, HEARTBEAT, UNBLOCKED, Event
from topology.base.late import SET_BACK
from topology.base.operator import NEVER
from topology.base.outcome import Duplicate, Step
from topology.order.merge.bounds import SourceBounds
from topology.order.merge.passage import Passage
from topology.order.merge.pause import Pause
from topology.order.merge.queues import Queues
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import (
    AWAITED,
    BEHIND,
    DOZING,
    NO_REF,
    NOT_LED,
    OUT,
    SourceProgress,
)
from topology.order.merge.sources import KnownSources
from topology.order.merge.watermark import Watermark


class Intake:
    """The part of a `Merge` that takes events in.

    `numbered` means that the sources number their events.

    Attributes:
        start: The first number of each epoch of a source, or -1 if it is unknown.
    """

    def __init__(
        self,
        known: KnownSources,
        bounds: SourceBounds,
        queues: Queues,
        passage: Passage,
        pause: Pause,
        watermark: Watermark,
        numbered: bool,
        config: MergeConfig,
    ) -> None:
        self._known, self._sources = known, known.rows
        self._pool, self._errors, self._scattered = known.pool, known.errors, known.scattered
        self._bounds = bounds
        self._queues = queues
        self._passage = passage
        self._pause = pause
        self._watermark = watermark
        self._numbered = numbered
        self._awaits_set_backs = bool(config.max_set_back_ns)
        self._correct_for_ns = config.correct_for_ns
        allowance_ns = config.new_source_allowance_ns
        self._new_source_allowance_ns = (
            config.correct_for_ns if allowance_ns is None else allowance_ns
        )
        self._tail_wait_ns = config.reorder.max_wait_ns
        start = config.reorder.start
        self.start = start if isinstance(start, int) and config.reorder.numbered else -1

    # -- Any event ---------------------------------------------------------------------------------

    def is_next(self, progress: SourceProgress, event: Event) -> bool:
        """Return whether the event is an ordinary one: its source's next data event, in time.

        An ordinary event changes nothing besides its source's newest time, number and delays.
        """
        return (
            event.seq == progress.seq + 1
            and event.ref_time_ns >= progress.newest_ns
            and event.ref_time_ns >= self._passage.floor_ns
            and event.epoch == progress.epoch
            and event.kind == DATA
            and not event.late
            and event.lane == progress.input_partition
            and progress.state not in (AWAITED, BEHIND)
            and not progress.said_bye
            and (self._numbered or not progress.blocked)
            and self._pause.since_ns == NEVER
        )

    def take(self, progress: SourceProgress, event: Event, now_ns: int, step: Step) -> bool:
        """Take the event in, and return whether it may change what is emitted at this instant."""
        if event.kind != DATA:
            self._take_control(progress, event)
            return True
        if progress.input_partition != event.lane:
            if progress.input_partition != -1:
                self._scattered.add(progress.source)
            progress.input_partition = event.lane
        if event.late:
            self._take_late(progress, event, now_ns)
            return True
        if progress.is_duplicate(event):
            progress.duplicate += 1
            step.reports.append(Duplicate(now_ns, event))
            return self._unblock_source(progress)
        if self._pause.since_ns != NEVER or progress.state == AWAITED:
            self._pause.judge_record(progress, event)
        self._record_arrival(progress, event)
        ref_ns = event.ref_time_ns
        newest_ns = max(progress.newest_ns, ref_ns)
        if ref_ns < newest_ns:
            self._learn_set_back(progress, event)
        if progress.state != AWAITED:  # A delay caused by a pause says nothing about other delays.
            since_ns = newest_ns if self._awaits_set_backs else ref_ns
            progress.sample(event.arrival_ns - since_ns, self._pool)
        self._record_number(progress, event, ref_ns)
        self._place(progress, event, newest_ns, now_ns)
        return True

    def _place(self, progress: SourceProgress, event: Event, newest_ns: int, now_ns: int) -> None:
        """Buffer an event in sequence, which makes `newest_ns` the newest time of its source."""
        cause = self._passage.judge(progress, event)
        if cause:
            progress.newest_ns = newest_ns
            if cause != SET_BACK and progress.state != AWAITED:
                self._bounds.stop_waiting_if_slow(progress, event.arrival_ns - newest_ns)
            self.defer_late(progress, event, cause, now_ns)
        elif event.ref_time_ns < newest_ns:
            self._queues.insert(progress, event)
        else:
            self._queues.add(progress, event)
        if not cause or cause == SET_BACK:
            self._bounds.make_live(progress, newest_ns)

    def _learn_set_back(self, progress: SourceProgress, event: Event) -> None:
        """Learn from an event that is set back how far its source sets back.

        A fall by more than `correct_for` teaches nothing, because no result is corrected so late.
        """
        self._passage.count_set_back(event)
        fall_ns = progress.newest_ns - event.ref_time_ns
        if progress.set_back_ns < fall_ns <= self._correct_for_ns:
            progress.set_back_ns = fall_ns
            self._known.note_set_back(progress)

    def defer_late(self, progress: SourceProgress, event: Event, cause: str, now_ns: int) -> None:
        """Count an event as late, and buffer it until the instant is over."""
        self._passage.count(progress, cause)
        self._queues.buffer_late(progress, event, cause, now_ns)

    def _take_control(self, progress: SourceProgress, event: Event) -> None:
        """Take in a heartbeat, an end-of-stream marker, a dead letter or a report of REORDER."""
        kind = event.kind
        if kind == BLOCKED:
            self._bounds.block(progress)
        elif kind == UNBLOCKED:
            self._bounds.unblock(progress)
        elif progress.is_duplicate(event):
            self._unblock_source(progress)
        elif kind == DEAD:
            self._bounds.unblock(progress)
            self._record_number(progress, event, progress.newest_ns)
        elif kind == HEARTBEAT:
            self._pause.judge_record(progress, event)
            self._record_arrival(progress, event)
            self._record_number(progress, event, event.ref_time_ns)
            if progress.state != BEHIND or event.ref_time_ns >= self._passage.floor_ns:
                self._bounds.record_progress(progress, max(progress.newest_ns, event.ref_time_ns))
        elif kind == BYE:
            self._record_arrival(progress, event)
            self._record_number(progress, event, event.ref_time_ns)
            progress.newest_ns = max(progress.newest_ns, event.ref_time_ns)
            if progress.state != BEHIND:
                self._bounds.retire(progress, OUT)
            self._bounds.set_departed(progress)

    def _unblock_source(self, progress: SourceProgress) -> bool:
        """Unblock the source of a duplicate, and return whether it was blocked.

        After a restart with `at_least_once`, REORDER emits BLOCKED again, too. The event that ended
        it the first time has to end it again.
        """
        was_blocked = progress.blocked
        if was_blocked:
            self._bounds.unblock(progress)
        return was_blocked

    def _take_late(self, progress: SourceProgress, event: Event, now_ns: int) -> None:
        """Take in an event that REORDER has marked as late.

        If the cause is `gap`, REORDER had given up the event's number. MERGE treats the event as in
        time if it has emitted no later event, and the time fits the source's sequence. With
        `overtaken` (`rule: time`) the event has no such number. It stays late, even if MERGE has
        not passed its time.
        """
        fits = progress.fill_missing(event)
        self._watermark.note(progress)
        idle_ns = progress.last_arrival_ns + self._bounds.idle_after_ns
        if progress.state < OUT or (progress.state == BEHIND and event.at_ns <= idle_ns):
            progress.last_arrival_ns = max(progress.last_arrival_ns, event.arrival_ns)
        cause = self._passage.find_late_cause_of_filled(event, fits)
        if cause:
            progress.late += 1
            self._queues.buffer_late(progress, event, cause, now_ns)
            return
        event.late = ""
        self._update_error(progress, event)
        self._queues.insert(progress, event)
        if event.ref_time_ns > progress.newest_ns:
            if progress.state < OUT or progress.state == DOZING:
                self._bounds.make_live(progress, event.ref_time_ns)
            else:
                progress.newest_ns = event.ref_time_ns

    def _record_number(self, progress: SourceProgress, event: Event, ref_time_ns: int) -> None:
        if progress.newest_ns == NO_REF and event.kind == DEAD:
            return  # The time of the numbers before it is unknown, until an event has one.
        if event.epoch != progress.epoch >= 0:
            progress.await_tail(event.at_ns + self._tail_wait_ns, ref_time_ns)
        since_ns = ref_time_ns - self._new_source_allowance_ns
        progress.record_number(event, ref_time_ns, self.start, since_ns)
        if progress.has_missing:
            self._watermark.lacking.add(progress.source)

    def _record_arrival(self, progress: SourceProgress, event: Event) -> None:
        silent_ns = event.arrival_ns - progress.last_arrival_ns
        if silent_ns > self._bounds.idle_after_ns and progress.state != AWAITED:
            progress.update_silence(silent_ns)
        if silent_ns > 0:
            progress.last_arrival_ns = event.arrival_ns
        elif progress.last_arrival_ns > event.at_ns:
            # The source was expected, so its last arrival was set to a later time than this.
            progress.last_arrival_ns = event.arrival_ns
            self._bounds.watch(progress)
        self._update_error(progress, event)
        self._bounds.record_in_sequence(progress, event.at_ns)

    def _update_error(self, progress: SourceProgress, event: Event) -> None:
        """Set the source's time error to the event's. While events are queued, only raise it."""
        if not progress.queue or event.error_ns > progress.error_ns:
            progress.error_ns = event.error_ns
            if progress.error_ns > progress.recorded_error_ns:
                self._errors.record_growth(progress)

    # -- Plain events ------------------------------------------------------------------------------

    def opens(self, progress: SourceProgress, was_empty: bool, led_max_ns: int) -> bool:
        """Return whether the event just taken may change what is emitted.

        It was next in the sequence of its source, which was not blocked. `was_empty` and
        `led_max_ns` are from before the event. They are whether the source's queue was empty, and
        the longest wait of the sources whose bound follows the clock (`bounds.led_max_ns`).
        """
        bounds = self._bounds
        if was_empty and self._queues.heads[0][1] == progress.source:
            return True
        if bounds.pooled_ns != NOT_LED and bounds.pooled_ns != bounds.pool_wait_ns():
            return True
        if bounds.limited_by_time:
            return bounds.lacks_witness or bounds.led_max_ns != led_max_ns
        return not bounds.limiting or bounds.limiting == progress.source
