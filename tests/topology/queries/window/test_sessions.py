"""Sessions of events with uncertain clocks: examples, and an oracle over worlds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import quality_of
from tests.kit.runs import results_of
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import (
    agree,
    last_word,
    members_of,
    oracle,
    rendered,
    values_of,
)
from tests.topology.queries.window.streams import MS, disordered, event, place, seeded
from tests.topology.queries.window.test_examples import COUNT, brief, end, on_time, windows
from tests.topology.queries.window.test_oracle import LASTING, Instant, config_of, instants, run
from tests.topology.queries.window.test_worlds import within
from topology.base.event import Event
from topology.base.result import CONFIRMED, RETRACT
from topology.queries.window.sessions import Sessions
from topology.queries.window.settings import WindowQuery

SEEDS = seeds_of_today(12)
WORLDS = 4


def unsure(rng: Random, n: int) -> list[Event]:
    """Return events about as far apart as the gap of a session, with errors of that size.

    They are in order of corrected timestamps, and most results depend on the clocks.
    """
    ref_ms = 0
    events: list[Event] = []
    for seq in range(n):
        ref_ms += rng.choice((0, 1, 5, 9, 10, 12, 13, 20, 40))
        error_ms = rng.choice((0, 0, 0, 1, 4, 9, 30))
        payload = {"key": rng.choice("ab"), "v": rng.randrange(-3, 9)}
        events.append(event(f"s{rng.randrange(3)}", seq, ref_ms, payload, error_ms=error_ms))
    return sorted(events, key=place)


def world(rng: Random, events: Sequence[Event]) -> list[Event]:
    """Return the same events at other times that their errors and each source's order allow."""
    true = copies(events)
    latest_ns: dict[str, int] = {}
    for one in reversed(true):
        upper_ns = one.ref_time_ns + one.error_ns
        one.record = latest_ns[one.source] = min(upper_ns, latest_ns.get(one.source, upper_ns))
    last_ns: dict[str, int] = {}
    for one in true:
        least_ns = max(one.ref_time_ns - one.error_ns, last_ns.get(one.source, 0))
        extremes = (least_ns, one.record)
        one.ref_time_ns = last_ns[one.source] = rng.choice((*extremes, rng.randint(*extremes)))
    return true


def test_event_joined_by_growth_counts_once() -> None:
    operator = windows("session", ms=200, outputs=COUNT)
    results_of(operator, event("a", 0, 900), event("w", 0, 1000, error_ms=150), event("a", 1, 1100))
    (result,) = end(operator, 2000)
    assert (result.values, result.low, result.high) == ({"n": 3}, {"n": 3}, {"n": 3})
    assert (result.final, result.confidence) == (True, CONFIRMED)


def test_event_is_in_one_session() -> None:
    """Sessions are formed by corrected timestamp."""
    for seed, rng in seeded(SEEDS):
        config = config_of("session", keyed=seed % 2 == 0)
        events = unsure(rng, 60)
        stream = disordered(rng, copies(events), late=rng.choice((0.0, 0.2, 0.6)))
        results = run(config, stream, rng)
        agree(rendered(results, config), oracle(events, config))
        assert sum(result.values["n"] for result in last_word(results)) == len(events)


def test_true_session_is_within_the_bounds() -> None:
    """Each emitted session is compared with the true session that contains its first event."""
    sure = unsure_ones = 0
    config = config_of("session", keyed=False)
    for seed, rng in seeded(SEEDS):
        events = unsure(rng, 40)
        results = last_word(run(config, disordered(rng, copies(events))))
        heads = {one.ref_time_ns: (one.source, one.seq) for one in reversed(events)}
        for _ in range(WORLDS):
            sessions = list(members_of(world(rng, events), config).values())
            assert sum(len(members) for members in sessions) == len(events)
            for result in results:
                head = heads[result.start_ns]
                (members,) = (
                    each for each in sessions if head in [(one.source, one.seq) for one in each]
                )
                within(result, values_of(members), f"{result.start_ns}, seed {seed}")
        sure += sum(result.confidence == CONFIRMED for result in results)
        unsure_ones += sum(result.low["n"] != result.high["n"] for result in results)
    assert sure
    assert unsure_ones


