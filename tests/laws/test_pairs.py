"""Law: queries that share a stage do not affect each other, whatever each of them reads.

Each kind of query runs on ordered and on accepted events. A query gives the same results at the
same instants, alone and beside any other, including after restarts of the stage. After the last
correction its results are the same with either input.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random
from typing import Any, Final

import pytest

from inorder.engine import Detector, Found, Seen, parse
from tests.kit.events import copies
from tests.kit.places import give_back, places_of, twins
from tests.kit.runs import cut, through_changelog
from tests.laws.test_added_queries import arriving
from tests.seeds import seeds_of_today
from topology.stage.stage import Stage

SEEDS: Final = seeds_of_today(2)
HEAD: Final = """
streams:
  a: {reorder: {max_wait: 50ms}, merge: {max_wait: 50ms}, clock: {unsynced: trust}}
  b: {reorder: {max_wait: 50ms, late: LATE}, merge: {max_wait: 50ms}, clock: {unsynced: trust}}
stages: [reorder+merge+window+pattern+join+detector]
topics: {partitions: 1}
correct_for: 300ms
queries:
"""
QUALITY: Final = "quality: {accuracy: 90%, max_wait: 60ms}"
SIDES: Final = "sides: {x: {stream: a}, y: {stream: b}}"
KINDS: Final = {
    "window": "stream: b, window: tumbling 10ms, aggregate: {n: count(), s: sum(payload.n)}",
    "session": "stream: a, window: session 6ms, key: payload.k, aggregate: {n: count()}",
    "quality": f"stream: b, window: sliding 20ms every 10ms, aggregate: {{n: count()}}, {QUALITY}",
    "join": f"join: interval 9ms, {SIDES}, outer: full",
    "join of a quality": f"join: tumbling 20ms, {SIDES}, outer: left, {QUALITY}",
    "pattern": "stream: b, pattern: 'PATTERN SEQ(A x, !B n, A y) WITHIN 20 ms'",
    "detector": "stream: b, detector: rises, key: payload.k",
}
QUERIES: Final = {
    f"{kind}, {answer}": f"{{{text}, answer: {answer}}}"
    for kind, text in KINDS.items()
    for answer in ("early", "speculate")
}
PAIRS: Final = list(combinations(QUERIES, 2))


def _rises(last: int, seen: Seen) -> tuple[int, Found | None]:
    found = seen.payload["n"]
    return found, Found({"by": found - last}) if found > last else None


RISES: Final = Detector(_rises, 0)


def stage_of(late: str, *names: str) -> Stage:
    lines = [f"  {name!r}: {QUERIES[name]}\n" for name in names]
    text = HEAD.replace("LATE", late) + "".join(lines)
    topology = parse(text, detectors={"rises": RISES})
    return Stage(topology, topology.stages[0].operators)


def told(stage: Stage, seed: int, late: str, restarts: float = 0) -> list[Any]:
    names, rng = [*stage._topology.queries], Random(seed)
    events = arriving(seed)
    found: list[Any] = []
    for batch in cut(copies(events), rng, (1, 7, 40)):
        found += stage.on_batch(batch, batch[-1].at_ns).results
        if rng.random() < restarts:
            held = twins(places_of(stage))
            state = through_changelog(stage.snapshot())
            stage = stage_of(late, *names)
            give_back(stage, state, held)
    found += stage.on_time(events[-1].at_ns + 100_000_000).results
    return found + stage.on_end(events[-1].at_ns + 100_000_000).results


def said(found: list[Any], name: str) -> list[str]:
    return [repr(each) for each in found if each.query == name]


@cache
def alone(name: str, seed: int, late: str) -> list[Any]:
    return told(stage_of(late, name), seed, late)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_query_gives_same_results_alone(pair: tuple[str, str]) -> None:
    for seed in SEEDS:
        for late in ("pass", "drop"):
            found = told(stage_of(late, *pair), seed, late)
            for name in pair:
                assert said(found, name) == said(alone(name, seed, late), name), (name, seed, late)
                assert said(found, name)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("pair", PAIRS[:: max(1, len(PAIRS) // 20)], ids=" + ".join)
def test_restart_changes_nothing(pair: tuple[str, str]) -> None:
    for seed in SEEDS:
        steady = told(stage_of("pass", *pair), seed, "pass")
        hurt = told(stage_of("pass", *pair), seed, "pass", restarts=0.3)
        for name in pair:
            assert said(hurt, name) == said(steady, name), (name, seed)


def current_content(found: list[Any]) -> list[str]:
    """Return the content of the current results, without the query's name and times."""
    left: dict[str, Any] = {}
    for each in found:
        left[each.id] = None if each.op == "retract" else each
    content = ("start_ns", "end_ns", "key", "values", "members", "partners")
    return sorted(
        repr([getattr(each, field, None) for field in content])
        for each in left.values()
        if each is not None
    )


@pytest.mark.parametrize("late", ["pass", "drop"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_inputs_end_with_same_results(kind: str, late: str) -> None:
    for seed in SEEDS:
        early, ahead = (alone(f"{kind}, {answer}", seed, late) for answer in ("early", "speculate"))
        assert current_content(ahead) == current_content(early), seed
        assert early
