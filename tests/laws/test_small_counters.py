"""Law: while disorder is below half a cycle, a counter that wraps says as much as one that
does not. The same streams go through REORDER with 8 bits and with 63; what either says is
the same but for a multiple of 256 (reorder_drift_merge.md 1.5, wrap).
"""

from __future__ import annotations

from random import Random

import pytest

from tests.laws.streams import MS, START
from tests.seeds import seeds_of_today
from topology.config import ReorderConfig
from topology.model.event import NO_EPOCH, Event
from topology.model.operator import Plain
from topology.model.outcome import Duplicate, Gap, Late, Report, Step
from topology.reorder.operator import Reorder

CYCLE = 256
SEEDS = seeds_of_today(30)


def stream(seed: int) -> list[Event]:
    """Sources that begin about a wrap, with loss, copies, and delays beyond `max_wait`. A
    number 0 opens at once, which 256 does not, so those are lost."""
    rng = Random(seed)
    events = []
    for source in range(3):
        first = CYCLE + rng.randint(-6, 1)
        for number in range(first, first + rng.choice((30, 400))):
            ts_ms = START + 3 * (number - first)
            for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2))):
                early = number < first + 8
                late_ms = rng.choice((0, 5, rng.randint(0, 90), 40 if early else 0))
                event = Event(
                    "default", f"s{source}", NO_EPOCH, number, ts_ms * MS, (ts_ms + late_ms) * MS
                )
                if number % CYCLE:
                    events.append(event)
    events.sort(key=lambda event: event.arrival_ns)
    return events


def wrapped(events: list[Event]) -> list[Event]:
    return [
        Event(e.stream, e.source, e.epoch, e.seq % CYCLE, e.ts_ns, e.arrival_ns) for e in events
    ]


def said(step: Step) -> list[tuple[Plain, ...]]:
    released = [(e.source, e.seq % CYCLE, e.kind, e.late, e.at_ns) for e in step.released]
    return [*released, *map(_reported, step.reports)]


def _reported(report: Report) -> tuple[Plain, ...]:
    if isinstance(report, Gap):
        numbers = (report.first % CYCLE, report.last - report.first)
        return ("gap", report.at_ns, report.source, report.epoch, numbers, report.reason)
    assert isinstance(report, Late | Duplicate), report
    reason = report.reason if isinstance(report, Late) else "duplicate"
    return (reason, report.at_ns, report.event.source, report.event.seq % CYCLE)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_counter_says_as_much_as_a_large_one(seed: int) -> None:
    large = Reorder("default", ReorderConfig(max_wait_ns=50 * MS))
    small = Reorder("default", ReorderConfig(max_wait_ns=50 * MS, seq_bits=8))
    events = stream(seed)
    for at, (one, other) in enumerate(zip(events, wrapped(events), strict=True)):
        of_large = said(large.on_batch([one], one.at_ns))
        assert said(small.on_batch([other], other.at_ns)) == of_large, f"event {at}"
    assert said(small.on_end(events[-1].at_ns)) == said(large.on_end(events[-1].at_ns))


def test_the_streams_are_of_the_kind_that_matters() -> None:
    """Some source is first heard above a wrap, then below it."""
    turned = 0
    for seed in SEEDS:
        first: dict[str, int] = {}
        for event in stream(seed):
            begun = first.setdefault(event.source, event.seq)
            turned += event.seq < CYCLE < begun
    assert turned > len(SEEDS) // 4
