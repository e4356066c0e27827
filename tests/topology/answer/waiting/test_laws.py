"""Laws: what every waiting strategy must do (slack.md 3) on any stream, in all drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from benchmarks.baselines.early_windows import EarlyWindows
from benchmarks.published.ldop import LDOP
from benchmarks.published.prob_slack import ProbSlack
from tests.kit.events import copies
from tests.kit.k_slack import KSlack, time_buffer
from tests.kit.runs import cut, through_changelog
from tests.seeds import seeds_of_today
from tests.topology.answer.waiting.strategies import (
    EVERY,
    MS,
    STRATEGIES,
    Frontier,
    Strategy,
    Unguarded,
    disordered,
    in_order,
    moved,
    steady,
)
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.driver import Closing, Missed, WindowDriver
from topology.answer.waiting.fitting import EXACT
from topology.answer.waiting.policy import AFTER_ALL, CONFIRMED, PROMISED, SlackPolicy
from topology.answer.waiting.risk import RiskSlack
from topology.answer.waiting.tail import OwnTail
from topology.base.event import Event
from topology.base.outcome import Duplicate, Late
from topology.order.reorder.time_buffer import TimeBuffer

SEEDS = seeds_of_today(1)
SIZES = (0, 1, 1, 3, 20, 100)
STREAMS = (in_order, disordered)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)


def streams() -> Iterator[tuple[int, list[Event]]]:
    for seed in SEEDS:
        for stream in STREAMS:
            yield seed, stream(seed)


# -- both drivers with one interface ---------------------------------------------------------------

Driver = Any
Make = Callable[[SlackPolicy], Driver]


def reorder(policy: SlackPolicy) -> TimeBuffer:
    return time_buffer(policy, late="side")


def windows(policy: SlackPolicy) -> WindowDriver:
    return WindowDriver(policy, EVERY)


def early_windows(policy: SlackPolicy) -> WindowDriver:
    return EarlyWindows(policy, EVERY, 2 * EVERY, tick_ns=MS, closed="left")


DRIVERS: list[Make] = [reorder, windows, early_windows]


def saved(driver: Driver) -> dict[str, Any]:
    if isinstance(driver, TimeBuffer):
        return driver.snapshot()
    return {"driver": driver.dump(), "policy": driver.policy.dump()}


def rendered(answer: Any) -> list[Any]:
    """Return the answer of a driver in comparable form and in order."""
    if isinstance(answer, list):
        return [
            one if isinstance(one, Closing) else (one.first, one.last, one.at_ns, one.event.offset)
            for one in answer
        ]
    gone: list[Any] = [("out", one.at_ns, one.offset) for one in answer.released]
    return gone + [("late", one.at_ns, one.event.offset) for one in answer.reports]


def run(driver: Driver, events: list[Event], rng: Random | None = None) -> list[Any]:
    """Return all answers up to the end; with `rng` the events are cut at random."""
    said: list[Any] = []
    for batch in cut(copies(events), rng, SIZES) if rng else [copies(events)]:
        if batch:
            said += rendered(driver.on_batch(batch, batch[-1].at_ns))
    return said + rendered(driver.on_end(events[-1].at_ns))


def settled(said: list[Any], driver: Make) -> list[Any]:
    """Return the answers in a fixed order, since answers at one instant have no order."""
    return sorted(said, key=lambda one: (one[1], one[0])) if driver is reorder else said


# -- 1 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
def test_frontier_never_falls(strategy: Strategy) -> None:
    """Asking twice gives the same answer."""
    for _, events in streams():
        policy = strategy.make(1)
        frontier = Frontier(policy)
        before = frontier.at(events[0].at_ns - 1)
        for event in events[:300]:
            policy.observe(event, event.at_ns)
            for now_ns in (event.at_ns, event.at_ns + MS // 2):
                if now_ns >= events[event.offset + 1].at_ns:
                    continue  # The instant is not over.
                frontier_ns = frontier.at(now_ns)
                assert frontier_ns >= before
                assert frontier.at(now_ns) == frontier_ns
                before = frontier_ns


# -- 2, 3 ------------------------------------------------------------------------------------------


@every_strategy
def test_events_are_ordered_late_or_repeated(strategy: Strategy) -> None:
    """An event is emitted once in order, is late if a later event has left, or is a duplicate."""
    for seed, events in streams():
        operator = reorder(strategy.make(1))
        rng = Random(seed)
        events = copies(events)
        events += [one for one in copies(events) if rng.random() < 0.05]
        for offset, event in enumerate(sorted(events, key=lambda one: one.arrival_ns)):
            event.offset = offset
        events.sort(key=lambda one: one.offset)
        last = (-AFTER_ALL, "", 0, 0)
        gone: list[int] = []
        held: set[tuple[int, str, int, int]] = set()
        for event in events:
            step = operator.on_batch([event], event.at_ns)
            for out in step.released:
                assert key_of(out) > last
                last = key_of(out)
                gone.append(out.offset)
                held.discard(last)
            is_copy = key_of(event) == last or key_of(event) in held
            kinds = [type(one) for one in step.reports]
            assert kinds == ([Duplicate] if is_copy else [Late] if key_of(event) < last else [])
            if kinds:
                gone.append(event.offset)
            else:
                held.add(key_of(event))
        rest = [key_of(out) for out in operator.on_end(events[-1].at_ns).released]
        assert [last, *rest] == sorted({last, *rest})
        assert set(rest) == held
        gone += [
            event.offset for event in events if key_of(event) in held and event.offset not in gone
        ]
        assert sorted(gone) == list(range(len(events)))
        assert not list(operator.iter_held())


def key_of(event: Event) -> tuple[int, str, int, int]:
    return event.ref_time_ns, event.source, event.epoch, event.seq


# -- 4, 8, 14 --------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("driver", DRIVERS)
def test_cuts_and_ticks_change_nothing(strategy: Strategy, driver: Make) -> None:
    """After the end, the driver waits for nothing."""
    for seed, events in streams():
        whole = settled(run(driver(strategy.make(1)), events), driver)
        parted = settled(run(driver(strategy.make(1)), events, Random(seed)), driver)
        assert parted == whole
        policy, rng = strategy.make(1), Random(seed)
        ticking = driver(policy)
        said: list[Any] = []
        fresh = copies(events)
        for at, event in enumerate(fresh):
            said += rendered(ticking.on_batch([event], event.at_ns))
            until_ns = fresh[at + 1].at_ns if at + 1 < len(fresh) else event.at_ns + 1
            if until_ns > event.at_ns:  # The instant is over.
                for now_ns in sorted(rng.randrange(event.at_ns, until_ns) for _ in range(2)):
                    said += rendered(ticking.on_time(now_ns))
        said += rendered(ticking.on_end(fresh[-1].at_ns))
        assert settled(said, driver) == whole
        assert policy.confirmed_ns(fresh[-1].at_ns) == AFTER_ALL
        assert ticking.next_deadline_ns() is None
        assert not rendered(ticking.on_time(fresh[-1].at_ns + 10_000 * MS))


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("driver", DRIVERS)
def test_deadlines_are_sufficient(strategy: Strategy, driver: Make) -> None:
    """A driver that is called only at its deadlines answers like one called at every tick."""
    for seed, events in streams():
        due, ticking = driver(strategy.make(1)), driver(strategy.make(1))
        mine, yours = copies(events[:200]), copies(events[:200])
        rng = Random(seed)
        by_deadline: list[Any] = []
        by_tick: list[Any] = []
        for at, (one, other) in enumerate(zip(mine, yours, strict=True)):
            by_deadline += rendered(due.on_batch([one], one.at_ns))
            by_tick += rendered(ticking.on_batch([other], other.at_ns))
            end_ns = one.at_ns + 50 * MS if at + 1 == len(mine) else mine[at + 1].at_ns
            while (deadline_ns := due.next_deadline_ns()) is not None and deadline_ns < end_ns:
                assert deadline_ns >= one.at_ns
                by_deadline += rendered(due.on_time(deadline_ns))
                following_ns = due.next_deadline_ns()
                assert following_ns is None or following_ns > deadline_ns
            step_ns = rng.choice((MS // 2, MS))
            for now_ns in [*range(one.at_ns, end_ns - 1, step_ns), end_ns - 1]:
                if now_ns >= one.at_ns:
                    by_tick += rendered(ticking.on_time(now_ns))
        assert settled(by_deadline, driver) == settled(by_tick, driver)


# -- 5 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("driver", DRIVERS)
def test_restart_changes_nothing(strategy: Strategy, driver: Make) -> None:
    for seed, events in streams():
        rng = Random(seed)
        whole = run(driver(strategy.make(1)), events)
        shaken = driver(strategy.make(1))
        said: list[Any] = []
        for batch in cut(copies(events), rng, SIZES):
            if batch:
                said += rendered(shaken.on_batch(batch, batch[-1].at_ns))
            if rng.random() < 0.2:
                again = driver(strategy.make(1))
                state = through_changelog(saved(shaken))
                if driver is reorder:
                    again.restore(state, sorted(shaken.iter_held(), key=lambda one: one.offset))
                else:
                    again.load(state["driver"])
                    again.policy.load(state["policy"])
                assert through_changelog(saved(again)) == state
                shaken = again
        said += rendered(shaken.on_end(events[-1].at_ns))
        assert settled(said, driver) == settled(whole, driver)


# -- 6 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
def test_results_shift_and_scale_with_time(strategy: Strategy) -> None:
    slack_ns = 3 if strategy.inexact else 0
    for _, events in streams():
        whole = run(windows(strategy.make(1)), events)
        shift_ns = 1_000 * EVERY
        shifted = run(windows(strategy.make(1)), moved(events, shift_ns, 1))
        assert shifted == [later(one, shift_ns) for one in whole]
        scaled = run(WindowDriver(strategy.make(2), 2 * EVERY), moved(events, 0, 2))
        assert len(scaled) == len(whole)
        for one, other in zip(whole, scaled, strict=True):
            assert one[:2] == other[:2]
            at, other_at = (
                (one.at_ns, other.at_ns) if isinstance(one, Closing) else (one[2], other[2])
            )
            assert abs(2 * at - other_at) <= slack_ns


def later(said: Any, shift_ns: int) -> Any:
    windows_on = shift_ns // EVERY
    if not isinstance(said, Closing):
        first, last, at_ns, offset = said
        return first + windows_on, last + windows_on, at_ns + shift_ns, offset
    return said._replace(
        number=said.number + windows_on,
        through=said.through + windows_on,
        bound_ns=said.bound_ns + shift_ns,
        at_ns=said.at_ns + shift_ns,
    )


# -- 7 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one.certain], ids=repr)
def test_steady_event_is_never_late(strategy: Strategy) -> None:
    for seed in SEEDS:
        events = steady(seed)
        for driver in DRIVERS:
            said = run(driver(strategy.make(1)), events)
            assert not [one for one in said if not isinstance(one, Closing) and one[0] != "out"]


def test_k_of_largest_lateness_is_enough() -> None:
    """K must be 1 ns larger, for events at exactly the time of an emitted event."""
    for seed in SEEDS:
        events = disordered(seed)
        newest_ns = most_ns = 0
        for event in events:
            most_ns = max(most_ns, newest_ns - event.ts_ns)
            newest_ns = max(newest_ns, event.ts_ns)
        assert not [one for one in run(reorder(KSlack(most_ns + 1)), events) if one[0] == "late"]
        assert [one for one in run(reorder(KSlack(most_ns // 2)), events) if one[0] == "late"]


# -- 9 ---------------------------------------------------------------------------------------------

PAIRS: list[tuple[Callable[[Any], SlackPolicy], float, float]] = [
    (lambda k: KSlack(k * MS), 5, 9),
    (lambda factor_ppm: LDOP(500 * MS, factor_ppm), 500_000, 2_000_000),
    (lambda delta: ProbSlack(delta, period=200, guard=False), 0.4, 0.1),
    (lambda delta: RiskSlack(Unguarded(delta, rate=0), period=400), 0.4, 0.1),
    (lambda delta_ppm: OwnTail(delta_ppm, max_wait_ns=200 * MS), 400_000, 100_000),
]


@pytest.mark.parametrize(
    ("make", "quick", "patient"), PAIRS, ids=["fixed", "ldop", "probslack", "risk", "tail"]
)
def test_more_waiting_passes_later(
    make: Callable[[Any], SlackPolicy], quick: float, patient: float
) -> None:
    """There is no feedback here, so both strategies know the same."""
    for _, events in streams():
        one, other = make(quick), make(patient)
        for event in events:
            one.observe(event, event.at_ns)
            other.observe(event, event.at_ns)
            for bound_ns in range(event.ts_ns - 20 * MS, event.ts_ns + 30 * MS, 5 * MS):
                if other.passes(bound_ns, event.at_ns):
                    assert one.passes(bound_ns, event.at_ns), event


def test_larger_k_has_fewer_late_events() -> None:
    """A larger K also waits at least as long."""
    for _, events in streams():
        late: list[set[int]] = []
        waits: list[dict[int, int]] = []
        for k in (0, 3, 9, 40):
            said = run(reorder(KSlack(k * MS)), events)
            late.append({offset for what, _, offset in said if what == "late"})
            waits.append({offset: at_ns for what, at_ns, offset in said if what == "out"})
        for before, after in pairwise(late):
            assert after <= before
        for sooner, later_ in pairwise(waits):
            assert all(later_[offset] >= at_ns for offset, at_ns in sooner.items())


# -- 10 --------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
def test_duplicates_and_payload_are_ignored(strategy: Strategy) -> None:
    for seed, events in streams():
        once = reorder(strategy.make(1))
        whole = [one for one in run(once, events) if one[0] == "out"]
        rng = Random(seed)
        twice, out = reorder(strategy.make(1)), []
        for event in copies(events):
            event.value = rng.choice((None, b"x", b"other"))
            step = twice.on_batch([event], event.at_ns)
            out += step.released
            if event in step.kept and event not in step.freed:
                (copy,) = copies([event])
                copy.offset += len(events)
                again = twice.on_batch([copy], event.at_ns)
                assert isinstance(again.reports[0], Duplicate)
        out += twice.on_end(events[-1].at_ns).released
        assert [("out", one.at_ns, one.offset) for one in out] == whole


# -- 11 --------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
def test_memory_is_bounded(strategy: Strategy) -> None:
    for _, events in streams():
        policy = strategy.make(1)
        operator = reorder(policy)
        driver = WindowDriver(strategy.make(1), EVERY, max_pending=50)
        for event in copies(events):
            operator.on_batch([event], event.at_ns)
            operator.on_time(event.at_ns)
            assert not [
                one for one in operator.iter_held() if policy.passes(one.ts_ns, event.at_ns)
            ]
        for event in copies(events):
            driver.on_batch([event], event.at_ns)
            assert len(driver._pending) <= 50
        if isinstance(policy, RiskSlack):
            sample = policy._all.fitting.sample()
            octaves = max(sample.apart).bit_length() + max(sample.delays).bit_length()
            assert len(sample.apart) + len(sample.delays) <= 4 * EXACT + 32 * octaves


# -- 12 --------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_strategy
def test_nothing_is_buffered_beyond_cap(strategy: Strategy) -> None:
    cap_ns = 400 * MS
    for _, events in streams():
        operator = time_buffer(strategy.make(1), max_wait_ns=cap_ns)
        driver = WindowDriver(strategy.make(1), EVERY, cap_ns=cap_ns)
        now_ns = events[-1].at_ns
        operator.on_batch(copies(events), now_ns)
        said = driver.on_batch(copies(events), now_ns)
        for event in operator.on_time(now_ns + cap_ns).released:
            assert event.late or event.at_ns <= event.arrival_ns + cap_ns
        assert not list(operator.iter_held())
        said += driver.on_time(now_ns + cap_ns + EVERY)
        closed = [one for one in said if isinstance(one, Closing)]
        assert closed[-1].bound_ns >= max(event.ts_ns for event in events)
        assert all(one.at_ns <= one.bound_ns + cap_ns for one in closed if one.by != CONFIRMED)


# -- 13 --------------------------------------------------------------------------------------------

PROMISING = [one for one in STRATEGIES if one.promise is not None]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", PROMISING, ids=repr)
@pytest.mark.parametrize("early", [False, True])
def test_target_holds_at_any_prefix(strategy: Strategy, early: bool) -> None:
    """Sources are all known and keep order, but their delays and rates change."""
    assert strategy.promise is not None
    all_windows = 0
    for seed in range(8 * len(SEEDS)):
        events = in_order(seed)
        known: set[str] = set()
        first_common_ns = 0
        for event in events:
            if event.source not in known:
                known.add(event.source)
                first_common_ns = event.at_ns
        policy = strategy.make(1)
        for event in events:
            if event.at_ns <= first_common_ns:
                policy.observe(event, event.at_ns)
        rest = [event for event in events if event.at_ns > first_common_ns]
        first = -(-max(event.ts_ns for event in events if event.at_ns <= first_common_ns) // EVERY)
        driver = EarlyWindows(policy, EVERY, early=early, tick_ns=MS, first=first + 1)
        said = driver.on_batch(copies(rest), rest[-1].at_ns)
        missed = {one.first for one in said if isinstance(one, Missed) and one.first > first}
        misses = windows_so_far = 0
        for one in said:
            if isinstance(one, Closing) and one.by in PROMISED:
                for number in range(one.number, one.through + 1):
                    windows_so_far += 1
                    misses += number in missed
                    assert misses <= strategy.promise * windows_so_far, (seed, number)
        all_windows += windows_so_far
    assert all_windows > 400


def test_target_is_used_up() -> None:
    """A strategy that waits for certainty would also keep the law above."""
    used = 0
    for seed in range(10):
        driver = windows(RiskSlack(AccuracyBudget(0.1), period=400))
        events = in_order(seed)
        said = driver.on_batch(copies(events), events[-1].at_ns)
        used += sum(isinstance(one, Missed) for one in said)
    assert used > 20
