"""Adapts MERGE to sources without sequence numbers, ordered by `topology.order.reorder.by_time`.

The order, the waits and W are those of `topology.order.merge.operator`. There are three
differences:

* Only `unblocked` shows that REORDER buffers no event of a source any more. Without numbers, it
  nearly always buffers events of a source, and an emitted event says nothing about later ones.
* A late event gets its own number between those in order, and fills no missing number.
* C is `correct_for` behind W. Without numbers, no instant is known to be received completely. An
  event may be under way even if its source has sent a newer one. So results that depend on C are
  final only when correction ends, and `uncertain` until then.

A stream is `mixed` if some sources number their events. For these, too,
`topology.order.reorder.mixed` reports when nothing is buffered any more. In a mixed stream C is
also limited by missing numbers.
"""

from __future__ import annotations

from topology.base.event import DATA, UNBLOCKED, Event
from topology.base.outcome import Step
from topology.order.merge.bounds import SourceBounds
from topology.order.merge.passage import Passage
from topology.order.merge.source import NO_REF, SourceProgress
from topology.order.merge.watermark import Watermark


class UncertainWatermark(Watermark):
    """A watermark whose C is `correct_for` behind W.

    `is_mixed` means that some sources number their events.
    """

    is_mixed: bool = False

    def _compute_complete_ns(self, watermark_ns: int) -> int:
        # This call also writes off missing numbers that are too old to be corrected.
        complete_ns = super()._compute_complete_ns(watermark_ns)
        corrected_ns = watermark_ns - self._correct_for_ns
        return min(complete_ns, corrected_ns) if self.is_mixed else corrected_ns

    def begin(self, first: Event) -> Event:
        """Set the watermark to the first event's time, and return the record that announces it."""
        self.ns = first.ref_time_ns
        self.complete_ns = self._compute_complete_ns(self.ns)
        return self._make_announcement(first.stream, first.at_ns)


class UncertainPassage(Passage):
    """A passage that, if `announces` is set, emits a watermark before the first event."""

    def __init__(self, watermark: UncertainWatermark, pass_late: bool, announces: bool) -> None:
        super().__init__(watermark, pass_late)
        self._uncertain = watermark
        self._announces = announces

    def release(self, events: list[Event], step: Step) -> None:
        if events and self._announces and self._uncertain.ns == NO_REF:
            step.released.append(self._uncertain.begin(events[0]))
        super().release(events, step)


def correct_after_intake(
    bounds: SourceBounds, progress: SourceProgress, kind: str, was_late: bool, was_blocked: bool
) -> None:
    """Correct the state of a source after one of its events was taken in.

    The source stays blocked until `unblocked` arrives, and a late event raises the source's number.
    `was_late` and `was_blocked` describe the event and the source before the intake.
    """
    if was_blocked and kind != UNBLOCKED:
        bounds.block(progress)
    if was_late and kind == DATA:
        progress.seq += 1
