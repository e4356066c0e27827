"""Examples: the golden tables of slack.md, strategy by strategy."""

from __future__ import annotations

import pytest

from benchmarks.baselines.ignore import Ignore
from benchmarks.published.aq_k_slack import AQKSlack
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.ldop import LDOP
from benchmarks.published.mean_delay import AverageDelay
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.prob_slack import ProbSlack
from tests.kit.k_slack import KSlack, time_buffer
from tests.topology.answer.waiting.strategies import STRATEGIES, Unguarded
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.driver import Closing, Missed, WindowDriver
from topology.answer.waiting.fitting import (
    DelayTables,
    distance_ppm,
    grid_ceil,
    grid_floor,
    grid_next,
    grid_top,
)
from topology.answer.waiting.miss import ONE
from topology.answer.waiting.policy import AFTER_ALL, BEFORE_ALL, CONFIRMED, PROBABLE, SlackPolicy
from topology.answer.waiting.posterior import Posterior
from topology.answer.waiting.risk import Modelled, RiskSlack
from topology.answer.waiting.sources import SOURCE, Source, Sources
from topology.base.event import Event
from topology.base.outcome import Late
from topology.order.reorder.time_buffer import TimeBuffer
from topology.state.saved import ShapeRefused

MS = 1_000_000


def at(ts: int, now: int, source: str = "s0", seq: int = 0) -> Event:
    """Return an event with times in ms."""
    return Event("default", source, 0, seq, ts * MS, now * MS)


