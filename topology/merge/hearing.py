"""What MERGE learns from an event: of its source, and whether it is in time.

An event in sequence says how far its source is, how late it comes and that nothing of it waits
behind a hole; `blocked` and `unblocked` are REORDER's word on that; a heartbeat and a bye speak of
time alone; a dead letter only fills its number. What is in time waits in the queue of its source;
what is late is turned away (topology.merge.passage). Cost: O(1), and what a queue costs.
"""

from __future__ import annotations

from topology.merge.bounds import Frontier
from topology.merge.passage import Passage
from topology.merge.pause import Pause
from topology.merge.queues import Queues
from topology.merge.source import AWAITED, BEHIND, OUT, Feed
from topology.merge.watermark import Watermark
from topology.model.event import BLOCKED, BYE, DATA, DEAD, HEARTBEAT, UNBLOCKED, Event
from topology.model.histogram import Histogram
from topology.model.operator import NEVER
from topology.model.outcome import Duplicate, Step


class Hearing:
    """Over the parts of a `Merge`."""

    __slots__ = ("_frontier", "_passage", "_pause", "_pool", "_queues", "_watermark")

    def __init__(
        self,
        frontier: Frontier,
        queues: Queues,
        passage: Passage,
        pause: Pause,
        watermark: Watermark,
        pool: Histogram,
    ) -> None:
        self._frontier = frontier
        self._queues = queues
        self._passage = passage
        self._pause = pause
        self._watermark = watermark
        self._pool = pool

    def take(self, feed: Feed, event: Event, now_ns: int, step: Step) -> bool:
        """Whether it may change what leaves at this instant."""
        if event.kind != DATA:
            self._take_word(feed, event)
            return True
        feed.wandered = feed.wandered or feed.lane not in (-1, event.lane)
        feed.lane = event.lane
        if event.late:
            return self._take_late(feed, event, step)
        return self._take_data(feed, event, now_ns, step)

    def _take_word(self, feed: Feed, event: Event) -> None:
        """Something that is no event."""
        kind = event.kind
        if kind == BLOCKED:
            self._frontier.block(feed)
        elif kind == UNBLOCKED:
            self._frontier.unblock(feed)
        elif feed.has_heard(event):
            return
        elif kind == DEAD:
            self._frontier.unblock(feed)
            self._follow(feed, event, feed.newest_ns)
        elif kind == HEARTBEAT:
            self._pause.hear(feed, event)
            self._hear(feed, event)
            self._follow(feed, event, event.ref_time_ns)
            if feed.state != BEHIND or event.ref_time_ns >= self._passage.floor_ns:
                self._frontier.speak(feed, max(feed.newest_ns, event.ref_time_ns))
        elif kind == BYE:
            self._hear(feed, event)
            self._follow(feed, event, event.ref_time_ns)
            feed.newest_ns = max(feed.newest_ns, event.ref_time_ns)
            if feed.state != BEHIND:
                self._frontier.leave(feed, OUT)
            self._frontier.say_bye(feed)

    def _take_data(self, feed: Feed, event: Event, now_ns: int, step: Step) -> bool:
        if feed.has_heard(event):
            feed.duplicate += 1
            step.reports.append(Duplicate(now_ns, event))
            return False
        if self._pause.since_ns != NEVER or feed.state == AWAITED:
            self._pause.hear(feed, event)
        self._hear(feed, event)
        ref_ns = event.ref_time_ns
        if feed.state != AWAITED:  # what was kept through a pause tells nothing of other times
            feed.sample(event.arrival_ns - ref_ns, self._pool)
        self._follow(feed, event, ref_ns)
        passage = self._passage
        if ref_ns < feed.newest_ns or (ref_ns <= passage.floor_ns and passage.has_passed(event)):
            cause = passage.cause(feed, event)
            feed.newest_ns = max(feed.newest_ns, ref_ns)
            if feed.state != AWAITED:
                self._frontier.fall_behind(feed, event.arrival_ns - ref_ns)
            passage.turn_away(feed, event, cause, now_ns, step)
            return True
        self._queues.add(feed, event)
        self._frontier.enter(feed, ref_ns)
        return True

    def _take_late(self, feed: Feed, event: Event, step: Step) -> bool:
        """Late in REORDER: its number had been declared missing. Where its place in both orders is
        still open nothing is late, and it leaves there."""
        fits = feed.fill(event)
        self._watermark.note(feed)
        if feed.state < OUT:
            feed.last_arrival_ns = max(feed.last_arrival_ns, event.arrival_ns)
        if not fits or self._passage.has_passed(event):
            feed.late += 1
            step.released.append(event)
            return False
        event.late = ""
        feed.error_ns = max(feed.error_ns, event.error_ns) if feed.queue else event.error_ns
        self._queues.insert(feed, event)
        return True

    def _follow(self, feed: Feed, event: Event, ref_time_ns: int) -> None:
        feed.follow(event, ref_time_ns)
        if feed.lacks_numbers:
            self._watermark.lacking.add(feed.source)

    def _hear(self, feed: Feed, event: Event) -> None:
        if event.arrival_ns > feed.last_arrival_ns:
            feed.last_arrival_ns = event.arrival_ns
        if not feed.queue or event.error_ns > feed.error_ns:
            feed.error_ns = event.error_ns
        self._frontier.hear(feed, event.at_ns)
