"""ACCEPTED: what MERGE takes in, for operators that do not wait until it lets events go.

MERGE has two outputs. *Ordered* events go on along the chain, with their watermarks. Operators that
read *accepted* events get each as it comes, and with them, in the order of instants, marks of how
far MERGE is:

    events ─┬──────────────────────────► operators that read accepted events
            └► MERGE ─┬─ marks ────────────┘
                      └─ ordered events ► the other operators

A mark PASSED bears the largest time and error of the events that left in order together; REJECTED
is for each event that MERGE reports as late; watermarks are marks themselves.

Both outputs are the same events, and MERGE changes the instant and the lateness of those that it
lets go. So the operators that read accepted events work while these are as they came (`swap`).
Cost: O(1) an event.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.detector.item import PASSED, REJECTED
from topology.model.event import DATA, WATERMARK, Event, at_ns, twin
from topology.model.outcome import Late, Step


class Accepted:
    """`events`: what MERGE is about to take."""

    __slots__ = ("_events", "_marks", "_others")

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._others = [(event.at_ns, event.late) for event in events]
        self._marks: list[Event] = []

    def note(self, step: Step) -> None:
        """What MERGE let go and reported."""
        for report in step.reports:
            if isinstance(report, Late):
                rejected = twin(report.event)
                rejected.kind, rejected.at_ns = REJECTED, report.at_ns
                self._marks.append(rejected)
        passed: Event | None = None
        for event in step.released:
            if event.kind == WATERMARK:
                passed = None
                self._marks.append(event)
            elif event.kind == DATA and not event.late:
                if passed is None or passed.at_ns != event.at_ns:
                    passed = twin(event)
                    passed.kind = PASSED
                    self._marks.append(passed)
                passed.ref_time_ns = max(passed.ref_time_ns, event.ref_time_ns)
                passed.error_ns = max(passed.error_ns, event.error_ns)

    def events(self) -> list[Event]:
        """What was taken and the marks, in the order of instants."""
        events = [*self._events, *self._marks]
        if self._marks:
            events.sort(key=at_ns)
        return events

    def swap(self) -> None:
        """The events are as they came; after the next time, as MERGE has left them."""
        others = self._others
        self._others = [(event.at_ns, event.late) for event in self._events]
        for event, (instant_ns, late) in zip(self._events, others, strict=True):
            event.at_ns = instant_ns
            event.late = late
