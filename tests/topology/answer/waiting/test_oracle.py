"""Oracle: the strategies and their parts match slow computations by the definitions."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from benchmarks.baselines.early_windows import EarlyWindows
from benchmarks.closing import judge, run
from benchmarks.oracle import find_oracle_waits
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.mp_k_slack import MPKSlack
from benchmarks.published.prob_slack import Jumping, Polyline
from benchmarks.workloads.windows import STATIC, Stream, stream
from tests.kit.events import copies
from tests.kit.k_slack import KSlack, time_buffer
from tests.topology.answer.waiting.strategies import EVERY, MS, Unguarded, disordered
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.driver import Closing, WindowDriver
from topology.answer.waiting.fitting import Counts, DelayTables, Rotating
from topology.answer.waiting.miss import ONE, Joint, to_fixed_point
from topology.answer.waiting.posterior import Posterior, StepRate
from topology.answer.waiting.risk import RiskSlack
from topology.base.event import Event

SEEDS = range(5)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def tables(seed: int) -> tuple[Counts, Counts]:
    rng = Random(seed)
    return (
        {rng.randint(0, 30): rng.randint(1, 9) for _ in range(rng.randint(1, 8))},
        {rng.randint(-5, 12): rng.randint(1, 9) for _ in range(rng.randint(1, 6))},
    )


# -- probabilities ---------------------------------------------------------------------------------


@every_seed
def test_joint_matches_all_pairs(seed: int) -> None:
    apart, delays = tables(seed)
    joint = Joint(apart, delays)
    assert joint.whole == sum(apart.values()) * sum(delays.values())
    for alpha, beta in product(range(-2, 35), range(-8, 45)):
        assert joint.row(beta)[joint.index(alpha)] == by_pairs(apart, delays, alpha, beta)


def by_pairs(apart: Counts, delays: Counts, alpha: int, beta: int) -> int:
    return sum(
        apart[g] * delays[d] for g, d in product(apart, delays) if g <= alpha and g + d > beta
    )


@every_seed
def test_posterior_matches_all_pairs(seed: int) -> None:
    sample = DelayTables()
    sample.apart, sample.delays = tables(seed)
    plain = Posterior(sample, 1, 0, None)
    pace = StepRate(sum(sample.apart.values()), 50)
    weighed = Posterior(sample, 1, 0, pace)
    never = 10_000  # This stands for infinity, once in each table.
    apart, delays = {**sample.apart, never: 1}, {**sample.delays, never: 1}
    for alpha, beta in product(range(0, 35, 3), range(-8, 45, 2)):
        beyond = by_pairs(apart, delays, never, beta)
        p = by_pairs(apart, delays, alpha, beta) / beyond
        assert plain.risk_of(alpha, beta) / ONE == pytest.approx(p, abs=1e-9)
        residual = sum(
            sample.apart[g] * sample.delays[d] * (g + d - beta)
            for g, d in product(sample.apart, sample.delays)
            if g + d > beta
        )
        mean = pace.steps / pace.events
        index = p * (mean / 2) / (residual / beyond + mean / 4)
        assert weighed.risk_of(alpha, beta) / ONE == pytest.approx(index, abs=1e-8)


@every_seed
@pytest.mark.parametrize("delta", [0.0, 0.05, 0.3, 0.9])
def test_polyline_matches_a_scan(seed: int, delta: float) -> None:
    apart, delays = tables(seed)
    joint = Joint(apart, delays)
    line = Polyline(joint, to_fixed_point(delta))
    first = {alpha: line.first_beta(alpha) for alpha in range(35)}
    limit = to_fixed_point(delta) * joint.whole
    for beta in range(-8, 50):
        risky = (alpha for alpha in range(60) if joint.row(beta)[joint.index(alpha)] * ONE > limit)
        hat = next(risky, None)
        assert line.hat(beta) == hat
        for alpha, least in first.items():
            assert (hat is None or alpha < hat) == (beta >= least) or beta < min(apart) + min(
                delays
            )


def test_fitting_keeps_last_samples() -> None:
    jumping, rotating = Jumping(400, MS), Rotating(400, MS)
    seen = []
    for number in range(1, 1_501):
        apart_ns, delay_ns = (number % 50) * MS, (3 + number % 7) * MS
        seen.append((number % 50, number % 7))
        full = jumping.add(apart_ns, delay_ns)
        assert (full is not None) == (number % 400 == 0)
        due = rotating.add(apart_ns, delay_ns)
        for sample, length in ((full, 400), (due, due.events if due else 0)):
            if sample is not None:
                assert length <= 400 + 200
                recent = seen[-length:]
                assert sample.apart == counted([g for g, _ in recent])
                least = 1 - (seen[0][1])  # Delays count from the first one.
                assert sample.delays == counted([d + least - 1 for _, d in recent])


def counted(values: list[int]) -> Counts:
    return {value: values.count(value) for value in set(values)}


# -- windows ---------------------------------------------------------------------------------------


def test_event_driven_matches_a_scan() -> None:
    for kind in STATIC:
        drawn = stream(kind, 1, 1_000)
        closings = run(drawn, EventDriven(), EVERY, early=True)
        for window, at_ns in closings.items():
            assert at_ns == next(came for ts, came in drawn if ts > window * EVERY)


@pytest.mark.slow
@every_seed
def test_judge_matches_definitions(seed: int) -> None:
    drawn = stream("ZZ", seed, 1_500)
    closings = run(drawn, RiskSlack(AccuracyBudget(0.2), period=400), EVERY, early=True)
    found = judge(drawn, closings, EVERY, 0.2)
    misses = []
    for window, at_ns in closings.items():
        members = [row for row in drawn if (window - 1) * EVERY < row[0] <= window * EVERY]
        misses.append(any(came > at_ns for _, came in members))
    assert found.error == sum(misses) / len(misses)
    prefixes = [sum(misses[:n]) / n for n in range(1, len(misses) + 1)]
    assert found.worst == pytest.approx(max(prefixes) - 0.2)
    waits = [at_ns - window * EVERY for window, at_ns in closings.items()]
    assert found.wait_ns == sum(waits) / len(waits)
    assert all(wait > -EVERY for wait in waits)


@every_seed
def test_missed_windows_match_definitions(seed: int) -> None:
    """Windows overlap; a window has missed an event that arrived after the window had closed."""
    events = disordered(seed)
    driver = WindowDriver(KSlack(5 * MS), EVERY, 3 * EVERY)
    said = driver.on_batch(copies(events), events[-1].at_ns)
    closed: dict[int, int] = {}
    missed: set[tuple[int, int]] = set()
    for one in said:
        if isinstance(one, Closing):
            closed |= dict.fromkeys(range(one.number, one.through + 1), one.at_ns)
        else:
            missed |= {(number, one.event.offset) for number in range(one.first, one.last + 1)}
    first = min(closed)
    expected = {
        (number, event.offset)
        for event in events
        for number in range(event.ts_ns // EVERY - 1, event.ts_ns // EVERY + 6)
        if (number - 3) * EVERY < event.ts_ns <= number * EVERY
        and (number < first or (number in closed and closed[number] < event.at_ns))
        and event.at_ns > events[0].at_ns
    }
    assert missed
    assert {one for one in missed if one[0] >= first} == {
        one for one in expected if one[0] >= first
    }


def test_oracle_gives_waits_by_hand() -> None:
    drawn: Stream = [(5, 9), (8, 25), (19, 21), (33, 34), (36, 37)]
    # For ends 10, 20, 30, 40, the last events arrive 15 after, 1 after, never, 3 before.
    assert find_oracle_waits(drawn, 10, 0, range(1, 5)) == [-10, -3, 1, 15]
    assert find_oracle_waits(drawn, 10, 0.25, range(1, 5)) == [-10, -10, -3, 1]
    assert find_oracle_waits(drawn, 10, 0.25, range(1, 5), early=False) == [0, 0, 0, 1]


@pytest.mark.parametrize(("delta", "wait_ms"), [(0.1, -7.2), (0.3, -13.7), (0.9, -28.4)])
def test_oracle_gives_the_papers_figures(delta: float, wait_ms: float) -> None:
    drawn = stream("BB", 1, 30_000)
    waits = find_oracle_waits(drawn, EVERY, delta, range(1, drawn[-1][0] // EVERY))
    assert sum(waits) / len(waits) / MS == pytest.approx(wait_ms, abs=0.15)


# -- order -----------------------------------------------------------------------------------------


@every_seed
def test_reorder_matches_sorted_list(seed: int) -> None:
    """At the end of each instant all events at or below clock - K are emitted, sorted."""
    events = disordered(seed)
    operator = time_buffer(KSlack(6 * MS), late="side")
    step = operator.on_batch(copies(events), events[-1].at_ns + 1)
    found = [(event.offset, event.at_ns) for event in step.released]
    expected: list[tuple[int, int]] = []
    waiting: list[Event] = []
    last = (0, "", 0)
    for event in events:
        if (event.ts_ns, event.source, event.seq) > last:
            waiting.append(event)
        following = events[event.offset + 1] if event.offset + 1 < len(events) else None
        if following is not None and following.at_ns == event.at_ns:
            continue
        clock_ns = max(one.ts_ns for one in events[: event.offset + 1])
        waiting.sort(key=lambda one: (one.ts_ns, one.source, one.seq))
        while waiting and waiting[0].ts_ns <= clock_ns - 6 * MS:
            out = waiting.pop(0)
            expected.append((out.offset, event.at_ns))
            last = (out.ts_ns, out.source, out.seq)
    assert found == expected
    assert len(step.reports) == len(events) - len(expected) - len(waiting) > 0


@every_seed
def test_mp_k_slack_is_largest_lateness(seed: int) -> None:
    events = disordered(seed)
    policy = MPKSlack(measure="arrival")
    newest_ns = largest_ns = 0
    for event in events:
        policy.observe(event, event.at_ns)
        largest_ns = max(largest_ns, newest_ns - event.ts_ns)
        newest_ns = max(newest_ns, event.ts_ns)
        assert policy.k_ns == largest_ns


# -- calibration -----------------------------------------------------------------------------------


class Predicting(RiskSlack):
    """A RISK at a fixed threshold that records its prediction for each closed window."""

    def __init__(self) -> None:
        super().__init__(Unguarded(0.5, rate=0), weigh=False)
        self.predicted: dict[int, float] = {}

    def note_closed(self, bound_ns: int, now_ns: int, by: str, windows: int = 1) -> None:
        super().note_closed(bound_ns, now_ns, by, windows)
        risk = self._risk_of(self._find_sources_below(bound_ns, now_ns), bound_ns, now_ns)
        self.predicted[bound_ns] = min(ONE, risk) / ONE


@pytest.mark.slow
def test_predicted_risk_matches_observed() -> None:
    """Windows are closed at a fixed threshold, and grouped by tenths of the prediction."""
    drawn = stream("ZZ", 1, 20_000)
    policy = Predicting()
    driver = EarlyWindows(policy, EVERY, tick_ns=MS, first=1)
    events = [Event("default", "0", 0, at, ts, came) for at, (ts, came) in enumerate(drawn)]
    last = {-(-ts // EVERY): came for ts, came in drawn}
    bins: dict[int, list[tuple[float, bool]]] = {}
    for one in driver.on_batch(events, drawn[-1][1]):
        if isinstance(one, Closing) and one.by == "probable":
            missed = last.get(one.number, 0) > one.at_ns
            predicted = policy.predicted[one.bound_ns]
            bins.setdefault(int(10 * predicted), []).append((predicted, missed))
    emitted = [pairs for pairs in bins.values() if len(pairs) >= 300]
    assert len(emitted) >= 3
    for pairs in emitted:
        predicted = sum(p for p, _ in pairs) / len(pairs)
        observed = sum(missed for _, missed in pairs) / len(pairs)
        assert observed == pytest.approx(predicted, abs=0.05)
