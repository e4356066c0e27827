"""Events as values: fresh copies of them, and what an operator said in comparable form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from topology.model.event import BLOCKED, DATA, PROGRESS, UNBLOCKED, WATERMARK, Event, twin
from topology.model.operator import Operator
from topology.model.outcome import Duplicate, Gap, Late, Malformed, Report, Step

INNER = (BLOCKED, UNBLOCKED, PROGRESS, WATERMARK)
"""Made by operators; no record of the input stands behind them."""


class Went(NamedTuple):
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


def went(event: Event) -> Went:
    return Went(
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


def said(report: Report) -> tuple[Any, ...]:
    if isinstance(report, Gap):
        gap = report
        span = (gap.first, gap.last, gap.known_at_ns, gap.ts_before_ns, gap.ts_after_ns)
        return (gap.at_ns, "gap", gap.source, gap.epoch, gap.reason, *span)
    if isinstance(report, Late):
        return (report.at_ns, "late", went(report.event), report.reason, report.by_ns)
    if isinstance(report, Duplicate):
        return (report.at_ns, "duplicate", went(report.event), report.conflict)
    dead = report
    return (dead.at_ns, "dead", dead.source, dead.epoch, dead.seq, dead.reason, dead.offset)


class Told:
    """All that an operator said, call after call."""

    def __init__(self) -> None:
        self.released: list[Went] = []
        self.reports: list[tuple[Any, ...]] = []
        self.results: list[Any] = []

    def add(self, step: Step) -> None:
        self.released += [went(event) for event in step.released]
        self.reports += [said(report) for report in step.reports]
        self.results += step.results

    def without_watermarks(self) -> list[Went]:
        return [event for event in self.released if event.kind != WATERMARK]

    def in_order(self) -> list[Went]:
        return [event for event in self.released if event.kind == DATA and not event.late]


def copy_of(event: Event) -> Event:
    """As it came: held by nobody."""
    copy = twin(event)
    copy.held_by = 0
    return copy


def copies(events: Iterable[Event]) -> list[Event]:
    return [copy_of(event) for event in events]


def over_the_wire(state: Any) -> Any:
    """As a changelog would give it back."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state))


def held_again(operator: Operator, raw: Sequence[Event], stamped_from: int) -> list[Event]:
    """What the operator holds, as a restart has it: read from the input again, in log
    order, marked late or not as it was; from place `stamped_from` on, with what had been found out
    about it."""
    by_offset = {event.offset: event for event in raw}
    events = []
    for held in sorted(operator.held(), key=lambda event: event.offset):
        event = copy_of(held if held.held_by >= stamped_from else by_offset[held.offset])
        event.held_by, event.at_ns, event.late = held.held_by, held.at_ns, held.late
        events.append(event)
    return events


def disposed(released: Iterable[Event], reports: Iterable[Report], data: set[int]) -> list[int]:
    """The offsets of the data events that were let go or reported; `data` are all."""
    offsets = [event.offset for event in released if event.kind == DATA]
    for report in reports:
        if isinstance(report, Late | Duplicate):
            offsets.append(report.event.offset)
        elif isinstance(report, Malformed) and report.offset in data:
            offsets.append(report.offset)
    return offsets


def told(operator: Operator, *events: Event) -> list[Any]:
    """The results of one call for each; the last instant stays open."""
    results: list[Any] = []
    for each in events:
        results += operator.on_batch([each], each.at_ns).results
    return results
