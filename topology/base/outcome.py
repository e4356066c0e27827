"""Defines the output of an operator: the events that it emits, and reports on all other events.

Every input becomes exactly one of these: emitted, late, duplicate, dead letter, or still held.
Outputs are values. No data makes an operator raise an exception, and no event is dropped without a
report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from topology.base.event import NO_EPOCH, Event
from topology.base.native import mypyc_attr
from topology.base.result import Finding

# The possible reasons of a Gap.
TIMEOUT = "timeout"
OVERFLOW = "overflow"
JUMP = "jump"
END = "end"


@dataclass(slots=True)
class Gap:
    """A gap in a source's sequence: the numbers `first`..`last`, declared missing.

    `ts_before_ns` and `ts_after_ns` are the timestamps of the events before and after the gap, or
    None if there is no such event. The timestamps of the missing events are between them.
    """

    at_ns: int
    stream: str
    source: str
    epoch: int
    first: int
    last: int
    reason: str
    known_at_ns: int
    ts_before_ns: int | None = None
    ts_after_ns: int | None = None


@dataclass(slots=True)
class Late:
    """A report that `event` is late and is not emitted.

    `reason` is one of the names in `topology.base.late.CAUSES`. `by_ns` is how late the event is,
    in ns, or 0 if that is unknown.
    """

    at_ns: int
    event: Event
    reason: str
    by_ns: int = 0


@dataclass(slots=True)
class Duplicate:
    """A report that an earlier event has the same sequence number as `event`.

    It is a `conflict` if the time, type or payload of the earlier event differs.
    """

    at_ns: int
    event: Event
    conflict: bool = False


@dataclass(slots=True)
class Malformed:
    """A dead letter: a record that cannot be used.

    `reason` is a short fixed word for metrics. `detail` describes the fault and the remedy. Fields
    that could not be read are None.
    """

    at_ns: int
    offset: int
    reason: str
    detail: str
    stream: str | None = None
    source: str | None = None
    epoch: int | None = None
    seq: int | None = None
    record: Any = None
    kind: str = ""
    """The kind of the event if it is a control event; otherwise empty."""


def make_dead_letter(event: Event, at_ns: int, reason: str, detail: str) -> Malformed:
    """Return the dead letter of an event that was read but cannot be used."""
    return Malformed(
        at_ns,
        event.offset,
        reason,
        detail,
        event.stream,
        event.source,
        event.epoch if event.epoch != NO_EPOCH else None,
        event.seq if event.seq >= 0 else None,
        event.record,
        event.kind,
    )


Report = Gap | Late | Duplicate | Malformed


@mypyc_attr(acyclic=True)
@dataclass(slots=True, init=False)
class Step:
    """The result of one call of an operator.

    Attributes:
        now_ns: The time up to which the output is complete. All later outputs have an `at_ns` >=
            `now_ns`.
        released: The emitted events, including control events, in order. The `at_ns` of each is the
            instant at which it was emitted.
        reports: The reports, in the order in which they arose.
        results: The results of queries, in the order in which they arose.
        kept: Events that the operator keeps from now on, or keeps again with other values.
        freed: Events that the operator no longer keeps. An event that is both `kept` and `freed` is
            not kept.
    """

    now_ns: int
    released: list[Event]
    reports: list[Report]
    results: list[Finding]
    kept: list[Event]
    freed: list[Event]

    def __init__(
        self,
        now_ns: int,
        released: list[Event] | None = None,
        reports: list[Report] | None = None,
        results: list[Finding] | None = None,
    ) -> None:
        # In a compiled module this is much faster than the function that a dataclass makes.
        self.now_ns = now_ns
        self.released = [] if released is None else released
        self.reports = [] if reports is None else reports
        self.results = [] if results is None else results
        self.kept = []
        self.freed = []

    def take_kept(self, kept: list[Event], freed: list[Event]) -> None:
        """Move the events of an operator's own lists into `kept` and `freed`."""
        if kept:
            self.kept += kept
            kept.clear()
        if freed:
            self.freed += freed
            freed.clear()

    def add(self, other: Step) -> None:
        """Add the step of another part; the sum is complete up to the earlier of both times."""
        self.released += other.released
        self.add_outcomes(other)
        self.now_ns = min(self.now_ns, other.now_ns)

    def add_outcomes(self, other: Step) -> None:
        """Add everything in `other` except its released events."""
        self.kept += other.kept
        self.freed += other.freed
        self.reports += other.reports
        self.results += other.results
