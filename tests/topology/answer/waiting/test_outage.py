"""Simulations: how a source that is silent for a while affects a quality target."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import pytest

from tests.kit.queries import quality_of
from topology.answer.quality_target import QualityTarget
from topology.answer.waiting.runs import MAX_RUNS, Runs
from topology.base.event import Event
from topology.config import QualityConfig

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
START: Final = 1_700_000_000 * SECOND
WINDOW: Final = 50 * MS


def stream(rng: Random, seconds: int, outages: Sequence[tuple[float, float]]) -> list[Event]:
    """Return events of four sources, about 35 a second each, with delays of 5 or rarely 150 ms.

    Events of `d` in an outage arrive when it is over.
    """
    events = []
    for source in "abcd":
        ref_ns = START
        arrival_ns = START
        for seq in range(seconds * 35):
            ref_ns += round(rng.expovariate(35) * SECOND)
            delay_ns = (150 if rng.random() < 0.02 else rng.randrange(1, 10)) * MS
            arrival_ns = max(arrival_ns, ref_ns + delay_ns)
            for begin, end in outages if source == "d" else ():
                if START + round(begin * SECOND) <= arrival_ns < START + round(end * SECOND):
                    arrival_ns = START + round(end * SECOND)
            events.append(Event("default", source, 0, seq, ref_ns, arrival_ns))
    end_ns = START + (seconds - 4) * SECOND
    return sorted((one for one in events if one.at_ns < end_ns), key=lambda one: one.at_ns)


def run(quality: QualityConfig, events: list[Event]) -> tuple[QualityTarget, list[tuple[int, int]]]:
    """Return the target at the end, and the end and closing time of each window."""
    promise = QualityTarget(quality, size_ns=WINDOW, every_ns=WINDOW)
    emitted: list[tuple[int, int]] = []

    def note(now_ns: int) -> None:
        before_ns = promise.closed_ns
        promise.settle(now_ns, -(1 << 62))
        if promise.closed_ns > max(before_ns, START):
            emitted.append((promise.closed_ns, now_ns))

    now_ns = START
    for one in events:
        if one.at_ns > now_ns:
            note(now_ns)
            while (due_ns := promise.due_ns()) < one.at_ns:
                note(max(due_ns, now_ns))
        now_ns = one.at_ns
        promise.observe(one)
    note(now_ns)
    return promise, emitted


def mean_wait_ms(emitted: list[tuple[int, int]], since_s: float) -> float:
    waits = [(at - end) / MS for end, at in emitted if end > START + round(since_s * SECOND)]
    return sum(waits) / len(waits)


@pytest.mark.slow
def test_outage_does_not_slow_later_windows() -> None:
    quality = quality_of(900_000, 300 * MS, idle_ns=SECOND)
    with_outage, without = 0.0, 0.0
    for seed in range(2):
        quiet, emitted = run(quality, stream(Random(seed), 60, []))
        without += mean_wait_ms(emitted, 27) / 2
        promise, emitted = run(quality, stream(Random(seed), 60, [(20, 26)]))
        with_outage += mean_wait_ms(emitted, 27) / 2
        assert quiet.figures()["missed_outside_target"] == 0
        assert promise.figures()["missed_outside_target"] > 80
        assert promise.figures()["achieved_ppm"] < 950_000, "it is told all the same"
    assert with_outage < 1.6 * without, (with_outage, without)  # It was 2 when outages counted.


@pytest.mark.slow
def test_short_stall_keeps_target() -> None:
    """A source that stalls for less than `max_wait` is awaited."""
    quality = quality_of(900_000, 600 * MS, idle_ns=200 * MS)
    for seed in range(2):
        stalls = [(3 + at, 3.4 + at) for at in range(0, 50, 2)]
        promise, _ = run(quality, stream(Random(seed), 55, stalls))
        figures = promise.figures()
        assert figures["achieved_ppm"] >= figures["target_ppm"]
        assert figures["missed_outside_target"] == 0


def test_runs_match_a_set_of_numbers() -> None:
    rng = Random(1)
    runs, known = Runs(), set[int]()
    at = -500
    for _ in range(300):
        first = at + rng.randrange(4)
        at = first + rng.randrange(3)
        runs.add(first, at)
        known |= set(range(first, at + 1))
        at += 1
    again: Any = Runs()
    again.load(runs.dump())
    assert all((number in again) == (number in known) for number in range(-600, at + 9))


def test_runs_forget_the_oldest() -> None:
    runs = Runs()
    for number in range(MAX_RUNS + 1):
        runs.add(2 * number, 2 * number)
    assert 0 not in runs
    assert 2 in runs
