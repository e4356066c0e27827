"""MERGE behind `topology.reorder.by_time`: sources that number nothing.

The order, the waits and W are those of `topology.merge.operator`. What differs:

* Only `unblocked` says that nothing of a source waits in REORDER any more. There a source
  may hold events nearly always, and an event that leaves says nothing of those behind it.
* A late event takes a number of its own between those in order: it is none that was missing.
* C is `correct_for` behind W. It would say that all has been heard up to there, and of no instant
  is that known: another event may still be on its way, however long ago its source was heard
  beyond it. So what rests on C is final only when correcting ends, and `uncertain` until then.
"""

from __future__ import annotations

from topology.merge.operator import Merge
from topology.merge.source import NO_REF, Feed
from topology.merge.watermark import Watermark
from topology.model.event import DATA, UNBLOCKED, WATERMARK, Event
from topology.model.outcome import Step


class Uncertain(Watermark):
    """As `Watermark`, but for C."""

    __slots__ = ()

    def _completeness(self, watermark_ns: int, dirty: list[Feed]) -> int:
        super()._completeness(watermark_ns, dirty)  # writes off what is past correcting
        return watermark_ns - self._correct_for_ns

    def begin(self, stream: str, first: Event, now_ns: int) -> Event:
        """Before the first event."""
        self.ns = first.ref_time_ns
        self.complete_ns = self.ns - self._correct_for_ns
        event = Event(stream, "", 0, 0, self.ns, now_ns, kind=WATERMARK)
        event.complete_ns = self.complete_ns
        self._tell_errors(event)
        return event


class MergeByTime(Merge):
    """Made as `Merge` is."""

    def _new_watermark(self, quiet_after_ns: int, correct_for_ns: int) -> Watermark:
        return Uncertain(self._feeds, self._pool, quiet_after_ns, correct_for_ns)

    def _release(self, events: list[Event], step: Step) -> None:
        watermark = self._watermark
        if events and self._heartbeat_ns and watermark.ns == NO_REF:
            assert isinstance(watermark, Uncertain)
            step.released.append(watermark.begin(self._stream, events[0], self._now_ns))
        super()._release(events, step)

    def _take(self, event: Event, step: Step) -> None:
        before = self._feeds.get(event.source)
        waits = before is not None and before.blocked and event.kind != UNBLOCKED
        came_late = event.kind == DATA and event.late != ""
        super()._take(event, step)
        feed = self._feeds.get(event.source)
        if feed is None:
            return
        if waits:
            self._frontier.block(feed)
        if came_late:
            feed.seq += 1
