"""Laws: which results are final, when they are emitted, and that each update changes something."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.runs import cut, results_of, results_to_end
from tests.laws.streams import in_log_order
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import last_word
from tests.topology.queries.window.streams import (
    MS,
    disordered,
    event,
    seeded,
    sorted_events,
    watermark,
)
from tests.topology.queries.window.test_examples import COUNT, v, windows
from tests.topology.queries.window.test_oracle import config_of, every_kind
from topology.base.event import DATA, Event
from topology.base.result import RETRACT
from topology.config import MergeConfig
from topology.order.merge.operator import Merge
from topology.queries.window.operator import Windows

SEEDS = seeds_of_today(12)


def waking(rng: Random) -> list[Event]:
    """Return events of three sources with different errors; at times one is silent."""
    events = []
    for source, error_ms in (("a", 0), ("b", 6), ("c", 25)):
        at_ms = 0
        held_until_ns = 0
        for seq in range(40):
            at_ms += rng.choice((1, 2, 5, 9))
            one = event(source, seq, at_ms, {"v": 1}, error_ms=error_ms)
            if rng.random() < 0.1:
                held_until_ns = one.ref_time_ns + rng.randrange(40, 120) * MS
            arrival_ns = max(held_until_ns, one.ref_time_ns + rng.randrange(4) * MS)
            one.arrival_ns = one.at_ns = arrival_ns
            events.append(one)
    return in_log_order(events)


def test_no_event_can_lie_in_final_window() -> None:
    """All sources are known; an idle source has an error that no window waits for."""
    finals = 0
    waits: dict[str, Any] = {
        "max_wait_ns": 10 * MS,
        "idle_after_ns": 30 * MS,
        "heartbeat_ns": 5 * MS,
    }
    for seed in SEEDS:
        merge = Merge("default", MergeConfig(expected_sources=("a", "b", "c"), **waits))
        operator = windows("tumbling", ms=10, outputs=COUNT, finals=True)
        final: set[int] = set()
        for one in waking(Random(seed)):
            for out in merge.on_batch([one], one.at_ns).released:
                if out.kind == DATA:
                    for start_ns in final:
                        after = out.ref_time_ns - out.error_ns >= start_ns + 10 * MS
                        assert after or out.ref_time_ns + out.error_ns < start_ns
                results: list[Any] = list(operator.on_batch([out], out.at_ns).results)
                final |= {result.start_ns for result in results if result.final}
        finals += len(final)
    assert finals > 20


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_late_event_after_final_is_expired(kind: str) -> None:
    operator = windows(kind, ms=10)
    results = results_of(operator, v("a", 0, 5, 1), watermark(30, 20, 20), watermark(31, 21, 21))
    assert [result.final for result in results] == [True]
    assert not results_of(operator, v("b", 0, 14, 1, at_ms=32, late="gap"), watermark(60, 60, 60))
    assert operator.figures()["expired"] == 1


def test_sessions_hold_each_event_once() -> None:
    """An event that is in no session is expired, and sessions do not overlap."""
    expired = 0
    for seed, rng in seeded(SEEDS):
        config = config_of("session", keyed=False, changes_for_ns=30 * MS)
        events = sorted_events(rng, 80)
        stream = disordered(rng, copies(events), late=0.3)
        operator = Windows("default", config)
        results = results_to_end(operator, ([one] for one in stream))
        sessions = sorted((each.start_ns, each.end_ns) for each in last_word(results))
        for before, after in pairwise(sessions):
            assert before[1] < after[0], f"seed {seed}"
        counted = sum(each.values["n"] for each in last_word(results))
        assert counted + operator.figures()["expired"] == len(events), f"seed {seed}"
        expired += operator.figures()["expired"]
    assert expired


@pytest.mark.slow
@every_kind
def test_cuts_change_nothing_at_the_bounds(kind: str) -> None:
    """Final results are then emitted in the middle of an instant."""
    given_up = 0
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, keyed=True, finals=True, max_windows=4, max_recount=3)
        stream = disordered(rng, sorted_events(rng, 60), late=0.2)
        for one in stream:
            one.at_ns = one.arrival_ns = one.at_ns // (7 * MS) * 7 * MS
        found = []
        for sizes in ((1,), (1, 2, 9), (len(stream),)):
            operator = Windows("default", config)
            results = results_to_end(operator, cut(copies(stream), rng, sizes))
            found.append([repr(result) for result in results])
            given_up += operator.figures()["given_up"] + operator.figures()["expired"]
        assert found[0] == found[1] == found[2], f"seed {seed}"
    assert given_up


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("errors", [(0,), (0, 2, 20)])
def test_every_update_changes_something(kind: str, errors: tuple[int, ...]) -> None:
    updates = 0
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, keyed=False, finals=seed % 2 == 0, early_ns=5 * MS)
        config = config.model_copy(update={"aggregate": {"min": (config.aggregate or {})["min"]}})
        events = sorted_events(rng, 60)
        for one in events:
            one.error_ns = rng.choice(errors) * MS
        operator = Windows("default", config)
        stream = disordered(rng, events, late=0.4)
        results = results_to_end(operator, ([one] for one in stream))
        last: dict[str, Any] = {}
        for result in results:
            values = repr((result.values, result.low, result.high))
            span = result.start_ns, result.end_ns
            said = (values, span, result.final, result.confidence, result.op == RETRACT)
            assert last.get(result.id) != said, f"seed {seed}"
            last[result.id] = said
            updates += result.revision > 0
    assert updates or kind == "count"
