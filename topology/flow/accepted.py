"""ACCEPTED: what MERGE takes in, for queries that do not wait until it lets events go.

MERGE has two outputs. *Ordered* events go on along the chain, with their watermarks. Queries that
read *accepted* events get each as it comes, and with them, in the order of instants, marks of how
far MERGE is:

    events ─┬──────────────────────────► queries that read accepted events
            └► MERGE ─┬─ marks ────────────┘
                      └─ ordered events ► the other queries

A mark PASSED is the last of the events that left in order together, with the largest time and error
of these; watermarks are marks themselves. An event that MERGE judges late or a duplicate and does
not let pass is not accepted. REJECTED is for each event that MERGE reports as late; for one that
had been accepted, because the queues overflowed later, it is the only word.

Both outputs are the same events, and MERGE changes the instant and the lateness of those that it
lets go. So the operators that read accepted events work while these are as they came (`swap`).
Cost: O(1) an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.model.event import DATA, PASSED, REJECTED, WATERMARK, Event, at_ns, twin
from topology.model.late import MERGE_FULL
from topology.model.outcome import Duplicate, Late, Step

ACCEPTED: Final = "accepted "
"""Begins the name of a node that reads accepted events, where another reads ordered ones."""


def kind_of(name: str) -> str:
    """Return the operator of the node of this name."""
    return name.removeprefix(ACCEPTED)


class Accepted:
    """`events`: what MERGE is about to take. `passes_late`: it lets late events go, marked."""

    __slots__ = ("_events", "_marks", "_others", "_passes_late", "_refused")

    def __init__(self, events: Sequence[Event], *, passes_late: bool = True) -> None:
        self._events = events
        self._passes_late = passes_late
        self._others = [(event.at_ns, event.late) for event in events]
        self._marks: list[Event] = []
        self._refused: set[int] = set()

    def note(self, step: Step) -> None:
        """Take what MERGE let go and reported."""
        self._refuse(step)
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
                passed.source, passed.epoch, passed.seq = event.source, event.epoch, event.seq
                passed.ref_time_ns = max(passed.ref_time_ns, event.ref_time_ns)
                passed.error_ns = max(passed.error_ns, event.error_ns)

    def _refuse(self, step: Step) -> None:
        """Tell those that do not pass. Late ones are reported when their instant is over, which may
        be in a later batch."""
        for report in step.reports:
            if isinstance(report, Late):
                rejected = twin(report.event)
                rejected.kind, rejected.at_ns = REJECTED, report.at_ns
                self._marks.append(rejected)
                if report.reason != MERGE_FULL:
                    self._refused.add(id(report.event))
            elif isinstance(report, Duplicate):
                self._refused.add(id(report.event))
        if not self._passes_late:
            self._refused |= {
                id(event) for event in self._events if event.late and event.late != MERGE_FULL
            }

    def events(self) -> list[Event]:
        """Return what was accepted and the marks, in the order of instants."""
        events = [*self._events, *self._marks]
        if self._refused:
            events = [event for event in events if id(event) not in self._refused]
        if self._marks:
            events.sort(key=at_ns)
        return events

    def swap(self) -> None:
        """Make the events as they came; after the next time, as MERGE has left them."""
        others = self._others
        self._others = [(event.at_ns, event.late) for event in self._events]
        for event, (instant_ns, late) in zip(self._events, others, strict=True):
            event.at_ns = instant_ns
            event.late = late
