"""Oracle: after all corrections, results match those of the sorted full input."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.kit.events import copies
from tests.kit.queries import window_query
from tests.kit.runs import cut, results_to_end, through_changelog
from tests.laws.streams_between import merged
from tests.seeds import seeds_of_today
from tests.topology.queries.window.oracle import OUTPUTS, Found, agree, last_word, oracle, rendered
from tests.topology.queries.window.streams import MS, disordered, seeded, sorted_events
from topology.base.event import Event
from topology.base.result import WindowResult
from topology.queries.window.operator import Windows
from topology.queries.window.settings import WindowQuery

SEEDS = seeds_of_today(3)

KINDS: dict[str, dict[str, Any]] = {
    "tumbling": {"kind": "tumbling", "size_ns": 50 * MS, "every_ns": 50 * MS},
    "sliding": {"kind": "sliding", "size_ns": 60 * MS, "every_ns": 20 * MS},
    "sliding, uneven": {"kind": "sliding", "size_ns": 50 * MS, "every_ns": 30 * MS},
    "sliding, many": {"kind": "sliding", "size_ns": 100 * MS, "every_ns": 10 * MS},
    "local": {"kind": "tumbling", "size_ns": 50 * MS, "zone": "Asia/Kolkata"},
    "local, sliding": {"kind": "sliding", "size_ns": 60 * MS, "every_ns": 20 * MS, "zone": "UTC"},
    "session": {"kind": "session", "size_ns": 12 * MS},
    "count": {"kind": "count", "events": 4},
}

every_kind = pytest.mark.parametrize("kind", KINDS)


def config_of(kind: str, *, keyed: bool, **settings: Any) -> WindowQuery:
    key = ("key",) if keyed else None
    known = {"outputs": OUTPUTS, "new_source_allowance_ns": 0}  # Windows become final.
    return window_query("q", key=key, **{**known, **KINDS[kind], **settings})


def run(config: WindowQuery, stream: list[Event], rng: Random | None = None) -> list[WindowResult]:
    """Return all results; with `rng`, batches are cut at random, and restarts come at times."""
    windows = Windows("default", config)
    results: list[Any] = []
    for batch in cut(stream, rng, (1, 2, 7)) if rng else [stream]:
        results += windows.on_batch(batch, batch[-1].at_ns).results
        if rng and rng.random() < 0.2:
            state = through_changelog(windows.snapshot())
            windows = Windows("default", config)
            windows.restore(state, ())
    return results + windows.on_end(stream[-1].at_ns).results


LASTING = {"changes_for_ns": 1 << 60, "new_source_allowance_ns": 1 << 60}


class Instant(NamedTuple):
    """A record of an instant: its results, those of all events in order, and the frontier."""

    found: list[Any]
    known: Found
    goal_ns: int


def instants(
    config: WindowQuery, stream: list[Event], rng: Random, *, ordered: bool = True
) -> Iterator[Instant]:
    """Yield an instant for each event; at times the operator is restarted within one."""
    operator = Windows("default", config, ordered=ordered)
    for at, one in enumerate(stream):
        found: list[Any] = list(operator.on_batch([one], one.at_ns).results)
        if rng.random() < 0.2:
            state = through_changelog(operator.snapshot())
            operator = Windows("default", config, ordered=ordered)
            operator.restore(state, ())
        found += operator.on_time(one.at_ns).results
        yield Instant(found, oracle(stream[: at + 1], config), operator._frontier.goal_ns)


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("keyed", [False, True], ids=["all", "keyed"])
def test_results_match_the_oracle(kind: str, keyed: bool) -> None:
    corrected = 0
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, keyed=keyed, finals=seed % 2 == 0, early_ns=seed % 3 * 10 * MS)
        events = sorted_events(rng, 70)
        stream = disordered(rng, copies(events), late=rng.choice((0.0, 0.1, 0.5)))
        results = run(config, stream, rng)
        agree(rendered(results, config), oracle(events, config))
        assert not config.finals or all(result.final for result in last_word(results))
        corrected += sum(result.revision > 0 for result in results)
    assert corrected


@pytest.mark.in_turns(3)
@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("finals", [False, True], ids=["plain", "finals"])
def test_current_results_match_the_oracle(kind: str, finals: bool) -> None:
    """Current results are the windows that the watermark has passed, of the events so far.

    A session that a late event has opened again is not among them.
    """
    if kind == "count":
        pytest.skip("what is full is over, wherever W is, and a late event moves those behind it")
    before_ns = 1 if kind == "session" else 0
    for seed, rng in seeded(seeds_of_today(20)):
        config = config_of(kind, keyed=seed % 2 == 0, finals=finals, **LASTING)
        stream = disordered(rng, sorted_events(rng, 40), late=rng.choice((0.1, 0.4)))
        results: list[Any] = []
        for found, known, goal_ns in instants(config, stream, rng):
            results += found
            closed = {each: said for each, said in known.items() if each[2] + before_ns <= goal_ns}
            agree(rendered(results, config), closed)


@pytest.mark.slow
@every_kind
def test_any_order_has_the_same_results(kind: str) -> None:
    """Results agree to the bit, including their ids."""
    for seed, rng in seeded(SEEDS):
        config = config_of(kind, keyed=True)
        events = sorted_events(rng, 50)
        for event in events:
            event.error_ns = rng.choice((0, 2 * MS, 9 * MS))
        words = []
        for late in (0.0, 0.3, 0.9):
            stream = disordered(rng, copies(events), late=late)
            windows = [
                (w.id, w.key, w.start_ns, w.end_ns, w.values, w.low, w.high)
                for w in last_word(run(config, stream))
            ]
            words.append(sorted(windows, key=repr))
        assert words[0] == words[1] == words[2], seed


@pytest.mark.slow
@every_kind
def test_windows_after_merge_match_oracle(kind: str) -> None:
    """Streams have MERGE's watermarks and late events, and sources that come later."""
    for seed in range(20):
        stream = copies(merged(seed))
        for event in stream:
            if event.value and event.value["v"] == 1e300:
                event.value = {**event.value, "v": 1e100}  # The oracle cannot square 1e300.
        config = config_of(
            kind, keyed=True, uncertainty="ignore", new_source_allowance_ns=600_000 * MS
        )
        windows = Windows("default", config)
        results = results_to_end(windows, ([event] for event in stream))
        assert not windows.figures()["expired"]
        agree(rendered(results, config), oracle(stream, config))
