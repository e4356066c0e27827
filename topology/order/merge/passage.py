"""Records how far MERGE has emitted events, and decides which events are late.

An event is *passed* if its time is below that of the last event emitted unmarked, or below an
announced watermark. An event of the same time is not passed, whatever its source. The order is by
time, and by source only among events that are emitted together. So coarse timestamps make no event
late.

An event whose number was declared missing is also passed if the last emitted event comes after it
in the total order. The last emitted event may be a later one of the same source.

A passed event is late. So is an event whose time is before that of its source's last event. CLOCK
prevents that, except beyond `max_sources`: then it may forget the clock of a source that MERGE
still knows. `Passage.judge` decides, and names the cause (topology.base.late). Events that full
queues give up are late by `merge_full` (`Merge._make_room`).

Late events are emitted when the instant is over, before the events in order. They are sorted in the
same way. So the result depends neither on their order of arrival nor on the number of upstream
partitions.
"""

from __future__ import annotations

from typing import Final

from topology.base.event import Event
from topology.base.late import (
    MERGE_BEHIND,
    MERGE_FULL,
    MERGE_IDLE,
    MERGE_NEW,
    MERGE_PAUSE,
    MERGE_WAIT,
    SET_BACK,
)
from topology.base.outcome import Late, Step
from topology.order.merge.queues import in_stream
from topology.order.merge.source import AWAITED, BEHIND, NO_REF, OUT, SourceProgress
from topology.order.merge.watermark import Watermark
from topology.state.saved import BIG, INT, TEXT, Saved, Shape, dict_of, tuple_of

PASSAGE: Final = Shape(
    "merge.passage",
    1,
    last=tuple_of(BIG, TEXT, INT, INT),
    _pushed_ns=BIG,
    late_by_cause=dict_of(TEXT, INT),
    set_backs=INT,
    set_backs_beyond=INT,
)


class Passage(Saved):
    """The position up to which MERGE has emitted events.

    `watermark` has the announced W. With `pass_late`, late events are emitted with a mark;
    otherwise they are reported. An event below `floor_ns` is late. Before the end of the input,
    `floor_ns` is never above the arrival clock.
    """

    SHAPE = PASSAGE

    def __init__(self, watermark: Watermark, pass_late: bool) -> None:
        self._watermark = watermark
        self._pass_late = pass_late
        self.last = (NO_REF, "", 0, 0)
        self.floor_ns = NO_REF  # The larger of the last emitted event's time and W.
        self._pushed_ns = NO_REF  # Events up to this time were emitted for lack of room.
        self.late_by_cause: dict[str, int] = {}
        self.set_backs = 0
        self.set_backs_beyond = 0

    def judge(self, progress: SourceProgress, event: Event) -> str:
        """Return the cause for which `event` is late, or an empty string if it is in time.

        Call this before the event changes its source's state. The cause is `SET_BACK` if only the
        event is late, and not its source.
        """
        ref_ns = event.ref_time_ns
        is_set_back = ref_ns < progress.newest_ns
        if ref_ns >= self.floor_ns and not (is_set_back and in_stream(event) < self.last):
            return ""
        if ref_ns <= self._pushed_ns:
            return MERGE_FULL
        if progress.newest_ns >= self.floor_ns:
            return SET_BACK
        if progress.state == BEHIND:
            return MERGE_BEHIND
        if progress.newest_ns == NO_REF:
            return MERGE_NEW
        if progress.state == AWAITED:
            return MERGE_PAUSE
        if progress.state == OUT or progress.woke_ns == progress.newest_ns:
            return MERGE_IDLE
        return MERGE_WAIT

    def find_late_cause_of_filled(self, event: Event, fits: bool) -> str:
        """Return the cause for which an event with a number declared missing is late, or "".

        `fits` means that its time is between those of its neighbours by number. An event in time is
        emitted in order, unmarked.
        """
        passed = event.ref_time_ns < self.floor_ns or in_stream(event) < self.last
        return event.late if passed or not fits else ""

    def count_set_back(self, event: Event) -> None:
        """Count an event that is set back, and whether C had excluded it."""
        self.set_backs += 1
        self.set_backs_beyond += self._watermark.is_broken_by(event.ref_time_ns, self.last[0])

    def count(self, progress: SourceProgress, cause: str) -> None:
        """Count a late event of the source under its cause."""
        progress.late += 1
        self.late_by_cause[cause] = self.late_by_cause.get(cause, 0) + 1

    def emit_late(self, events: list[Event], step: Step) -> None:
        """Emit the late events, marked with their causes, or report them without `pass_late`."""
        if self._pass_late:
            step.released += events
            return
        for event in events:
            cause, event.late = event.late, ""
            by_ns = max(0, self.floor_ns - event.ref_time_ns)
            step.reports.append(Late(event.at_ns, event, cause, by_ns))

    def release(self, events: list[Event], step: Step) -> None:
        """Emit events that are already in order, and move the position after the last of them."""
        if events:
            self.last = max(self.last, in_stream(events[-1]))
            self.floor_ns = max(self._watermark.ns, self.last[0])
            step.released.extend(events)

    def record_overflow(self) -> None:
        """Record that the last events were emitted for lack of room."""
        self._pushed_ns = self.last[0]

    def derive(self) -> None:
        """Update the floor after a change of the last event or of the watermark."""
        self.floor_ns = max(self._watermark.ns, self.last[0])
