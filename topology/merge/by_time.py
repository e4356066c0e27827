"""MERGE behind `topology.reorder.by_time`: sources that number nothing.

The order, the waits and W are those of `topology.merge.operator`. What differs:

* Only `unblocked` says that nothing of a source waits in REORDER any more. There a source
  may hold events nearly always, and an event that leaves says nothing of those behind it.
* A late event takes a number of its own between those in order: it is none that was missing.
* C is `correct_for` behind W. It would say that all has been heard up to there, and of no instant
  is that known: another event may still be on its way, however long ago its source was heard
  beyond it. So what rests on C is final only when correcting ends, and `uncertain` until then.

Proved by: tests/topology/merge/test_by_time.py, tests/oracle/test_oracle_by_time.py
"""

from __future__ import annotations

from topology.merge.bounds import SourceBounds
from topology.merge.source import NO_REF, SourceProgress
from topology.merge.watermark import Watermark
from topology.model.event import DATA, UNBLOCKED, WATERMARK, Event


class UncertainWatermark(Watermark):
    """As `Watermark`, but for C."""

    __slots__ = ()

    def _completeness(self, watermark_ns: int, dirty: list[SourceProgress]) -> int:
        super()._completeness(watermark_ns, dirty)  # writes off what is past correcting
        return watermark_ns - self._correct_for_ns

    def begin(self, stream: str, first: Event, now_ns: int) -> Event | None:
        """What is told before the first event."""
        if self.ns != NO_REF:
            return None
        self.ns = first.ref_time_ns
        self.complete_ns = self.ns - self._correct_for_ns
        event = Event(stream, "", 0, 0, self.ns, now_ns, kind=WATERMARK)
        event.complete_ns = self.complete_ns
        self._tell_errors(event)
        return event


class Unnumbered:
    """What `Merge` asks, beside the plain way, where the numbers are REORDER's own."""

    __slots__ = ("_bounds", "_watermark")

    def __init__(self, bounds: SourceBounds, watermark: UncertainWatermark) -> None:
        self._bounds = bounds
        self._watermark = watermark

    def before_first(self, stream: str, first: Event, now_ns: int) -> Event | None:
        """Nothing has left yet, and `first` is about to."""
        return self._watermark.begin(stream, first, now_ns)

    def taken(self, progress: SourceProgress, kind: str, was_late: bool, was_blocked: bool) -> None:
        """An event of the source has been taken in."""
        if was_blocked and kind != UNBLOCKED:
            self._bounds.block(progress)
        if was_late and kind == DATA:
            progress.seq += 1
