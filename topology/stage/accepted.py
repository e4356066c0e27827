"""Hands the events that MERGE accepts to queries that do not wait until MERGE emits them.

MERGE has two outputs. *Ordered* events go on along the chain, with their watermarks. Queries that
read *accepted* events get each event when it arrives. They also get marks of MERGE's progress, in
the order of instants:

    events ─┬──────────────────────────► queries that read accepted events
            └► MERGE ─┬─ marks ────────────┘
                      └─ ordered events ► the other queries

A mark PASSED names the last of the events that MERGE emitted in order at one instant. It has the
largest time and error of these. Watermarks are marks themselves. An event is not accepted if MERGE
judges it late or a duplicate and does not pass it on. Each event that MERGE reports as late has a
mark REJECTED. An accepted event may be rejected later, because the queues overflowed; then the mark
is the only sign of it.

MERGE changes the instant and the lateness of the events that it emits. So accepted events are
copies.

Cost: O(1) per event, with a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from topology.base.event import DATA, PASSED, REJECTED, WATERMARK, Event, at_ns, copy_event
from topology.base.late import MERGE_FULL
from topology.base.outcome import Duplicate, Late, Step

ACCEPTED: Final = "accepted "
"""The prefix of a node's name if the node reads accepted events instead of ordered ones."""


def kind_of(name: str) -> str:
    """Return the kind of operator of the node with this name."""
    return name.removeprefix(ACCEPTED)


class Accepted:
    """The events of a batch that MERGE accepts, and the marks of its progress.

    `events` are MERGE's input, before MERGE gets it. `passes_late` means that MERGE emits late
    events too, marked as late.
    """

    __slots__ = ("_copies", "_events", "_marks", "_passes_late", "_refused")

    def __init__(self, events: Sequence[Event], *, passes_late: bool = True) -> None:
        self._events = events
        self._passes_late = passes_late
        self._copies = [copy_event(event) for event in events]
        self._marks: list[Event] = []
        self._refused: set[Event] = set()

    def note(self, step: Step) -> None:
        """Record the marks for what MERGE emitted and reported in this step."""
        self._record_refused(step)
        passed: Event | None = None
        for event in step.released:
            if event.kind == WATERMARK:
                passed = None
                self._marks.append(event)
            elif event.kind == DATA and not event.late:
                if passed is None or passed.at_ns != event.at_ns:
                    passed = copy_event(event)
                    passed.kind = PASSED
                    self._marks.append(passed)
                passed.source, passed.epoch, passed.seq = event.source, event.epoch, event.seq
                passed.ref_time_ns = max(passed.ref_time_ns, event.ref_time_ns)
                passed.error_ns = max(passed.error_ns, event.error_ns)

    def _record_refused(self, step: Step) -> None:
        """Record the events that MERGE refused, and add a mark for each late one.

        Late events are reported when their instant is over, which may be in a later batch.
        """
        for report in step.reports:
            if isinstance(report, Late):
                rejected = copy_event(report.event)
                rejected.kind, rejected.at_ns = REJECTED, report.at_ns
                self._marks.append(rejected)
                if report.reason != MERGE_FULL:
                    self._refused.add(report.event)
            elif isinstance(report, Duplicate):
                self._refused.add(report.event)
        if not self._passes_late:
            self._refused |= {
                event for event in self._events if event.late and event.late != MERGE_FULL
            }

    def events(self) -> list[Event]:
        """Return the accepted events and the marks, in the order of instants."""
        events = [copy for copy, event in self.pairs() if event not in self._refused]
        if self._marks:
            events += self._marks
            events.sort(key=at_ns)
        return events

    def pairs(self) -> Iterable[tuple[Event, Event]]:
        """Return each accepted copy with its event."""
        return zip(self._copies, self._events, strict=True)
