"""Laws of the engine, on seeded queries and streams, against the brute-force oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern import generate
from tests.topology.pattern.following import (
    Reader,
    anew,
    contents,
    feed,
    taken,
)
from tests.topology.pattern.generate import (
    BEST,
    MODES,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.admit import EXPIRED
from topology.pattern.run.engine import ENGINE, Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Matches, Query, Strategy

SEEDS = seeds_of_today(200)
PARTS = 4
OPEN_ENDED: tuple[tuple[Strategy, Matches], ...] = (
    ("next", "one"),
    ("next", "one"),
    ("next", "one"),
    ("strict", "one"),
    ("next", "best"),
    ("next", "best"),
    ("strict", "best"),
    ("next", "all"),
    ("any", "all"),
    ("any", "maximal"),
)
"""Modes of queries whose matches may still grow, or must not go on."""


@dataclasses.dataclass(repr=False)
class World:
    """A query, a stream, and an order in which it arrives."""

    seed: int
    query: Compiled
    stream: list[Entry]
    arrivals: list[Entry]

    def __repr__(self) -> str:
        return f"seed {self.seed}\n{unparse(self.query.query)}\n{self.stream}\n{self.arrivals}"

    def oracle(self, entries: Sequence[Entry] | None = None) -> list[object]:
        found = oracle(self.query.form, map(anew, self.stream if entries is None else entries))
        return list(contents(self.query, found))


def worlds(
    part: int, changed: dict[str, object] | None = None, *, open_ended: bool = False
) -> Iterator[World]:
    for seed in SEEDS[part::PARTS]:
        rng = Random(seed)
        if open_ended:
            query = random_query(rng, OPEN_ENDED, conditions=False, open_ended=True)
        else:
            query = random_query(rng, (*MODES, *BEST), previous=True)
        stream = random_stream(rng)
        disorder = rng.choice((0.0, 0.2, 0.5, 0.9))
        arrivals = shuffled(rng, stream, disorder, copies=rng.choice((0.0, 0.2)))
        yield World(seed, Compiled(_changed(query, changed or {})), stream, arrivals)


def _changed(query: Query, changed: dict[str, object]) -> Query:
    return dataclasses.replace(query, **changed)  # type: ignore[arg-type]


parts = pytest.mark.parametrize("part", range(PARTS))
endings = pytest.mark.parametrize("open_ended", [False, True])


@parts
@endings
def test_in_any_order_the_matches_that_stand_are_those_of_the_oracle(
    part: int, open_ended: bool
) -> None:
    for world in worlds(part, open_ended=open_ended):
        engine, reader = Engine([world.query]), Reader()
        feed(engine, reader, world.arrivals)
        engine.end(0)
        reader.read(taken(engine))
        assert reader.contents() == world.oracle(), world


@parts
def test_what_stands_is_right_for_the_events_so_far(part: int) -> None:
    """Told eagerly: after each event, but for what still waits for a negation at the end."""
    for world in worlds(part, {"emit": "eager"}):
        if world.query.shape.has_end_negation:
            continue
        engine, reader = Engine([world.query]), Reader()
        for count, entry in enumerate(world.arrivals[:6], start=1):
            feed(engine, reader, [entry])
            assert reader.contents() == world.oracle(world.arrivals[:count]), world


@parts
@endings
def test_nothing_final_changes_and_what_is_purged_is_not_missed(
    part: int, open_ended: bool
) -> None:
    """With a frontier as far behind as the lateness is, nothing is late."""
    for world in worlds(part, open_ended=open_ended):
        behind_ns = lateness_ns(world.arrivals)
        engine, reader = Engine([world.query], emits_final=["q"]), Reader()
        for entry in world.arrivals:
            feed(engine, reader, [entry])
            engine.advance(engine.clock_ns - behind_ns, 0)
            reader.read(taken(engine))
        engine.end(0)
        reader.read(taken(engine))
        assert engine.counts[EXPIRED] == 0
        assert reader.contents() == world.oracle(), world
        assert reader.final == set(reader.standing), world
        assert engine.retained == 0, world


@parts
@pytest.mark.parametrize("emit", ["as it is", "slack"])
def test_a_restart_is_not_seen(part: int, emit: str) -> None:
    """Nor is it where late events are gathered before they are looked at; but for when they are: a
    start that a strict step has closed may still be woken, and brings what was gathered."""
    for world in worlds(part, {"emit": emit} if emit == "slack" else None):
        behind_ns = lateness_ns(world.arrivals)
        calm, cut = Engine([world.query]), Engine([world.query])
        readers = Reader(), Reader()
        is_exact = emit != "slack" or not world.query.shape.strict
        rng, at_ns, state = Random(world.seed), 0, State()
        for entry in world.arrivals:
            at_ns += rng.choice((0, 1, 3))
            for engine in (calm, cut):
                engine.accept(anew(entry), at_ns)
            assert _same_words(calm, cut, readers) or not is_exact, world
            for engine in (calm, cut):
                engine.advance(engine.clock_ns - behind_ns, at_ns)
            assert _same_words(calm, cut, readers) or not is_exact, world
            if rng.random() < 0.5:
                whole = cut.snapshot()
                state.apply(cut.changes())
                kept = [anew(one) for one in cut.entries()]
                cut = Engine([world.query])
                cut.restore(rng.choice((whole, state.values)), kept)
        for engine in (calm, cut):
            engine.end(at_ns)
        assert _same_words(calm, cut, readers) or not is_exact, world
        assert [reader.contents() for reader in readers] == [world.oracle()] * 2, world


class State:
    """What a table holds after all changes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def apply(self, changes: Mapping[str, Any]) -> None:
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value


