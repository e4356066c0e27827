"""Examples: MERGE waits for a source that is often silent, and not for one that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.kit.events import copies
from topology.base.event import BLOCKED, DATA, Event
from topology.base.late import MERGE_IDLE
from topology.config import MergeConfig
from topology.order.merge.operator import Merge

MS = 1_000_000
S = 1_000 * MS
BEGIN = 1_700_000_000 * S

Sent = tuple[int, str, int, int]
"""A sent event: arrival time, source, number and event time."""


def sent(source: str, every_s: float, until_s: float, delay_ms: tuple[int, int], dice: Random,
         first_s: float = 0) -> Iterator[Sent]:  # fmt: skip
    arrival_ns = 0
    for number in range(int((until_s - first_s) / every_s)):
        ts_ns = BEGIN + int((first_s + number * every_s) * S)
        arrival_ns = max(arrival_ns, ts_ns + dice.randint(*delay_ms) * MS)
        yield arrival_ns, source, number, ts_ns


def merged(merge: Merge, log: list[Sent]) -> list[Event]:
    events = [
        Event("default", source, 0, number, ts_ns, arrival_ns)
        for arrival_ns, source, number, ts_ns in sorted(log)
    ]
    released: list[Event] = []
    for at in range(0, len(events), 50):
        batch = events[at : at + 50]
        released += merge.on_batch(batch, batch[-1].at_ns).released
    return [event for event in released if event.kind == DATA]


def held_ms(events: list[Event], from_s: float, to_s: float) -> float:
    """Return the mean buffering time of the events that arrived in the interval, in ms."""
    held = [
        event.at_ns - event.arrival_ns
        for event in events
        if from_s * S <= event.arrival_ns - BEGIN < to_s * S
    ]
    return sum(held) / len(held) / MS


def sparse_alarms(until_s: int) -> list[Sent]:
    """Return events of two busy sources, and of an alarm that sends every 97 s for an hour.

    Busy sources send 20 times a second and need 10 to 20 ms; the alarm needs 60 to 90 ms.
    """
    dice = Random(1)
    busy = [each for name in "ab" for each in sent(name, 0.05, until_s, (10, 20), dice)]
    return [*busy, *sent("alarm", 97, 3_600, (60, 90), dice, first_s=5)]


@pytest.mark.slow
def test_known_silences_are_awaited() -> None:
    merge = Merge("default", MergeConfig())
    events = merged(merge, sparse_alarms(3_600))
    late = [event for event in events if event.late]
    assert {event.late for event in late} <= {"merge_new", MERGE_IDLE}
    assert {event.source for event in late} == {"alarm"}
    assert 0 < len(late) <= 8  # Its events are late only until enough delays are known.
    assert all(event.seq < 8 for event in late)


@pytest.mark.slow
def test_others_wait_for_sparse_source() -> None:
    """MERGE uses the sparse source's own delays, although there are only a few of them."""
    events = merged(Merge("default", MergeConfig()), sparse_alarms(4_000))
    assert held_ms(events, 2_000, 2_080) <= 90
    assert held_ms(events, 3_850, 4_000) < 60  # The alarm has been gone for twice its silence.


def test_gone_busy_source_is_not_awaited() -> None:
    dice = Random(2)
    log = [*sent("a", 0.05, 60, (10, 20), dice), *sent("b", 0.05, 30, (10, 300), dice)]
    merge = Merge("default", MergeConfig())
    events = merged(merge, log)
    assert held_ms(events, 33, 60) == 0
    assert (merge.figures()["idle"], merge.figures()["paused"]) == (1, 0)


def test_slow_fleet_is_not_idle() -> None:
    sources, dice = 400, Random(3)
    log = [
        each
        for number in range(sources)
        for each in sent(f"s{number}", 10, 140, (10, 90), dice, first_s=dice.random() * 10)
    ]
    merge = Merge("default", MergeConfig())
    events = merged(merge, log)
    figures = merge.figures()
    assert figures["idle"] == 0
    assert figures["paused"] > sources / 2
    late = [event for event in events if event.late and event.seq >= 8]
    assert len(late) <= len(events) // 1_000


@pytest.mark.parametrize("size", [1, 2])
def test_plain_path_learns_same_idle_times(size: int) -> None:
    """The path of plain events ends in the same state as the general path."""
    events = [
        Event("default", "a", 0, number, BEGIN + number * 5 * MS, BEGIN + number * 5 * MS)
        for number in range(100)
    ]
    end_ns = events[-1].at_ns
    events += [
        Event("default", "a", 0, 100, at_ns, at_ns, kind=BLOCKED)
        for at_ns in range(end_ns, end_ns + S, 100 * MS)
    ]
    behind = [Event("default", "a", 0, 100 + n, end_ns + n, end_ns + n * 501 * MS) for n in (1, 2)]
    for number, event in enumerate(behind):
        event.seq, event.at_ns = 100 + number, end_ns + 1_010 * MS
    states = []
    for takes_plain in (True, False):
        operator = Merge("default", MergeConfig(idle_after_ns=500 * MS))
        operator.takes_plain = takes_plain
        operator.on_batch(copies(events), events[-1].at_ns)
        for at in range(0, 2, size):
            operator.on_batch(copies(behind[at : at + size]), end_ns + 1_010 * MS)
        states.append(operator.snapshot())
    assert states[0] == states[1]
