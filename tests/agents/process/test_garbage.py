"""Examples: when cyclic garbage is collected, and how often a collection runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agents.process.garbage import COLLECT_S, FULL_APART_S, FULL_S, FULL_SHARE, Collecting
from tests.kit.clock import Clock


class Circle:
    def __init__(self) -> None:
        self.itself = self


class Time(Clock):
    """A clock on which a full collection takes `full_s`."""

    full_s = 0.0

    def __init__(self) -> None:
        self.full_at: list[float] = []

    def noted(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self.full_at.append(self.now_s)
            self.now_s += self.full_s

    def goes_on(self, collecting: Collecting, seconds: float) -> None:
        """Let the seconds pass, with one look each second, as in the process."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 1
            collecting.collect_if_due()


@pytest.fixture
def clock() -> Iterator[Time]:
    found = Time()
    gc.disable()  # Only time may trigger a collection.
    gc.callbacks.append(found.noted)
    try:
        yield found
    finally:
        gc.callbacks.remove(found.noted)
        gc.enable()


def test_young_cycle_lives_a_minute(clock: Time) -> None:
    collecting = Collecting(clock)
    circle = weakref.ref(Circle())
    clock.goes_on(collecting, COLLECT_S - 1)
    assert circle() is not None
    clock.goes_on(collecting, 1)
    assert circle() is None
    assert clock.full_at == []


def test_old_cycle_awaits_full_run(clock: Time) -> None:
    """An object in use at a look counts as old from then on."""
    collecting = Collecting(clock)
    used = Circle()
    circle = weakref.ref(used)
    clock.goes_on(collecting, 2 * COLLECT_S + 10)
    del used
    clock.goes_on(collecting, FULL_S - 2 * COLLECT_S - 11)
    assert circle() is not None
    clock.goes_on(collecting, 1)
    assert circle() is None
    assert clock.full_at == [Time.now_s + FULL_S]


def test_full_runs_have_bounded_share(clock: Time) -> None:
    collecting = Collecting(clock)
    clock.full_s = 3.0
    clock.goes_on(collecting, 3 * clock.full_s / FULL_SHARE)
    first, second, *_ = clock.full_at
    assert first == Time.now_s + FULL_S
    assert second - (first + clock.full_s) == pytest.approx(clock.full_s / FULL_SHARE, abs=1.0)
    assert second - first > FULL_S


def test_revocation_collects_garbage(clock: Time) -> None:
    """A revoked partition's garbage is collected at once, but at most every `FULL_APART_S`."""
    collecting = Collecting(clock)
    clock.goes_on(collecting, FULL_APART_S)
    assert left_by_a_partition(collecting)() is None
    for _ in range(10):  # rebalances, 5 s apart
        circle = left_by_a_partition(collecting)
        clock.goes_on(collecting, 5)
    assert circle() is not None
    assert clock.full_at == [Time.now_s + FULL_APART_S]
    clock.goes_on(collecting, FULL_APART_S - 50)
    assert circle() is None
    assert clock.full_at == [Time.now_s + FULL_APART_S, Time.now_s + 2 * FULL_APART_S]


def left_by_a_partition(collecting: Collecting) -> weakref.ref[Circle]:
    used = Circle()
    circle = weakref.ref(used)
    gc.collect(1)  # This moves the circle to the old generation.
    del used
    collecting.let_go()
    return circle