def _same_words(calm: Engine, cut: Engine, readers: tuple[Reader, Reader]) -> bool:
    told = taken(calm), taken(cut)
    for reader, findings in zip(readers, told, strict=True):
        reader.read(findings)
    return told[0] == told[1]


@parts
def test_queries_do_not_disturb_each_other(part: int) -> None:
    others = worlds((part + 1) % PARTS, {"name": "other"})
    for world, other in zip(worlds(part), others, strict=True):
        alone, together = Engine([world.query]), Engine([other.query, world.query])
        for engine in (alone, together):
            for entry in world.arrivals:
                engine.accept(anew(entry), 0)
            engine.end(0)
        mine = [finding for finding in together.findings if finding.query == "q"]
        assert mine == alone.findings, world


def test_a_checkpoint_looks_at_what_moved_alone() -> None:
    """And at nothing of a key that is gone, though it moved since the last one."""
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 ns"))
    engine = Engine([query])
    for at in range(50):
        engine.accept(generate.entry("A", at % 5, at, {"id": at}), 0)
    engine.changes()
    engine.accept(generate.entry("B", 6, 50, {"id": 7}), 0)
    assert len(engine.levels[0].changed) == 1
    changes = engine.changes()
    assert len(changes) == 2  # the engine's own, and the unit's
    assert engine.changes().keys() == {ENGINE}
    engine.accept(generate.entry("B", 7, 51, {"id": 8}), 0)
    engine.end(0)
    assert engine.retained == 0
    gone = engine.changes()
    assert len(gone) == 2  # the unit of the first match; of the second nothing was ever written
    assert all(value is None for key, value in gone.items() if key != ENGINE)


def test_what_skip_has_decided_is_written_when_the_frontier_has_passed_it() -> None:
    """And no other key is looked at."""
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 ns SKIP PAST LAST"))
    engine = Engine([query])
    for at in range(20):
        engine.accept(generate.entry("A", at, 2 * at, {"id": at}), 0)
        engine.accept(generate.entry("B", at + 1, 2 * at + 1, {"id": at}), 0)
    engine.changes()
    for frontier_ns in range(10, 16):
        assert engine.changes().keys() == {ENGINE}
        engine.advance(frontier_ns + 1, 0)
        changes = engine.changes()
        written = [key for key, row in changes.items() if "barrier/" in key and row is not None]
        assert len(written) == 1, frontier_ns
