"""How far MERGE has let events go, and which events come too late for it.

An event is *passed* when its time is below that of the last one that left unmarked, or below an
announced watermark. One of the same time is not, whatever its source: the order is that of time,
and by source only among those that leave together. So coarse stamps make nothing late. A number
that was declared missing is also passed if the last event that left comes after it in the total
order, as its own source may be beyond it. What is passed is late. So is an event whose time is
before that of its source's last event: CLOCK prevents that, but past `max_sources` it forgets the
clock of a source that is still known here. `Passage.judge` decides, and names the cause
(topology.model.late). The queues give events up when they are full: those are late by `merge_full`
(`Merge._overflow`).

Late events leave when the instant is over, ahead of those in order and in the same order among
themselves: so it does not show in which order they came, nor from how many upstream partitions.
"""

from __future__ import annotations

from typing import Final

from topology.merge.queues import in_stream
from topology.merge.source import AWAITED, BEHIND, NO_REF, OUT, SourceProgress
from topology.merge.watermark import Watermark
from topology.model.event import Event
from topology.model.kept import BIG, INT, TEXT, Kept, Shape, dict_of, tuple_of
from topology.model.late import (
    MERGE_BEHIND,
    MERGE_CLOCK,
    MERGE_FULL,
    MERGE_IDLE,
    MERGE_NEW,
    MERGE_PAUSE,
    MERGE_WAIT,
)
from topology.model.outcome import Late, Step

PASSAGE: Final = Shape(
    "merge.passage",
    1,
    last=tuple_of(BIG, TEXT, INT, INT),
    _pushed_ns=BIG,
    late_by_cause=dict_of(TEXT, INT),
)


class Passage(Kept):
    """`watermark` announces; `pass_late`: late events go on, marked; else they are reported.
    `floor_ns`: an event below it is late. It is never above the arrival clock before the end."""

    SHAPE = PASSAGE

    def __init__(self, watermark: Watermark, pass_late: bool) -> None:
        self._watermark = watermark
        self._pass_late = pass_late
        self.last = (NO_REF, "", 0, 0)
        self.floor_ns = NO_REF  # the larger of the last one's time and W
        self._pushed_ns = NO_REF  # up to here events left because there was no room
        self.late_by_cause: dict[str, int] = {}

    def judge(self, progress: SourceProgress, event: Event) -> str:
        """The cause for which `event` is late; empty if it is in time. Asked before its source is
        taken for catching up."""
        ref_ns = event.ref_time_ns
        if ref_ns >= self.floor_ns:
            return MERGE_CLOCK if ref_ns < progress.newest_ns else ""
        if ref_ns <= self._pushed_ns:
            return MERGE_FULL
        if progress.state == BEHIND:
            return MERGE_BEHIND
        if progress.newest_ns == NO_REF:
            return MERGE_NEW
        if progress.state == AWAITED:
            return MERGE_PAUSE
        if progress.state == OUT or progress.woke_ns == progress.newest_ns:
            return MERGE_IDLE
        return MERGE_WAIT

    def judge_filled(self, event: Event, fits: bool) -> str:
        """The same of an event whose number REORDER had declared missing. `fits`: its time is
        between those of its neighbours by number. In time it leaves in its place, unmarked."""
        passed = event.ref_time_ns < self.floor_ns or in_stream(event) < self.last
        return event.late if passed or not fits else ""

    def count(self, progress: SourceProgress, cause: str) -> None:
        """One of its events is late."""
        progress.late += 1
        self.late_by_cause[cause] = self.late_by_cause.get(cause, 0) + 1

    def let_late_go(self, events: list[Event], step: Step) -> None:
        """They are marked with their causes."""
        if self._pass_late:
            step.released += events
            return
        for event in events:
            cause, event.late = event.late, ""
            by_ns = max(0, self.floor_ns - event.ref_time_ns)
            step.reports.append(Late(event.at_ns, event, cause, by_ns))

    def release(self, events: list[Event], step: Step) -> None:
        """They leave in order."""
        if events:
            self.last = max(self.last, in_stream(events[-1]))
            self.floor_ns = max(self._watermark.ns, self.last[0])
            step.released.extend(events)

    def push(self) -> None:
        """What left last had to, for want of room."""
        self._pushed_ns = self.last[0]

    def settled(self) -> None:
        """The last event that left, or W, is another."""
        self.floor_ns = max(self._watermark.ns, self.last[0])
