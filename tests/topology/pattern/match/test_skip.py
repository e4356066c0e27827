"""Law: SKIP decides anew only what a change can move, and says what deciding all would say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import anew, taken
from tests.topology.pattern.generate import (
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.match import Match
from topology.pattern.run import selection
from topology.pattern.run.engine import Engine
from topology.pattern.run.unit import BEFORE_ALL_TIME
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Emit, Query, Skip

SEEDS = seeds_of_today(60)
PARTS = 3
EMITS: tuple[Emit, ...] = ("eager", "eager", "final", "slack")
SKIPS: tuple[Skip, ...] = ("next", "past_last", "first", "last")


def skipping(rng: Random) -> Query:
    query = random_query(rng, open_ended=rng.random() < 0.3)
    skip = query.skip if query.skip != "none" else rng.choice(SKIPS[:2])
    emit = rng.choice(EMITS)
    return dataclasses.replace(query, skip=skip, emit=emit, name="q")


def forgetting(engine: Engine) -> Iterator[None]:
    """What SKIP has decided, so that it decides all of it anew."""
    for run in engine.levels[0].runs():
        if run.visibility.selection is not None:
            run.visibility.selection.clear()
        yield


class Pair:
    """An engine, and one that decides all anew each time, that hear the same."""

    def __init__(self, seed: int, *, waits: bool) -> None:
        rng = self.rng = Random(seed)
        self.query = Compiled(skipping(rng))
        stream = random_stream(rng, largest=14, errors=rng.choice(((0,), (0, 0, 1, 4))))
        disorder, copies = rng.choice((0.0, 0.3, 0.9)), rng.choice((0.0, 0.2))
        self.arrivals = shuffled(rng, stream, disorder, copies)
        self.final = rng.choice(([], ["q"]))
        self.ours, self.other = (Engine([self.query], emits_final=self.final) for _ in range(2))
        self.waits = waits
        if waits:
            self.both(lambda engine: engine.raise_target("q", BEFORE_ALL_TIME, 0))

    def both(self, step: Callable[[Engine], object]) -> None:
        list(forgetting(self.other))
        for engine in (self.ours, self.other):
            step(engine)

    def take(self, one: Entry, at_ns: int, behind_ns: int) -> None:
        until_ns = one.time_ns - self.rng.choice((0, 2, 5))
        self.both(lambda engine: engine.accept(anew(one), at_ns))
        self.both(lambda engine: engine.advance(engine.clock_ns - behind_ns, at_ns))
        if self.waits:
            self.both(lambda engine: engine.raise_target("q", until_ns, at_ns))

    def end(self) -> None:
        self.both(lambda engine: engine.end(len(self.arrivals)))

    def are_alike(self) -> bool:
        return taken(self.ours) == taken(self.other)

    def restart(self) -> None:
        assert self.ours.snapshot() == self.other.snapshot()
        self.ours, self.other = map(self._restored, (self.ours, self.other))

    def _restored(self, engine: Engine) -> Engine:
        fresh = Engine([self.query], emits_final=self.final)
        if self.waits:
            fresh.raise_target("q", BEFORE_ALL_TIME, 0)
        fresh.restore(engine.snapshot(), [anew(one) for one in engine.entries()])
        return fresh


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("waits", [False, True])
def test_what_is_kept_is_what_deciding_all_anew_keeps(part: int, waits: bool) -> None:
    """The same words in the same order, late events, errors, copies, purge and restarts among them;
    and with a query that waits for what is asked of it."""
    for seed in SEEDS[part::PARTS]:
        pair = Pair(seed, waits=waits)
        behind_ns = pair.rng.choice((lateness_ns(pair.arrivals), 1 << 40))
        for at_ns, one in enumerate(pair.arrivals):
            pair.take(one, at_ns, behind_ns)
            assert pair.are_alike(), (seed, unparse(pair.query.query))
            if pair.rng.random() < 0.2:
                pair.restart()
        pair.end()
        assert pair.are_alike(), (seed, unparse(pair.query.query))


def test_the_work_of_an_event_does_not_grow_with_the_open_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in matches that SKIP decides about, with nothing ever decided for good."""
    decided: list[Match] = []
    real: Any = selection.Selection._keep_or_drop

    def counting(self: Any, seen: Any, barrier: Any) -> Any:
        decided.append(seen.found.match)
        return real(self, seen, barrier)

    if not hasattr(selection, "__file__") or not str(selection.__file__).endswith(".py"):
        pytest.skip("compiled: its methods cannot be watched")
    monkeypatch.setattr(selection.Selection, "_keep_or_drop", counting)
    text = "PATTERN SEQ(A a, B b) WITHIN 1 s SKIP PAST LAST"
    engine = Engine([Compiled(parse_query(text))])
    for at in range(600):
        engine.accept(entry("AB"[at % 2], at, at), 0)
    assert len(taken(engine)) == 300
    assert len(decided) <= 2 * 300
