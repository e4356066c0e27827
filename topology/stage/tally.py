"""Counts the outcomes of inputs in a step."""

from __future__ import annotations

from typing import NamedTuple

from topology.base.event import DATA
from topology.base.outcome import Duplicate, Late, Malformed, Step


class OutcomeCounts(NamedTuple):
    """The number of inputs with each outcome.

    Attributes:
        event: The number of emitted events that are not late.
        late: The number of late events, emitted or reported.
        duplicate: The number of duplicates.
        dead: The number of dead letters.
        dead_control: The number of dead letters that are control events.
    """

    event: int
    late: int
    duplicate: int
    dead: int
    dead_control: int


def count_outcomes(step: Step) -> OutcomeCounts:
    """Count the outcomes in a step, without emitted control events."""
    event = late = duplicate = dead = dead_control = 0
    for each in step.released:
        if each.kind == DATA:
            if each.late:
                late += 1
            else:
                event += 1
    for report in step.reports:
        if isinstance(report, Late):
            late += 1
        elif isinstance(report, Duplicate):
            duplicate += 1
        elif isinstance(report, Malformed):
            dead += 1
            if report.kind != DATA:
                dead_control += 1
    return OutcomeCounts(event, late, duplicate, dead, dead_control)
