"""The tail: examples, in ms, and what it promises of events that a wait can save."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.baselines.tail_slack import TailSlack
from tests.seeds import seeds_of_today
from tests.topology.waiting.strategies import MS, event, numbered
from topology.model.event import Event
from topology.model.outcome import Late
from topology.reorder.time_buffer import TimeBuffer

SEEDS = seeds_of_today(1)


def at(ts: int, now: int, source: str = "s0", seq: int = 0) -> Event:
    """Times in ms."""
    return Event("default", source, 0, seq, ts * MS, now * MS)


def test_the_tail_waits_for_all_while_nothing_may_be_late() -> None:
    policy = TailSlack(0.01, max_wait_ns=10_000 * MS)
    for number in range(1_000):
        lateness = 40 if number % 10 == 0 else 0
        policy.observe(at(number * 10 - lateness, number * 10 + 1), (number * 10 + 1) * MS)
        policy.judged()
    assert policy.q_ppm() == 10_000 * 10 // 20  # ten may be late, none has been
    assert 30 * MS <= policy.figures()["lateness_ns"] <= 34 * MS
    for _ in range(10):
        policy.late(0, 1)
    assert policy.q_ppm() == 0
    assert 60 * MS <= policy.figures()["lateness_ns"] <= 68 * MS


def test_what_no_wait_could_have_saved_moves_neither_tail_nor_budget() -> None:
    """One per cent comes ten seconds late, ten times what is promised in all."""
    policy = TailSlack(0.001, max_wait_ns=200 * MS)
    operator = TimeBuffer(policy)
    waits = []
    for number in range(3_000):
        now = 20_000 + number * 10
        behind = 40 if number % 10 == 0 else 10_000 if number % 100 == 55 else 0
        step = operator.on_batch([at(now - behind, now, seq=number)], now * MS)
        waits += [one.at_ns - one.arrival_ns for one in step.released if not one.late]
    figures = policy.figures()
    assert (figures["beyond"], figures["late"]) == (30, 0)
    assert figures["q_ppm"] == 1_000 * (2_970 * 1_000) // (20 * 1_000_000)
    assert 30 * MS <= figures["lateness_ns"] <= 34 * MS  # the one before is 10 ms older
    assert 40 * MS <= figures["delay_ns"] <= 45 * MS
    assert 40 * MS <= max(waits[1_000:]) <= 50 * MS


def test_an_event_at_the_longest_wait_can_be_saved_and_one_past_it_cannot() -> None:
    for behind, late in ((200, (1, 0)), (201, (0, 1))):
        policy = TailSlack(0.5, max_wait_ns=200 * MS)
        policy.observe(at(1_000, 1_000), 1_000 * MS)
        policy.observe(at(1_000 - behind, 1_000, seq=1), 1_000 * MS)
        policy.late((1_000 - behind) * MS, behind * MS)
        assert (policy.figures()["late"], policy.figures()["beyond"]) == late


def test_with_others_waited_for_an_event_behind_its_own_source_can_be_saved() -> None:
    """It is 300 ms behind its source, whose clock is ahead, but 100 behind the other."""
    policy = TailSlack(0.5, max_wait_ns=200 * MS)
    policy.observe(at(1_000, 1_000, "s1"), 1_000 * MS)
    policy.observe(at(1_200, 1_000), 1_000 * MS)
    policy.observe(at(900, 1_000, seq=1), 1_000 * MS)
    policy.late(900 * MS, 100 * MS)
    assert (policy.figures()["late"], policy.figures()["beyond"]) == (1, 0)


def test_a_step_back_of_a_clock_is_no_sample_of_the_latenesses() -> None:
    """For a while it ran a second ahead, so that all after it are that far behind."""
    policy = TailSlack(0.01, max_wait_ns=200 * MS)
    for number in range(400):
        now = 5_000 + number
        policy.observe(at(now + (1_000 if number < 100 else 0), now, seq=number), now * MS)
    assert policy.figures()["lateness_ns"] == 0
    assert 0 <= policy.figures()["delay_ns"] <= 10 * MS


def test_a_clock_that_is_an_hour_slow_holds_nobody_back() -> None:
    policy = TailSlack(0.01, max_wait_ns=200 * MS)
    for number in range(200):
        now = 10**7 + number * 10
        policy.observe(at(now, now, "right", number), now * MS)
        policy.observe(at(now - 3_600_000, now, "slow", number), now * MS)
    assert policy.frontier_ns(now * MS) == now * MS


def test_a_source_that_was_alone_goes_by_the_sketch_of_all_when_a_second_comes() -> None:
    """Its own is empty. The second speaks in order, so that the first alone holds back."""
    policy = TailSlack(0.01, max_wait_ns=10_000 * MS)
    for number in range(1_000):
        now = number * 10
        policy.observe(at(now - (40 if number % 10 == 0 else 0), now, seq=number), now * MS)
    for now in range(10_000, 10_100):
        policy.observe(at(now, now, "s1", now), now * MS)
    assert policy.passes((now - 50) * MS, now * MS)
    assert not policy.passes((now - 35) * MS, now * MS)


def hopeless(events: list[Event], max_wait_ns: int) -> set[int]:
    """Offsets of those that come more than that behind the arrival clock, or behind what the
    slowest source has come to."""
    newest: dict[str, int] = {}
    found = set()
    for one in events:
        newest[one.source] = max(newest.get(one.source, one.ts_ns), one.ts_ns)
        if max(one.at_ns, min(newest.values())) - one.ts_ns > max_wait_ns:
            found.add(one.offset)
    return found


def long_late(seed: int, n: int = 20_000) -> list[Event]:
    """Three sources that do not keep order; one event in 70 comes a second late or more."""
    rng = Random(seed)
    events = []
    for source in range(3):
        ts = 0
        for seq in range(n // 3):
            ts += rng.randint(0, 12)
            delay = rng.choice((0, 0, 1, 3, 9, 25))
            if rng.random() < 1 / 70:
                delay = rng.randint(1_000, 100_000)
            events.append(event(f"s{source}", seq, ts, ts + delay, rng))
    return numbered(events)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("max_wait", [40, 300])
def test_of_the_events_that_a_wait_can_save_no_more_are_late_than_promised(
    delta: float, max_wait: int
) -> None:
    for seed in SEEDS:
        events = long_late(seed)
        policy = TailSlack(delta, max_wait_ns=max_wait * MS)
        operator = TimeBuffer(policy, late="side")
        late = set()
        for one in events:
            reports = operator.on_batch([one], one.at_ns).reports
            late |= {report.event.offset for report in reports if isinstance(report, Late)}
        beyond = late & hopeless(events, max_wait * MS)
        figures = policy.figures()
        assert (figures["late"], figures["beyond"]) == (len(late - beyond), len(beyond))
        assert len(beyond) > 200
        assert len(late - beyond) <= delta * (len(events) - len(beyond))
        assert figures["delay_ns"] <= 30 * MS
