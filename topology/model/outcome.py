"""What an operator answers: events let go, and reports on the ones that were not.

Every input ends as exactly one of: emitted, late, duplicate, dead, or still held.
Answers are values; nothing that data can do raises an exception or is dropped
in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from topology.model.event import NO_EPOCH, Event
from topology.model.result import Finding

# Reasons of a Gap.
TIMEOUT = "timeout"
OVERFLOW = "overflow"
JUMP = "jump"
END = "end"


@dataclass(slots=True)
class Gap:
    """Sequence numbers `first`..`last` are declared missing.

    `ts_before_ns` and `ts_after_ns` are the stamps of the neighbours, None where
    there is none: the missing events' stamps lie between them.
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
    """`event` is late and is not passed on. `reason`: a word of `topology.model.late.CAUSES`.
    `by_ns`: by how much it is late, 0 where unknown."""

    at_ns: int
    event: Event
    reason: str
    by_ns: int = 0


@dataclass(slots=True)
class Duplicate:
    """`event` has been seen before. `conflict`: under the same number, with
    another time, type or payload."""

    at_ns: int
    event: Event
    conflict: bool = False


@dataclass(slots=True)
class Malformed:
    """A record that cannot be used; a dead letter.

    `reason` is a short fixed word for counting, `detail` says what was wrong and
    what to write instead. What could not be read is None.
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
    """What a control event says of itself if it cannot be used; empty for all others."""


def dead_letter(event: Event, at_ns: int, reason: str, detail: str) -> Malformed:
    """An event that could be read and cannot be used."""
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
    """What one call of an operator did.

    `released` are the events (and control events) in the order they leave, each
    with `at_ns` = the instant it was let go; `reports` in the order they arose, and so
    are the `results` of windows and patterns. `freed` are events that the operator kept beyond
    letting them pass, and keeps no longer, and those that it holds as if they came now.
    `now_ns` is the time up to which the operator has spoken: whatever it says
    later bears an `at_ns` >= `now_ns`.
    """

    now_ns: int
    released: list[Event] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    results: list[Finding] = field(default_factory=list)
    freed: list[Event] = field(default_factory=list)

    def add(self, other: Step) -> None:
        """All of `other`, another part's; both have spoken up to the earlier time."""
        self.released += other.released
        self.add_found(other)
        self.now_ns = min(self.now_ns, other.now_ns)

    def add_found(self, other: Step) -> None:
        """All of `other` but the events that it let go."""
        self.reports += other.reports
        self.results += other.results
        self.freed += other.freed