def feed_one(operator: TimeBuffer, ts: int, now: int) -> list[object]:
    """Return the emitted and the late times after one event has arrived, in ms."""
    step = operator.on_batch([at(ts, now, seq=now)], now * MS)
    then = operator.on_time(now * MS)
    late = [f"{one.event.ts_ns // MS} late" for one in step.reports if isinstance(one, Late)]
    return [*late, *(one.ts_ns // MS for one in then.released)]


# -- the K-Slack family ----------------------------------------------------------------------------

STAMPS = [1, 4, 3, 5, 6, 9, 7, 8, 10, 13]


def test_mp_k_slack_follows_the_thesis() -> None:
    """Figure 2.6, in frontier form: 3 is late at once, and 7 is emitted on arrival."""
    policy = MPKSlack()
    operator = time_buffer(policy, late="side")
    ks, clocks = [], []
    said = []
    for now, ts in enumerate(STAMPS, start=100):
        said += feed_one(operator, ts, now)
        ks.append(policy.k_ns // MS)
        clocks.append(policy.newest_ns() // MS)
    assert clocks == [1, 4, 4, 5, 6, 9, 9, 9, 10, 13]
    assert ks == [0, 0, 0, 2, 2, 2, 2, 2, 3, 3]
    assert said == [1, 4, "3 late", 5, 6, 7, 8, 9, 10]
    assert [one.ts_ns // MS for one in operator.iter_held()] == [13]


def test_idle_setting_emits_last_events() -> None:
    still = time_buffer(KSlack(5 * MS))
    still.on_batch([at(50, 100)], 100 * MS)
    still.on_time(100 * MS)
    assert still.next_deadline_ns() is None
    going = time_buffer(KSlack(5 * MS, idle_ns=20 * MS))
    going.on_batch([at(50, 100)], 100 * MS)
    assert not going.on_time(100 * MS).released
    assert going.next_deadline_ns() == 120 * MS
    assert [one.at_ns for one in going.on_time(130 * MS).released] == [120 * MS]


def test_aq_k_slack_reduces_alpha() -> None:
    policy = AQKSlack(10 * MS, 0.9)
    operator = time_buffer(policy)
    for now in range(1, 200):
        ts = now - 3 if now % 5 == 0 else now
        feed_one(operator, ts, now)
    assert policy.alpha < 1


def test_alpha_never_exceeds_one() -> None:
    """For its first step, `alpha` uses no derivative."""
    policy = AQKSlack(10 * MS, 0.9)
    policy._step(-0.1)
    assert policy.alpha == pytest.approx(0.95)
    policy._step(-0.1)
    assert policy.alpha == pytest.approx(0.90)
    policy._step(0.9)
    assert policy.alpha == 1


def test_ldop_waits_for_mean_late_delay() -> None:
    policy = LDOP(100 * MS, 2_000_000)
    for ts, now in ((10, 10), (20, 20), (12, 22), (30, 30), (24, 34)):
        policy.observe(at(ts, now), now * MS)
    assert policy.slack_ns() == 2 * (10 + 10) * MS // 2
    policy.observe(at(200, 200), 200 * MS)
    assert policy.slack_ns() == 0


# -- ProbSlack -------------------------------------------------------------------------------------


def test_fewer_stragglers_expected_with_age() -> None:
    sample = DelayTables()
    sample.apart, sample.delays, sample.span_ns = {1: 100}, {1: 100}, 100
    sample.straggled = {4: 2, 10: 1}
    posterior = Posterior(sample, 1, 0, None)
    expected = [(2 * 4 + 10) / 100, (2 * 2 + 8) / 100, 6 / 100, 1 / 100, 0]
    for age, mean in zip((0, 2, 4, 9, 10), expected, strict=True):
        assert posterior.stragglers(age) / ONE == pytest.approx(mean, abs=1e-8)


def test_bins_are_exact_near_zero() -> None:
    for steps in [*range(-200, 200), 1_000, 12_345, 10**9, -5_000]:
        low, high = grid_floor(steps), grid_ceil(steps)
        assert low <= steps <= high
        assert high - low <= max(0, abs(steps) // 30) + (abs(steps) > 127) * 2
        assert grid_floor(low) == low
        assert grid_next(low) > steps or low == steps
        assert low <= steps <= grid_top(low)
    assert grid_floor(127) == 127
    assert grid_floor(131) == 128


def test_distance_ignores_size_of_tables() -> None:
    assert distance_ppm({1: 1, 2: 1}, {1: 5, 2: 5}) == 0
    assert distance_ppm({1: 1, 2: 1}, {2: 1}) == 500_000
    assert distance_ppm({1: 1}, {9: 1}) == 1_000_000


def test_probslack_falls_back_and_relearns() -> None:
    """ProbSlack falls back when its budget is spent, and then drops its model."""
    policy = ProbSlack(0.1, period=200)
    for number in range(300):
        policy.observe(
            at(20 * number, 20 * number + 3 + number % 3), (20 * number + 3 + number % 3) * MS
        )
    newest = policy.newest_ns()
    assert not policy.passes(newest + 25 * MS, newest + 5 * MS)
    assert policy.passes(newest + 15 * MS, newest + 5 * MS)
    policy.note_closed(newest + 15 * MS, newest + 5 * MS, PROBABLE)
    policy.note_resolved(missed=True, by=PROBABLE)
    assert policy.figures()["guarded"] == 1
    assert not policy.passes(newest + 15 * MS, newest + 5 * MS)
    policy.note_closed(0, 0, CONFIRMED, windows=1_000)
    assert policy.figures()["guarded"] == 0
    assert not policy.passes(newest + 15 * MS, newest + 5 * MS)  # The model is gone.


def test_delta_0_is_event_driven() -> None:
    for policy in (ProbSlack(0, period=200), RiskSlack(AccuracyBudget(0), period=200)):
        for number in range(300):
            policy.observe(at(20 * number, 20 * number + 3), (20 * number + 3) * MS)
        newest = policy.newest_ns()
        assert policy.passes(newest - 1, newest)
        assert not policy.passes(newest, newest + 10_000 * MS)


# -- budget ----------------------------------------------------------------------------------------


def test_budget_spends_only_what_it_has() -> None:
    budget = AccuracyBudget(0.1)
    assert budget.compute_threshold() == 0
    budget.note_closed(CONFIRMED, 9)
    assert budget.compute_threshold() > 0  # One of ten may be missed.
    budget.note_closed(PROBABLE, 1)
    assert budget.compute_threshold() == 0  # The window may have been missed.
    budget.note_resolved(missed=False, by=PROBABLE, windows=1)
    assert budget.compute_threshold() > 0


def test_threshold_follows_misses() -> None:
    budget = Unguarded(0.1, rate=0.01)
    at_first = budget.compute_threshold()
    budget.note_resolved(missed=True, by=PROBABLE, windows=1)
    assert budget.compute_threshold() / ONE == pytest.approx(at_first / ONE - 0.009, abs=1e-6)
    budget.note_resolved(missed=False, by=CONFIRMED, windows=9)
    assert budget.compute_threshold() / ONE == pytest.approx(at_first / ONE, abs=1e-6)
    for _ in range(100):
        budget.note_resolved(missed=True, by=PROBABLE, windows=1)
    assert budget.compute_threshold() < 0


# -- drivers ---------------------------------------------------------------------------------------


def closings(driver: WindowDriver, events: list[Event], until: int) -> list[tuple[int, int, str]]:
    said = driver.on_batch(events, events[-1].at_ns) + driver.on_time(until * MS)
    return [
        (number, one.at_ns // MS, one.by)
        for one in said
        if isinstance(one, Closing)
        for number in range(one.number, one.through + 1)
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EventDriven(), [(1, 23, CONFIRMED), (2, 23, CONFIRMED), (3, 41, CONFIRMED)]),
        (Ignore(), [(1, 12, PROBABLE), (2, 20, PROBABLE), (3, 30, PROBABLE), (4, 40, PROBABLE)]),
        (AverageDelay(), [(1, 14, PROBABLE), (2, 23, PROBABLE), (3, 33, PROBABLE)]),
    ],
)
def test_baselines_close_windows_in_time(
    policy: SlackPolicy, expected: list[tuple[int, int, str]]
) -> None:
    """Windows of 10 ms: (0, 10], (10, 20], ...; the mean delay is 4, then 3 ms."""
    events = [at(8, 12), at(21, 23), at(36, 41)]
    driver = WindowDriver(policy, 10 * MS)
    found = closings(driver, events, 41)
    assert found[: len(expected)] == expected


def test_missed_windows_are_bounded() -> None:
    """A timestamp of 1970 is before more windows than there is memory for."""
    driver = WindowDriver(EventDriven(), 10 * MS, max_pending=100)
    years_ns = 50 * 365 * 86_400 * 1_000 * MS
    driver.on_batch([at(years_ns // MS, 0), at(years_ns // MS + 20, 1)], 2 * MS)
    decisions: list[Closing | Missed] = []
    driver.take(at(0, 3), years_ns, decisions)
    (missed,) = [each for each in decisions if isinstance(each, Missed)]
    assert missed.first == 0
    assert 0 < driver.missed <= 100


def test_clock_jump_closes_windows_at_once() -> None:
    driver = WindowDriver(EventDriven(), 10 * MS)
    driver.on_batch([at(5, 5)], 5 * MS)
    said = driver.on_batch([at(10**10, 10**10)], 10**10 * MS + 1)
    assert [(type(one), one.number, one.through) for one in said] == [(Closing, 1, 10**9 - 1)]  # type: ignore[union-attr]


def test_empty_stream_closes_nothing() -> None:
    for policy in [strategy.make(1) for strategy in STRATEGIES]:
        driver = WindowDriver(policy, 10 * MS)
        assert policy.confirmed_ns(5) == BEFORE_ALL
        assert driver.next_deadline_ns() is None
        assert driver.on_time(10**9) == []
        assert driver.on_end(10**9) == []
        assert policy.confirmed_ns(10**9) == AFTER_ALL


def test_single_event_closes_by_cap_or_end() -> None:
    alone, capped = (WindowDriver(EventDriven(), 10 * MS, cap_ns=cap) for cap in (None, 50 * MS))
    for driver in (alone, capped):
        driver.on_batch([at(5, 6)], 6 * MS)
    assert alone.on_time(10**6 * MS) == []
    (closing,) = alone.on_end(10**6 * MS)
    assert isinstance(closing, Closing)
    assert closing.by == "end"
    assert capped.on_time(60 * MS) == [Closing(1, 1, 10 * MS, 60 * MS, "cap")]


def test_idle_source_is_not_awaited() -> None:
    driver = WindowDriver(EventDriven(idle_ns=50 * MS), 10 * MS)
    driver.on_batch([at(5, 6, "a"), at(6, 7, "b")], 7 * MS)
    driver.on_batch([at(15, 40, "a"), at(35, 45, "a")], 45 * MS)
    said = driver.on_time(60 * MS)
    assert [(one.at_ns // MS, one.by) for one in said] == [(57, "idle")]  # type: ignore[union-attr]


def test_departed_source_is_checkpointed() -> None:
    sources = Sources(Source, SOURCE, idle_ns=50 * MS)
    sources.observe("a", 0)
    sources.changes()
    sources.note_end("a")
    assert sources.has_changes


def test_full_buffer_emits_the_smallest() -> None:
    few = time_buffer(EventDriven(), max_held=1)
    step = few.on_batch([at(10, 20, seq=1), at(8, 20, "s1", seq=1)], 20 * MS)
    assert [one.ts_ns // MS for one in step.released] == [8]
    figures = few.figures()
    assert (figures["held"], figures["overflows"], figures["watermark_ns"]) == (1, 1, 8 * MS)


def test_model_without_base_is_refused() -> None:
    fitting = Modelled(400, MS).fitting.dump()
    with pytest.raises(ShapeRefused, match="the delays of a model have no `base_ns`"):
        Modelled(400, MS).load((fitting, DelayTables().dump(), None))
