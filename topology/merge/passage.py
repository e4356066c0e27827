"""How far MERGE has let events go, and which events come too late for it.

An event is *passed* when it is below the last one that left unmarked, in the total order, or below
an announced watermark. Such events are late, and so is one whose time falls within its source:
CLOCK sees to it that times do not, but past `max_sources` it forgets the clock of a source that is
still known here. The causes say why others were let pass:

| cause | what was so |
|---|---|
| `merge_clock` | none of these: its time is below that of the event before it of its own source |
| `merge_full` | the bound on what may wait was reached: others had to leave, or it had to |
| `merge_behind` | its source was catching up: the event before was late too |
| `merge_new` | its source had not been heard, or had been forgotten beyond `max_sources` |
| `merge_pause` | its source came back from a pause of the whole log |
| `merge_idle` | its source had been silent for `idle_after`, or had said bye |
| `merge_wait` | its source was waited for as long as its delays call for, and that was too short |

The first that holds counts.

Late events leave when the instant is over, ahead of those in order and in the same order among
themselves: so it does not show in which order they came, nor from how many upstream partitions.

Proved by: tests/topology/merge/test_passage.py, tests/topology/merge/test_operator.py
"""

from __future__ import annotations

from typing import Any

from topology.merge.bounds import Bound
from topology.merge.source import AWAITED, BEHIND, NO_REF, OUT, SourceProgress
from topology.merge.watermark import Watermark
from topology.model.event import Event
from topology.model.outcome import (
    MERGE_BEHIND,
    MERGE_CLOCK,
    MERGE_FULL,
    MERGE_IDLE,
    MERGE_NEW,
    MERGE_PAUSE,
    MERGE_WAIT,
    Late,
    Step,
)


class Passage:
    """`watermark` announces; `pass_late`: late events go on, marked; else they are reported.
    `floor_ns`: an event above it is in time. It is never above the arrival clock before the end."""

    __slots__ = ("_pass_late", "_pushed_ns", "_watermark", "floor_ns", "last", "late_by_cause")

    def __init__(self, watermark: Watermark, pass_late: bool) -> None:
        self._watermark = watermark
        self._pass_late = pass_late
        self.last = (NO_REF, "", 0, 0)
        self.floor_ns = NO_REF  # the larger of the last one's time and W
        self._pushed_ns = NO_REF  # up to here events left because there was no room
        self.late_by_cause: dict[str, int] = {}

    def has_passed(self, event: Event) -> bool:
        ref_ns = event.ref_time_ns
        return ref_ns < self._watermark.ns or (
            ref_ns <= self.floor_ns and (ref_ns, event.source, event.epoch, event.seq) < self.last
        )

    def cause(self, progress: SourceProgress, event: Event) -> str:
        """Why it was passed; asked before its source is taken for catching up."""
        if not self.has_passed(event):
            return MERGE_CLOCK
        if event.ref_time_ns <= self._pushed_ns:
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
            last = events[-1]
            self.last = (last.ref_time_ns, last.source, last.epoch, last.seq)
            self.floor_ns = max(self._watermark.ns, last.ref_time_ns)
            step.released.extend(events)

    def push(self) -> None:
        """What left last had to, for want of room."""
        self._pushed_ns = self.last[0]

    def announce(
        self,
        stream: str,
        heads: list[Bound],
        now_ns: int,
        dirty: list[SourceProgress],
        step: Step,
        beats_ns: tuple[int, int] = (0, 0),
    ) -> None:
        said = self._watermark.announce(stream, self.last[0], heads, now_ns, dirty, beats_ns)
        self.floor_ns = self._watermark.ns
        if said is not None:
            step.released.append(said)

    def snapshot(self) -> Any:
        return [
            list(self.last),
            self._pushed_ns,
            self._watermark.ns,
            self._watermark.complete_ns,
            self.late_by_cause.copy(),
        ]

    def restore(self, state: Any) -> None:
        last, self._pushed_ns, self._watermark.ns, self._watermark.complete_ns, causes = state
        self.late_by_cause = dict(causes)
        self.last = (last[0], last[1], last[2], last[3])
        self.floor_ns = max(self._watermark.ns, last[0])
