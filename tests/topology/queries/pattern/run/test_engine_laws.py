"""Laws of the engine, on seeded queries and streams, against the brute-force oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    Changelog,
    Reader,
    World,
    fed,
    feed,
    in_step,
    restarted,
    taken,
)
from tests.topology.queries.pattern.generate import (
    BEST,
    MODES,
    Modes,
    dice,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run.engine import ENGINE, Engine

SEEDS = seeds_of_today(200)
PARTS = 4
OPEN_ENDED: Modes = (
    *(("next", "one"),) * 3,
    ("strict", "one"),
    *(("next", "best"),) * 2,
    ("strict", "best"),
    ("next", "all"),
    ("any", "all"),
    ("any", "maximal"),
)
"""Modes of queries whose matches may still grow, or must not go on."""


def worlds(part: int, *, open_ended: bool = False, **changed: Any) -> Iterator[World]:
    for seed, rng in dice(SEEDS[part::PARTS]):
        if open_ended:
            query = random_query(rng, OPEN_ENDED, conditions=False, open_ended=True)
        else:
            query = random_query(rng, (*MODES, *BEST), previous=True)
        stream = random_stream(rng)
        disorder = rng.choice((0.0, 0.2, 0.5, 0.9))
        arrivals = shuffled(rng, stream, disorder, copies=rng.choice((0.0, 0.2)))
        yield World(seed, Compiled(replace(query, **changed)), stream, arrivals)


parts = pytest.mark.parametrize("part", range(PARTS))


@pytest.mark.slow
@parts
@pytest.mark.parametrize("open_ended", [False, True])
def test_any_order_matches_the_oracle(part: int, open_ended: bool) -> None:
    """No final result changes, purged events are not missed, and a restart changes nothing."""
    assert sum(each.is_as_the_oracle_says() for each in worlds(part, open_ended=open_ended)) > 0


@pytest.mark.slow
@parts
def test_matches_are_right_at_every_event(part: int) -> None:
    """With EMIT EAGER this holds after each event, except for negations at the end."""
    for world in worlds(part, emit="eager"):
        if world.query.shape.has_end_negation:
            continue
        engine, reader = Engine([world.query]), Reader()
        for count, one in enumerate(world.arrivals[:6], start=1):
            feed(engine, reader, [one])
            assert reader.contents() == world.wanted(world.arrivals[:count]), world


@pytest.mark.slow
@parts
@pytest.mark.parametrize("emit", ["as it is", "slack"])
def test_restart_changes_nothing(part: int, emit: str) -> None:
    """A restart may change when gathered late events are evaluated, and nothing else.

    A start that a strict step has closed may be evaluated again, and emits what was gathered.
    """
    changed: dict[str, Any] = {"emit": emit} if emit == "slack" else {}
    for world in worlds(part, **changed):
        engines, readers = [Engine([world.query]) for _ in range(2)], (Reader(), Reader())
        is_exact = emit != "slack" or not world.query.shape.strict
        rng, log, behind_ns = Random(world.seed), Changelog(), lateness_ns(world.arrivals)
        for _, told in in_step(engines, world.arrivals, behind_ns, rng):
            for reader, findings in zip(readers, told, strict=True):
                reader.read(findings)
            assert told[0] == told[1] or not is_exact, world
            if rng.random() < 0.4:
                state = rng.choice((None, log.of(engines[1])))
                engines[1] = restarted(engines[1], [world.query], state)
        assert [reader.contents() for reader in readers] == [world.wanted()] * 2, world


@pytest.mark.slow
@parts
def test_queries_do_not_disturb_each_other(part: int) -> None:
    others = worlds((part + 1) % PARTS, name="other")
    for world, other in zip(worlds(part), others, strict=True):
        alone, together = (
            fed(queries, world.arrivals) for queries in ([world.query], [other.query, world.query])
        )
        for engine in (alone, together):
            engine.end(0)
        mine = [finding for finding in taken(together) if finding.query == "q"]
        assert mine == taken(alone), world


def test_checkpoint_writes_only_changes() -> None:
    """A unit that came and went between two checkpoints is not written."""
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 ns"))
    engine = fed([query], [entry("A", at % 5, at, {"id": at}) for at in range(50)])
    engine.changes()
    engine.accept(entry("B", 6, 50, {"id": 7}), 0)
    assert len(engine.levels[0].agenda.changed) == 1
    changes = engine.changes()
    assert len(changes) == 2  # The row of the engine, and that of the unit.
    assert engine.changes().keys() == {ENGINE}
    engine.accept(entry("B", 7, 51, {"id": 8}), 0)
    engine.end(0)
    assert engine.retained == 0
    gone = engine.changes()
    assert len(gone) == 2  # The unit of the first match; that of the second was never written.
    assert all(value is None for key, value in gone.items() if key != ENGINE)


def test_passed_skip_decision_is_written() -> None:
    """Only the key that the frontier has passed is written."""
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 ns SKIP PAST LAST"))
    pairs = [
        entry(kind, at + later, 2 * at + later, {"id": at})
        for at in range(20)
        for later, kind in enumerate("AB")
    ]
    engine = fed([query], pairs)
    engine.changes()
    for frontier_ns in range(10, 16):
        assert engine.changes().keys() == {ENGINE}
        engine.advance(frontier_ns + 1, 0)
        changes = engine.changes()
        written = [key for key, row in changes.items() if "barrier/" in key and row is not None]
        assert len(written) == 1, frontier_ns
