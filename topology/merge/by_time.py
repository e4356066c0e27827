"""MERGE behind `topology.reorder.by_time`: sources that number nothing.

The order, the waits and W are those of `topology.merge.operator`. What differs:

* Only `unblocked` says that nothing of a source waits in REORDER any more. There a source
  may hold events nearly always, and an event that leaves says nothing of those behind it.
* A late event takes a number of its own between those in order: it is none that was missing.
* C is `correct_for` behind W. It would say that all has been received up to there, and that is
  known of no instant: another event may still be on its way, however long ago its source sent one
  beyond it. So what rests on C is final only when correcting ends, and `uncertain` until then.

A stream is `mixed` where some sources number their events (`topology.reorder.mixed`, which says of
these too when nothing waits any more). What numbers say of C counts there as well.
"""

from __future__ import annotations

from topology.merge.bounds import SourceBounds
from topology.merge.passage import Passage
from topology.merge.source import NO_REF, SourceProgress
from topology.merge.watermark import Watermark
from topology.model.event import DATA, UNBLOCKED, Event
from topology.model.outcome import Step


class UncertainWatermark(Watermark):
    """As `Watermark`, but for C. `is_mixed`: some sources number their events."""

    is_mixed: bool = False

    def _completeness(self, watermark_ns: int) -> int:
        complete_ns = super()._completeness(watermark_ns)  # writes off what is past correcting
        corrected_ns = watermark_ns - self._correct_for_ns
        return min(complete_ns, corrected_ns) if self.is_mixed else corrected_ns

    def begin(self, first: Event) -> Event:
        """The watermark announced before the first event, which is about to leave."""
        self.ns = first.ref_time_ns
        self.complete_ns = self._completeness(self.ns)
        return self._announced(first.stream, first.at_ns)


class UncertainPassage(Passage):
    """As `Passage`; if it `announces`, a watermark goes before the first event that leaves."""

    def __init__(self, watermark: UncertainWatermark, pass_late: bool, announces: bool) -> None:
        super().__init__(watermark, pass_late)
        self._uncertain = watermark
        self._announces = announces

    def release(self, events: list[Event], step: Step) -> None:
        if events and self._announces and self._uncertain.ns == NO_REF:
            step.released.append(self._uncertain.begin(events[0]))
        super().release(events, step)


def goes_on(
    bounds: SourceBounds, progress: SourceProgress, kind: str, was_late: bool, was_blocked: bool
) -> None:
    """An event of the source has been taken in; it was late, or the source was
    blocked, before."""
    if was_blocked and kind != UNBLOCKED:
        bounds.block(progress)
    if was_late and kind == DATA:
        progress.seq += 1
