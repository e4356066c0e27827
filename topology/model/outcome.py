"""Defines the output of an operator: the events that it emits, and reports on the others.

Every input ends as exactly one of: emitted, late, duplicate, dead letter, or still held. Outputs
are values. No data makes an operator raise an exception, and no event is dropped in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from topology.model.event import NO_EPOCH, Event
from topology.model.result import Finding

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

    `reason` is one of the names in `topology.model.late.CAUSES`. `by_ns` is by how much the event
    is late, or 0 if that is unknown.
    """

    at_ns: int
    event: Event
    reason: str
    by_ns: int = 0


@dataclass(slots=True)
class Duplicate:
    """A report that an event with the number of `event` has been seen before.

    It is a `conflict` if the earlier event had another time, type or payload.
    """

    at_ns: int
    event: Event
    conflict: bool = False


@dataclass(slots=True)
class Malformed:
    """A dead letter: a record that cannot be used.

    `reason` is a short fixed word for counting. `detail` says what was wrong and how to correct it.
    Fields that could not be read are None.
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
    """The kind of the event if it is a control event, or else empty."""


def dead_letter(event: Event, at_ns: int, reason: str, detail: str) -> Malformed:
    """Return the dead letter of an event that could be read but cannot be used."""
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


@dataclass(slots=True)
class Step:
    """The result of one call of an operator.

    `released` are the events (and control events) in the order in which they are emitted. The
    `at_ns` of each is the instant at which it was emitted. `reports` are in the order in which they
    arose, and so are the `results` of windows and patterns.

    `freed` are events that the operator had kept after emitting them, and keeps no longer. It also
    lists events that the operator holds as if they arrived now.

    `now_ns` is the time up to which the output is complete. All later outputs have an `at_ns` >=
    `now_ns`.
    """

    now_ns: int
    released: list[Event] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    results: list[Finding] = field(default_factory=list)
    freed: list[Event] = field(default_factory=list)

    def add(self, other: Step) -> None:
        """Add the step of another part. The sum is complete up to the earlier of both times."""
        self.released += other.released
        self.add_found(other)
        self.now_ns = min(self.now_ns, other.now_ns)

    def add_found(self, other: Step) -> None:
        """Add everything in `other` except its released events."""
        self.reports += other.reports
        self.results += other.results
        self.freed += other.freed
