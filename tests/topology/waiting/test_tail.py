"""The tail of one source by its own clock: examples, in ms."""

from __future__ import annotations

from random import Random

import pytest

from tests.kit.events import event
from tests.kit.k_slack import time_buffer
from topology.model.event import Event
from topology.waiting.tail import COLD, OwnTail

MS = 1_000_000


def waits(events: list[Event]) -> list[tuple[int, int]]:
    """(number, wait in ms) in the order of leaving; late ones have a wait of -1."""
    operator = time_buffer(OwnTail(10_000, max_wait_ns=200 * MS), max_wait_ns=200 * MS)
    out = []
    for one in events:
        out += operator.on_batch([one], one.at_ns).released
    out += operator.on_time(events[-1].at_ns + 400 * MS).released
    assert len(out) == len(events)
    return [(e.seq, -1 if e.late else (e.at_ns - e.arrival_ns) // MS) for e in out]


def shaky(seed: int, n: int, spread: int, shift: float = 0, drift: float = 1) -> list[Event]:
    """One event each 5 ms, each delayed by up to `spread`; by a clock that is `shift` off and
    runs at `drift`."""
    rng = Random(seed)
    sent = [(5 * i, 5 * i + 1 + rng.randint(0, spread)) for i in range(n)]
    sent.sort(key=lambda one: one[1])
    return [event(i, shift + drift * ts, arrival) for i, (ts, arrival) in enumerate(sent)]


def test_cold_it_waits_as_long_as_it_may_and_in_order_for_nothing_after() -> None:
    waited = waits([event(i, 10 * i, 10 * i + 3) for i in range(200)])
    assert [wait for _, wait in waited[: COLD - 30]] == [200] * (COLD - 30)
    assert [wait for _, wait in waited[COLD:]] == [0] * (200 - COLD)


def test_it_waits_for_what_comes_out_of_order_and_no_longer() -> None:
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
def test_what_the_clock_of_the_source_shows_is_all_the_same(shift: float, drift: float) -> None:
    """A clock one per cent wrong has drifted 250 ms in the end, more than may be waited."""
    straight = waits(shaky(2, 5_000, 30))
    other = waits(shaky(2, 5_000, 30, shift, drift))
    late = [sum(wait < 0 for _, wait in waited) for waited in (straight, other)]
    assert max(late) <= 50
    mean = [sum(wait for _, wait in waited) / 5_000 for waited in (straight, other)]
    assert abs(mean[0] - mean[1]) < 5


def test_while_nothing_may_be_late_it_waits_twice_the_largest() -> None:
    policy = OwnTail(10_000, max_wait_ns=10_000 * MS)
    for number in range(1_000):
        behind = 40 if number % 10 == 5 else 0
        policy.observe(event(number, number * 10 - behind, number * 10), number * 10 * MS)
    assert policy._allowance.q_ppm() == 10_000 * 10 // 20  # ten may be late, none has been
    lateness_ns, silence_ns = policy.waits_ns()
    assert 30 * MS <= lateness_ns <= 34 * MS
    assert 40 * MS <= silence_ns <= 45 * MS  # what had passed since the newest counts here
    for _ in range(10):
        policy.late(0, 1)
    assert policy._allowance.q_ppm() == 0
    assert 60 * MS <= policy.waits_ns()[0] <= 68 * MS


def test_what_no_wait_could_have_saved_moves_neither_tail_nor_budget() -> None:
    """Each fiftieth event comes a second late, where one of a thousand may be."""
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
    assert figures["beyond"] == 99  # all but the first: nothing had left before it
    assert figures["late"] <= 5
    assert figures["lateness_ns"] <= 40 * MS
    assert max(waited[1_000:]) <= 70 * MS


def test_an_event_at_the_longest_wait_can_be_saved_and_one_past_it_cannot() -> None:
    """Behind the newest, and since that came."""
    for behind, late in ((190, (1, 0)), (191, (0, 1))):
        policy = OwnTail(500_000, max_wait_ns=200 * MS)
        policy.observe(event(0, 1_000, 5_000), 5_000 * MS)
        policy.observe(event(1, 1_000 - behind, 5_010), 5_010 * MS)
        policy.late((1_000 - behind) * MS, behind * MS)
        assert (policy.figures()["late"], policy.figures()["beyond"]) == late
