"""Law: a counter that wraps gives the same output as one that does not.

This holds while the disorder is below half a cycle. The same streams go through REORDER with and
without the counter's range. The outputs differ only by a multiple of the cycle
(reorder_drift_merge.md 1.5, wrap).
"""

from __future__ import annotations

from random import Random

import pytest

from tests.laws.streams import MS, START
from tests.seeds import seeds_of_today
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.operator import Plain
from topology.base.outcome import Duplicate, Gap, Late, Report, Step
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder
from topology.order.reorder.settings import SeqRange

COUNTERS = (
    SeqRange(0, 255),
    SeqRange(1, 255),
    SeqRange(0, 299),
    SeqRange(1, 999),
    SeqRange(700, 999),
)
SEEDS = seeds_of_today(30)


def stream(seed: int, counter: SeqRange) -> list[Event]:
    """Return sources that start near a wrap, with loss, duplicates, and delays beyond `max_wait`.

    The counter's first number opens an epoch at once, but after a wrap it does not. Events with
    that number are therefore left out.
    """
    rng = Random(seed)
    events = []
    for source in range(3):
        first = counter.last + 1 + rng.randint(-6, 1)
        for number in range(first, first + rng.choice((30, 1_200))):
            ts_ms = START + 3 * (number - first)
            for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2))):
                early = number < first + 8
                late_ms = rng.choice((0, 5, rng.randint(0, 90), 40 if early else 0))
                event = Event(
                    "default", f"s{source}", NO_EPOCH, number, ts_ms * MS, (ts_ms + late_ms) * MS
                )
                if sent(number, counter) != counter.first:
                    events.append(event)
    events.sort(key=lambda event: event.arrival_ns)
    return events


def sent(number: int, counter: SeqRange) -> int:
    return counter.first + (number - counter.first) % counter.modulus


def wrapped(events: list[Event], counter: SeqRange) -> list[Event]:
    return [
        Event(e.stream, e.source, e.epoch, sent(e.seq, counter), e.ts_ns, e.arrival_ns)
        for e in events
    ]


def step_output(step: Step, counter: SeqRange) -> list[tuple[Plain, ...]]:
    """Return a step's output without the numbers of control events, which can name no record."""
    released = [
        (e.source, sent(e.seq, counter) if e.kind == DATA else 0, e.kind, e.late, e.at_ns)
        for e in step.released
    ]
    return [*released, *(_reported(each, counter) for each in step.reports)]


def _reported(report: Report, counter: SeqRange) -> tuple[Plain, ...]:
    if isinstance(report, Gap):
        numbers = (sent(report.first, counter), report.last - report.first)
        return ("gap", report.at_ns, report.source, report.epoch, numbers, report.reason)
    assert isinstance(report, Late | Duplicate), report
    reason = report.reason if isinstance(report, Late) else "duplicate"
    return (reason, report.at_ns, report.event.source, sent(report.event.seq, counter))


@pytest.mark.parametrize("counter", COUNTERS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_small_counter_matches_large(seed: int, counter: SeqRange) -> None:
    large = Reorder("default", ReorderConfig(max_wait_ns=50 * MS))
    bits = counter.bits
    config = ReorderConfig(max_wait_ns=50 * MS, seq_range=counter)
    if bits is not None:
        config = ReorderConfig(max_wait_ns=50 * MS, seq_bits=bits)
    small = Reorder("default", config)
    events = stream(seed, counter)
    for at, (one, other) in enumerate(zip(events, wrapped(events, counter), strict=True)):
        of_large = step_output(large.on_batch([one], one.at_ns), counter)
        assert step_output(small.on_batch([other], other.at_ns), counter) == of_large, f"event {at}"
    end_ns = events[-1].at_ns
    assert step_output(small.on_end(end_ns), counter) == step_output(large.on_end(end_ns), counter)


@pytest.mark.parametrize("counter", COUNTERS, ids=str)
def test_streams_cross_a_wrap(counter: SeqRange) -> None:
    """One source has its first event above a wrap, and later ones below it."""
    turned = 0
    for seed in SEEDS:
        first: dict[str, int] = {}
        for event in stream(seed, counter):
            begun = first.setdefault(event.source, event.seq)
            turned += event.seq <= counter.last < begun
    assert turned > len(SEEDS) // 4


@pytest.mark.parametrize("early", [2, 20])
def test_duplicate_across_wrap_is_known(early: int) -> None:
    """Between the two copies, an event from before the wrap raises the remembered numbers."""
    reorder = Reorder("default", ReorderConfig(max_wait_ns=50 * MS, seq_range=SeqRange(1, 300)))
    rows = [(early, early), (299, -2), (early, early)]
    reports: list[Report] = []
    for at_ms, (number, ts_ms) in enumerate(rows, start=START):
        event = Event("default", "s", NO_EPOCH, number, (START + ts_ms) * MS, at_ms * MS)
        reports += reorder.on_batch([event], event.at_ns).reports
    assert [type(each) for each in reports] == [Duplicate]