UNSURE: dict[str, dict[str, Any]] = {
    "plain": {},
    "expected": {"uncertainty": "expected"},
    "ignore": {"uncertainty": "ignore"},
    "few parts": {"max_edge_events": 2},
    "quality": {"quality": quality_of(900_000, 40 * MS, idle_ns=90 * MS)},
    "unmerged": {"quality": quality_of(700_000, 40 * MS, idle_ns=90 * MS)},
}


def unsure_instants(how: str, seed: int, **settings: Any) -> tuple[WindowQuery, Iterator[Instant]]:
    rng = Random(seed)
    config = config_of("session", keyed=seed % 2 == 0, **LASTING, **UNSURE[how], **settings)
    stream = disordered(rng, unsure(rng, 40), late=rng.choice((0.1, 0.4)))
    return config, instants(config, stream, rng, ordered=how != "unmerged")


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("how", UNSURE)
def test_only_closed_sessions_are_current(how: str) -> None:
    """Sessions are formed by corrected timestamp.

    A session that a late event opens again is retracted, even over restarts.
    """
    retracted = 0
    for seed in seeds_of_today(30):
        config, run = unsure_instants(how, seed)
        results: list[Any] = []
        for found, known, goal_ns in run:
            results += found
            closed = {window for window in known if window[2] < goal_ns}
            assert {*rendered(results, config)} == closed, seed
        retracted += sum(each.op == RETRACT and not each.final for each in results)
    assert retracted


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("how", UNSURE)
def test_only_reopened_session_is_retracted(how: str) -> None:
    """Only closed sessions that are open again are retracted, and not as final.

    A restart changes nothing.
    """
    reopened = 0
    for seed in seeds_of_today(30):
        config, run = unsure_instants(how, seed, early_ns=(5, 20)[seed // 2 % 2] * MS)
        closed, results = set[Any](), list[Any]()
        for found, known, goal_ns in run:
            results += found
            before = {window[:2] for window in closed}
            closed = {window for window in known if window[2] < goal_ns}
            again = before & {window[:2] for window in known if window not in closed}
            retracted = {
                ("-" if config.key is None else repr(each.key), each.start_ns)
                for each in found
                if each.op == RETRACT and not each.final
            }
            assert retracted == again, seed
            assert closed <= rendered(results, config).keys(), seed
            reopened += len(again)
    assert reopened


def test_reopened_session_is_retracted() -> None:
    """A session is early, closed, open again at 20 ms, early once more at 60 ms, and closed."""
    arrivals = (
        event("a", 0, 0),
        event("a", 1, 12),
        event("a", 3, 19),
        event("b", 0, 9, at_ms=20, late="gap"),
        event("a", 4, 27, at_ms=31),
        event("a", 5, 49, at_ms=55),
    )
    operator = windows("session", ms=10, outputs=COUNT, early_ns=30 * MS)
    assert brief(results_of(operator, *arrivals) + on_time(operator, 60)) == [
        ("emit", 0, 0, 10, 1),
        ("update", 1, 0, 10, 1),
        ("retract", 2, 0, 10),
        ("emit", 3, 0, 37, 5),
        ("update", 4, 0, 37, 5),
    ]


@pytest.mark.parametrize("keys", [100, 2_000])
def test_open_sessions_need_no_settling(keys: int) -> None:
    """Work at the end of an instant does not grow with the open sessions that grew in it."""
    operator = windows("session", ms=1_000, key=("k",), outputs=COUNT)
    sessions = operator._windows
    assert isinstance(sessions, Sessions)
    for seq, ref_ms in enumerate((0, 10, 20)):
        batch = [event(f"s{k}", seq, ref_ms, {"k": f"k{k}"}) for k in range(keys)]
        assert operator.on_batch(batch, batch[-1].at_ns).results == []
        assert len(sessions._touched) == (keys if seq == 0 else 0)
    assert brief(end(operator, 2_000)) == [("emit", 0, 0, 1_020, 3, "!")] * keys
