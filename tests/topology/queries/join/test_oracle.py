"""Oracle: after the last correction the current rows match a plain join of all events."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.kit.events import copies
from tests.kit.queries import Field, Side, join_query
from tests.kit.runs import through_changelog
from tests.seeds import seeds_of_today
from tests.topology.queries.join.oracle import last_word, oracle, rendered
from tests.topology.queries.join.streams import MS, arriving, history
from tests.topology.queries.window.streams import seeded
from topology.base.event import Event, copy_event
from topology.base.result import CONFIRMED, RETRACT
from topology.queries.join.operator import Join
from topology.queries.join.queries import JoinQueries
from topology.queries.join.settings import JoinQuery

SEEDS = seeds_of_today(4)

KEY = ("key",)
TWO = (Side("a", "A", key=KEY), Side("b", "B", key=KEY))
THREE = (*TWO, Side("c", "C", key=KEY))
SAME = (Side("a", "A", key=KEY), Side("b", "A", key=KEY))
TYPED = (Side("a", "A", "T", KEY), Side("b", "B", key=KEY), Side("c", "A", "", KEY))
UNKEYED = (Side("a", "A"), Side("b", "B", "T"))

RELATIONS: dict[str, dict[str, Any]] = {
    "interval": {"kind": "interval", "low_ns": -4 * MS, "high_ns": 9 * MS},
    "interval, after": {"kind": "interval", "low_ns": 0, "high_ns": 12 * MS},
    "interval, long before": {"kind": "interval", "low_ns": -30 * MS, "high_ns": -20 * MS},
    "tumbling": {"kind": "tumbling", "size_ns": 15 * MS, "every_ns": 15 * MS},
    "sliding": {"kind": "sliding", "size_ns": 14 * MS, "every_ns": 5 * MS},
}
SIDES = {"two": TWO, "three": THREE, "of one stream": SAME, "typed": TYPED, "unkeyed": UNKEYED}

every_relation = pytest.mark.parametrize("relation", RELATIONS)
every_outer = pytest.mark.parametrize("outer", ["inner", "left", "full"])


def config_of(relation: str, sides: str = "two", **settings: Any) -> JoinQuery:
    own = SIDES[sides]
    fields = tuple(Field(f"n{number}", number, ("n",)) for number in range(len(own)))
    known = {"new_source_allowance_ns": 0}  # Rows become final on the way.
    return join_query("q", own, fields=fields, **{**known, **RELATIONS[relation], **settings})


def run(
    config: JoinQuery, stream: Sequence[Event], rng: Random | None = None
) -> tuple[list[Any], list[Event]]:
    """Return all results and the accepted events; with `rng` the join is restarted at times."""
    joins = JoinQueries([Join(config)])
    results: list[Any] = []
    taken: list[Event] = []
    for event in stream:
        step = joins.on_batch([event], event.at_ns)
        results += step.results
        if event in step.kept and event not in step.freed:
            taken.append(event)
        if rng and rng.random() < 0.1:
            state = through_changelog(joins.snapshot())
            held = [copy_event(one) for one in joins.iter_held()]
            joins = JoinQueries([Join(config)])
            joins.restore(state, sorted(held, key=lambda one: one.offset))
    return results + joins.on_end(stream[-1].at_ns).results, taken


def count_expired(config: JoinQuery, events: Sequence[Event], rng: Random, seed: int) -> int:
    """Return how many events were left out; the rows are those of the others."""
    stream = arriving(rng, events, late=0.4, announced=rng.choice((0.2, 1.0)))
    for event in stream:
        event.complete_ns = 0  # Only `correct_for` makes rows final.
    results, taken = run(config, stream, rng if seed % 3 == 0 else None)
    rows = {rendered(result, config) for result in last_word(results)}
    assert rows == oracle(taken, config), seed
    return len(events) - len(taken)


def count_confirmed(results: Sequence[Any], seed: int) -> int:
    """Return how many rows were confirmed; none of them was retracted or uncertain again."""
    sure: set[str] = set()
    for result in results:
        stays = (result.op, result.confidence) == ("update", CONFIRMED)
        assert stays or result.id not in sure, seed
        if result.confidence == CONFIRMED:
            sure.add(result.id)
    return len(sure)


@pytest.mark.slow
@pytest.mark.parametrize("sides", SIDES)
@every_relation
@every_outer
def test_final_rows_match_the_oracle(relation: str, outer: str, sides: str) -> None:
    for seed, rng in seeded(SEEDS):
        events = history(rng, "ABC" if sides == "three" else "AB", 50)
        config = config_of(relation, sides, outer=outer, finals=seed % 2 == 0)
        stream = arriving(rng, events, late=rng.choice((0.0, 0.1, 0.5)))
        results, _ = run(config, stream, rng if seed % 3 == 0 else None)
        word = last_word(results)
        rows = [rendered(result, config) for result in word]
        assert len(rows) == len(set(rows))
        assert set(rows) == oracle(events, config), seed
        assert not config.finals or all(result.final for result in word)


@pytest.mark.slow
@every_relation
@every_outer
def test_arrival_order_changes_nothing(relation: str, outer: str) -> None:
    """Probabilities and values do not depend on the order either, even with errors and restarts."""
    corrected = 0
    for seed, rng in seeded(SEEDS):
        events = history(rng, "ABC", 40, errors=(0, 0, 1, 5))
        sides = rng.choice(("two", "three", "typed"))
        uncertainty = rng.choice(("ignore", "expected", "bounds"))
        config = config_of(relation, sides, outer=outer, uncertainty=uncertainty)
        words = []
        for late in (0.0, 0.3, 0.9):
            stream = arriving(rng, copies(events), late=late)
            results, _ = run(config, stream, rng if late else None)
            word = last_word(results)
            words.append(sorted((r.id, r.probability, r.values, r.partners) for r in word))
            corrected += sum(result.op == RETRACT for result in results)
            if uncertainty != "bounds":
                assert {rendered(result, config) for result in word} == oracle(events, config)
        assert words[0] == words[1] == words[2], seed
    assert corrected or outer == "inner"


@pytest.mark.slow
@pytest.mark.parametrize("sides", SIDES)
@every_relation
@every_outer
def test_only_expired_events_are_left_out(relation: str, outer: str, sides: str) -> None:
    expired = 0
    for seed, rng in seeded(SEEDS):
        errors = rng.choice(((0,), (0, 3), (0, 0, 40)))
        events = history(rng, "ABC" if sides == "three" else "AB", 50, errors=errors)
        changes_for_ns = rng.choice((0, 5, 30)) * MS
        config = config_of(relation, sides, outer=outer, changes_for_ns=changes_for_ns)
        expired += count_expired(config, events, rng, seed)
    assert expired


@every_relation
@every_outer
def test_confirmed_row_stays(relation: str, outer: str) -> None:
    """Watermarks follow at once, so missing partners are known at once."""
    confirmed = 0
    for seed, rng in seeded(SEEDS):
        events = history(rng, "ABC", 50, errors=(0, 0, 0, 4))
        uncertainty = rng.choice(("ignore", "expected", "bounds"))
        sides = rng.choice(("two", "three"))
        config = config_of(relation, sides, outer=outer, uncertainty=uncertainty)
        results, _ = run(config, arriving(rng, events, late=0.3, announced=1.0))
        confirmed += count_confirmed(results, seed)
    assert confirmed
