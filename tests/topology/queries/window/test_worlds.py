"""Laws: whatever the clocks did, the truth lies within the emitted bounds.

In a world, each source's clock is behind by one number, apart from its drift. Its estimate changes
from event to event, and is right within the event's error. Windows see corrected timestamps; the
truth is made of event times.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from tests.kit.events import copies
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import (
    OUTPUTS,
    TOLERANCES,
    last_word,
    members_of,
    oracle,
    values_of,
)
from tests.topology.queries.window.streams import (
    MS,
    START,
    disordered,
    event,
    payload_of,
    place,
    seeded,
    sorted_events,
)
from tests.topology.queries.window.test_oracle import KINDS, config_of, run
from topology.answer.query.numbers import WHOLE_WEIGHT
from topology.base.event import Event
from topology.base.result import CONFIRMED, WindowResult
from topology.queries.window.aggregates.built_in import RANKED
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.event import make_unsure

SEEDS = seeds_of_today(3)
SKEW_PPM: Final = 100
BY_ROW: Final = ("first", "last", *RANKED)
MIRROR: Final = tuple(each.name for each in OUTPUTS if each.function not in BY_ROW)
"""Outputs that do not depend on the order of two events of one time."""
OF_NOTHING: Final = tuple(
    each.name for each in OUTPUTS if each.function not in ("count", "distinct")
)
"""Outputs that have no value without an event."""


def world(rng: Random, n: int) -> tuple[list[Event], list[Event]]:
    """Return the events by corrected timestamp, and the same by event time, each in order."""
    stamped: list[Event] = []
    for index in range(3):
        error_ns = rng.choice((0, 1, MS // 2, 4 * MS, 30 * MS))
        behind_ns = rng.randint(-error_ns, error_ns)
        skew_ppm = rng.uniform(-SKEW_PPM, SKEW_PPM) if error_ns > MS else 0
        true_ns = START + rng.randrange(20 * MS)
        for seq in range(n // 3):
            true_ns += rng.choice((1, MS, 5 * MS, 9 * MS, 30 * MS)) * rng.choice((1, 1, 2))
            true_ns += -true_ns % MS if rng.random() < 0.2 else 0
            drift_ns = round((true_ns - START) * skew_ppm / 1e6)
            one = event(f"s{index}", seq, 0, payload_of(rng))
            one.ts_ns = true_ns - behind_ns - drift_ns
            bears_ns = error_ns * rng.choice((1, 1, 2)) + abs(drift_ns)
            thought_ns = behind_ns + drift_ns + rng.randint(-bears_ns, bears_ns)
            one.ref_time_ns = one.ts_ns + thought_ns
            one.error_ns = bears_ns
            one.record = true_ns
            stamped.append(one)
    keep_monotone(stamped)
    true = copies(stamped)
    for one in true:
        one.ref_time_ns = one.record
    return sorted(stamped, key=place), sorted(true, key=place)


def keep_monotone(stamped: Sequence[Event]) -> None:
    """Keep corrected timestamps from falling, as CLOCK does."""
    last: dict[str, int] = {}
    for one in stamped:
        below_ns = max(0, last.get(one.source, 0) - one.ref_time_ns)
        one.ref_time_ns += below_ns
        one.error_ns += below_ns
        last[one.source] = one.ref_time_ns


def within(result: WindowResult, values: dict[str, Any], where: str) -> None:
    for name, value in values.items():
        low, high = result.low[name], result.high[name]
        slack = 1e-12 * abs(value) if isinstance(value, float) else 0
        if name in TOLERANCES and value is not None:
            slack = TOLERANCES[name](value)
        if name in MIRROR and value is not None:
            assert low is None or low - slack <= value, (where, name, low, value)
            assert high is None or value <= high + slack, (where, name, value, high)
        elif name in BY_ROW and low is not None:
            assert low == value or low <= value <= high, (where, name)
    if result.confidence == CONFIRMED:
        unknown = dict.fromkeys(TOLERANCES)
        assert {**result.values, **unknown} == {**values, **unknown}, where


class Told(NamedTuple):
    """A world with the last results of its windows."""

    stamped: list[Event]
    true: list[Event]
    config: WindowQuery
    results: list[WindowResult]


def told_of(kind: str, seed: int, n: int = 60, *, keyed: bool = False, **settings: Any) -> Told:
    rng = Random(seed)
    stamped, true = world(rng, n)
    config = config_of(kind, keyed=keyed, **settings)
    results = last_word(run(config, disordered(rng, copies(stamped))))
    return Told(stamped, true, config, results)


@pytest.mark.slow
@pytest.mark.parametrize("uncertainty", ["plain", "expected", "bounds", "thesis3"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("session", "count")])
def test_truth_is_within_the_bounds(kind: str, uncertainty: str) -> None:
    narrowed = 0
    for seed in SEEDS:
        told = told_of(kind, seed, keyed=seed % 2 == 0, uncertainty=uncertainty)
        results = {
            (repr(w.key) if told.config.key else "-", w.start_ns, w.end_ns): w for w in told.results
        }
        expected = oracle(told.true, told.config)
        for window, values in expected.items():
            within(results[window], values, f"{window}, seed {seed}")
        for window in results.keys() - expected.keys():
            assert results[window].low["n"] == 0
        narrowed += sum(w.low["n"] == w.high["n"] for w in results.values())
    assert narrowed


def test_true_session_is_within_the_bounds() -> None:
    """Each emitted session is compared with the true session that contains its first event."""
    sure = 0
    for seed in SEEDS:
        stamped, true, config, results = told_of("session", seed, keyed=True)
        true_of = {(one.source, one.seq): one for one in true}
        told, sessions = members_of(stamped, config), members_of(true, config)
        for result in results:
            key = repr(result.key)
            first = told[key, result.start_ns, result.end_ns][0]
            head = true_of[first.source, first.seq]
            own = [each for window, each in sessions.items() if window[0] == key]
            (members,) = (each for each in own if head in each)
            within(result, values_of(members), f"{result.id}, seed {seed}")
            sure += result.confidence == CONFIRMED
    assert sure


def test_confirmed_count_windows_are_true() -> None:
    sure = 0
    for seed in range(6):
        _, true, config, results = told_of("count", seed, 90)
        results.sort(key=lambda result: result.start_ns)
        windows = list(members_of(true, config).values())
        assert len(results) == len(windows)
        for at, result in enumerate(results):
            if result.confidence == CONFIRMED:
                within(result, values_of(windows[at]), f"{at}, seed {seed}")
                sure += 1
    assert sure


def test_wider_error_never_narrows_bounds() -> None:
    """Each source has one error, so that its events agree about the clock.

    If errors differed, a wider event could be near an edge for the first time, and narrow the
    clock.
    """
    for seed, rng in seeded(SEEDS):
        stamped = sorted_events(rng, 60)
        wide = copies(stamped)
        for narrow, wider in zip(stamped, wide, strict=True):
            narrow.error_ns = int(narrow.source[1:]) * 3 * MS
            wider.error_ns = narrow.error_ns + 2 * MS
        config = config_of("tumbling", keyed=False)
        before = {w.start_ns: w for w in last_word(run(config, disordered(rng, stamped)))}
        after = {w.start_ns: w for w in last_word(run(config, disordered(rng, wide)))}
        for start_ns, result in before.items():
            for name in MIRROR:
                if result.low[name] is not None:
                    assert after[start_ns].low[name] <= result.low[name], (seed, name)
                    assert after[start_ns].high[name] >= result.high[name], (seed, name)


def test_counts_are_whole_numbers() -> None:
    """Counts are those by corrected timestamp, or the nearest within the bounds.

    Expectations may be fractions.
    """
    moved = 0
    for seed in SEEDS:
        stamped, _, config, results = told_of("tumbling", seed)
        plain = oracle(stamped, config)
        for result in results:
            n, low, high = result.values["n"], result.low["n"], result.high["n"]
            window = ("-", result.start_ns, result.end_ns)
            assert isinstance(n, int)
            assert n == min(max(plain.get(window, {"n": 0})["n"], low), high), seed
            assert low <= result.expected["n"] <= high, seed
            moved += result.expected["n"] != n
    assert moved


@pytest.mark.slow
@pytest.mark.parametrize("uncertainty", ["plain", "expected", "bounds", "thesis3", "ignore"])
@pytest.mark.parametrize("kind", KINDS)
def test_unknown_value_has_no_bounds(kind: str, uncertainty: str) -> None:
    """In a window without an event, or without a value for it, an aggregate has no value.

    An aggregate without value and bounds has no expectation either.
    """
    empty = unknown = 0
    is_in_time = kind not in ("session", "count")
    may_be_empty = is_in_time and uncertainty in ("plain", "bounds")
    for seed, rng in seeded(SEEDS):
        stamped, _ = world(rng, 60)
        for one in stamped:
            if rng.random() < 0.5:
                one.value = {"key": rng.choice("ab")}
        mode = uncertainty if is_in_time else "plain"
        config = config_of(kind, keyed=seed % 2 == 0, uncertainty=mode)
        for result in last_word(run(config, disordered(rng, copies(stamped)))):
            if may_be_empty and result.values["n"] == 0:
                empty += 1
                assert result.high["n"] > 0, seed
                for each in (result.values, result.low, result.high, result.expected):
                    assert {each[name] for name in OF_NOTHING} == {None}, seed
            for name in OF_NOTHING:
                if result.values[name] is result.low[name] is result.high[name] is None:
                    assert result.expected[name] is None, (seed, name)
                    unknown += 1
    assert unknown
    assert empty or not may_be_empty


def test_weights_of_windows_add_up_to_one() -> None:
    for seed in SEEDS:
        stamped, _ = world(Random(seed), 30)
        size_ns = KINDS["tumbling"]["size_ns"]
        for one in stamped:
            edge = make_unsure(one, ())
            first_ns = (one.ref_time_ns - one.error_ns) // size_ns * size_ns
            starts = range(first_ns, one.ref_time_ns + one.error_ns + 1, size_ns)
            weights = [edge.weight((start_ns, start_ns + size_ns)) for start_ns in starts]
            assert sum(weights) == WHOLE_WEIGHT
