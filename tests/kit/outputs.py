"""Convert the output of an operator to values that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from topology.base.event import BLOCKED, DATA, PROGRESS, UNBLOCKED, WATERMARK, Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Report, Step

CONTROL = (BLOCKED, UNBLOCKED, PROGRESS, WATERMARK)
"""The kinds of events that operators make without a record of the input."""


class Released(NamedTuple):
    """A released event."""

    stream: str
    at_ns: int
    source: str
    epoch: int
    seq: int
    kind: str
    late: str
    ref_time_ns: int
    error_ns: int
    arrival_ns: int
    offset: int
    complete_ns: int


def released_values(event: Event) -> Released:
    return Released(
        event.stream,
        event.at_ns,
        event.source,
        event.epoch,
        event.seq,
        event.kind,
        event.late,
        event.ref_time_ns,
        event.error_ns,
        event.arrival_ns,
        event.offset,
        event.complete_ns,
    )


def report_values(report: Report) -> tuple[Any, ...]:
    if isinstance(report, Gap):
        gap = report
        span = (gap.first, gap.last, gap.known_at_ns, gap.ts_before_ns, gap.ts_after_ns)
        return (gap.at_ns, "gap", gap.source, gap.epoch, gap.reason, *span)
    if isinstance(report, Late):
        return (report.at_ns, "late", released_values(report.event), report.reason, report.by_ns)
    if isinstance(report, Duplicate):
        return (report.at_ns, "duplicate", released_values(report.event), report.conflict)
    dead = report
    return (dead.at_ns, "dead", dead.source, dead.epoch, dead.seq, dead.reason, dead.offset)


class Outputs:
    """All outputs of an operator, over several calls."""

    def __init__(self) -> None:
        self.released: list[Released] = []
        self.reports: list[tuple[Any, ...]] = []
        self.results: list[Any] = []

    def add(self, step: Step) -> None:
        self.released += [released_values(event) for event in step.released]
        self.reports += [report_values(report) for report in step.reports]
        self.results += step.results

    def without_watermarks(self) -> list[Released]:
        return [event for event in self.released if event.kind != WATERMARK]

    def in_order(self) -> list[Released]:
        return [event for event in self.released if event.kind == DATA and not event.late]


def settled_offsets(
    released: Iterable[Event], reports: Iterable[Report], data: set[int]
) -> list[int]:
    """Return the offsets of the data events that were emitted or reported.

    `data` holds the offsets of all data events.
    """
    offsets = [event.offset for event in released if event.kind == DATA]
    for report in reports:
        if isinstance(report, Late | Duplicate):
            offsets.append(report.event.offset)
        elif isinstance(report, Malformed) and report.offset in data:
            offsets.append(report.offset)
    return offsets
