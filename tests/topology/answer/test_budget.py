"""Examples: how a wait is chosen. Laws: replays cost what is granted, and the wait falls again
after a burst.
"""

from __future__ import annotations

from random import Random

from topology.answer.budget import Budget

MS = 10**6
SPAN = 500 * MS


def _spans(policy: Budget, count: int, late_ms: int, first_ppm: int) -> None:
    items = 1_000
    for _ in range(count):
        policy.note_late(late_ms * MS)
        wait_ns = policy.wait_ns(1_000 * MS)
        again = max(0, late_ms * MS - wait_ns) * items // SPAN
        policy.end_span(SPAN, SPAN * first_ppm // 10**6, 1_000 * MS, items, again)


def test_first_wait_is_the_longest() -> None:
    assert Budget(500_000).wait_ns(7 * MS) == 7 * MS


def test_wait_halves_to_the_shortest() -> None:
    policy = Budget(500_000)
    waits = []
    for _ in range(6):
        _spans(policy, 1, 40, 300_000)
        waits.append(policy.wait_ns(1_000 * MS) // MS)
    assert waits == [500, 250, 125, 62, 31, 15]


def test_full_load_allows_no_replays() -> None:
    """No processor time is free, so the wait covers all late events."""
    policy = Budget(500_000)
    _spans(policy, 12, 40, 900_000)
    assert 40 * MS <= policy.wait_ns(1_000 * MS) <= 45 * MS or policy.wait_ns(10**9) == 10**9


def test_burst_raises_wait_briefly() -> None:
    policy = Budget(500_000)
    _spans(policy, 20, 40, 300_000)
    assert policy.wait_ns(1_000 * MS) == 0
    _spans(policy, 1, 40, 950_000)
    assert policy.wait_ns(1_000 * MS) >= 40 * MS
    _spans(policy, 4, 40, 300_000)
    assert policy.wait_ns(1_000 * MS) <= 63 * MS


def test_no_wait_without_late_events() -> None:
    policy = Budget(500_000)
    for _ in range(12):
        policy.end_span(SPAN, SPAN // 4, 900 * MS, 100, 0)
    assert policy.wait_ns(900 * MS) == 0


def test_replays_cost_the_grant() -> None:
    """Events are late by widely differing times, and replays cost about the granted 10 %."""
    dice = Random(1)
    policy = Budget(100_000)
    spent = []
    for _ in range(60):
        lates = [int(dice.expovariate(1 / 30)) * MS for _ in range(20)]
        wait_ns = policy.wait_ns(500 * MS)
        again = sum(max(0, late - wait_ns) for late in lates) * 2_000 // SPAN
        for late in lates:
            policy.note_late(late)
        step_ns = 100_000
        spent.append(again * step_ns / SPAN)
        policy.end_span(SPAN, 2_000 * step_ns, 500 * MS, 2_000, again)
    assert sum(spent[20:]) / 40 < 0.12
    assert policy.wait_ns(500 * MS) < 400 * MS
