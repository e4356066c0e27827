"""Examples: how late a source's events are, measured by its own clock, in ms."""

from __future__ import annotations

from random import Random

import pytest

from tests.kit.events import event
from tests.kit.k_slack import time_buffer
from topology.answer.waiting.tail import COLD, OwnTail
from topology.base.event import Event

MS = 1_000_000


def waits(events: list[Event]) -> list[tuple[int, int]]:
    """Return (number, wait in ms) in the order of emission; late events have a wait of -1."""
    operator = time_buffer(OwnTail(10_000, max_wait_ns=200 * MS), max_wait_ns=200 * MS)
    out = []
    for one in events:
        out += operator.on_batch([one], one.at_ns).released
    out += operator.on_time(events[-1].at_ns + 400 * MS).released
    assert len(out) == len(events)
    return [(e.seq, -1 if e.late else (e.at_ns - e.arrival_ns) // MS) for e in out]


def shaky(seed: int, n: int, spread: int, shift: float = 0, drift: float = 1) -> list[Event]:
    """Return one event every 5 ms, each delayed by up to `spread`.

    The source's clock is `shift` off and runs at `drift`.
    """
    rng = Random(seed)
    sent = [(5 * i, 5 * i + 1 + rng.randint(0, spread)) for i in range(n)]
    sent.sort(key=lambda one: one[1])
    return [event(i, shift + drift * ts, arrival) for i, (ts, arrival) in enumerate(sent)]


def test_new_source_waits_max_wait() -> None:
    """After enough events, a source in order waits for nothing."""
    waited = waits([event(i, 10 * i, 10 * i + 3) for i in range(200)])
    assert [wait for _, wait in waited[: COLD - 30]] == [200] * (COLD - 30)
    assert [wait for _, wait in waited[COLD:]] == [0] * (200 - COLD)


def test_wait_covers_out_of_order_events() -> None:
    waited = dict(waits(shaky(1, 3_000, 30)))
    late = sum(wait < 0 for wait in waited.values())
    assert late <= 30
    settled = [wait for number, wait in waited.items() if number > 1_000]
    assert max(settled) <= 70
    assert 5 <= sum(settled) / len(settled) <= 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "drift"), [(-3_600_000, 0.99), (86_400_000, 1), (86_400_000, 1.01), (0.25, 0.99)]
)
def test_wrong_clock_changes_little(shift: float, drift: float) -> None:
    """A clock one per cent wrong has drifted 250 ms in the end, more than the longest wait."""
    straight = waits(shaky(2, 5_000, 30))
    other = waits(shaky(2, 5_000, 30, shift, drift))
    late = [sum(wait < 0 for _, wait in waited) for waited in (straight, other)]
    assert max(late) <= 50
    mean = [sum(wait for _, wait in waited) / 5_000 for waited in (straight, other)]
    assert abs(mean[0] - mean[1]) < 5


def test_wait_doubles_if_none_may_be_late() -> None:
    policy = OwnTail(10_000, max_wait_ns=10_000 * MS)
    for number in range(1_000):
        behind = 40 if number % 10 == 5 else 0
        policy.observe(event(number, number * 10 - behind, number * 10), number * 10 * MS)
    assert (
        policy._allowance.allowed_ppm() == 10_000 * 10 // 20
    )  # Ten may be late, and none has been.
    lateness_ns, silence_ns = policy.waits_ns()
    assert 30 * MS <= lateness_ns <= 34 * MS
    assert 40 * MS <= silence_ns <= 45 * MS  # The time since the newest event counts here.
    for _ in range(10):
        policy.late(0, 1)
    assert policy._allowance.allowed_ppm() == 0
    assert 60 * MS <= policy.waits_ns()[0] <= 68 * MS


def test_hopeless_events_do_not_count() -> None:
    """Every fiftieth event comes a second late, although only one in a thousand may be late."""
    events = shaky(4, 5_000, 30)
    for number, one in enumerate(events):
        if number % 50 == 7:
            one.ts_ns = one.ref_time_ns = one.ts_ns - 1_000 * MS
    policy = OwnTail(1_000, max_wait_ns=200 * MS)
    operator = time_buffer(policy, max_wait_ns=200 * MS)
    waited = []
    for one in events:
        step = operator.on_batch([one], one.at_ns)
        waited += [out.at_ns - out.arrival_ns for out in step.released if not out.late]
    figures = policy.figures()
    assert figures["beyond"] == 99  # The first has no emitted event before it.
    assert figures["late"] <= 5
    assert figures["lateness_ns"] <= 40 * MS
    assert max(waited[1_000:]) <= 70 * MS


def test_event_beyond_max_wait_counts_apart() -> None:
    """Lateness counts from the newest event, including the time since it arrived."""
    for behind, late in ((190, (1, 0)), (191, (0, 1))):
        policy = OwnTail(500_000, max_wait_ns=200 * MS)
        policy.observe(event(0, 1_000, 5_000), 5_000 * MS)
        policy.observe(event(1, 1_000 - behind, 5_010), 5_010 * MS)
        policy.late((1_000 - behind) * MS, behind * MS)
        assert (policy.figures()["late"], policy.figures()["beyond"]) == late
