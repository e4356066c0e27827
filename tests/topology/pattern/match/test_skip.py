"""Law: SKIP decides anew only what a change can move, and says what deciding all would say."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import anew, fed, in_step, taken
from tests.topology.pattern.generate import (
    dice,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run import selection
from topology.pattern.run.engine import Engine
from topology.pattern.run.unit import BEFORE_ALL_TIME
from topology.pattern.tree.syntax import Emit, Query, Skip

SEEDS = seeds_of_today(120)
PARTS = 3
EMITS: tuple[Emit, ...] = ("eager", "eager", "final", "slack")
SKIPS: tuple[Skip, ...] = ("next", "past_last", "first", "last")


def skipping(rng: Random) -> Query:
    query = random_query(rng, open_ended=rng.random() < 0.3)
    skip = query.skip if query.skip != "none" else rng.choice(SKIPS[:2])
    emit = rng.choice(EMITS)
    return dataclasses.replace(query, skip=skip, emit=emit, name="q")


def forget(engine: Engine) -> None:
    """Let go of what SKIP has decided, so that it decides all of it anew."""
    for run in engine.levels[0].runs():
        if run.visibility.selection is not None:
            run.visibility.selection.clear()


def engine_of(query: Compiled, finals: list[str], *, waits: bool) -> Engine:
    engine = Engine([query], emits_final=finals)
    if waits:
        engine.raise_target("q", BEFORE_ALL_TIME, 0)
    return engine


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("waits", [False, True])
def test_what_is_kept_is_what_deciding_all_anew_keeps(part: int, waits: bool) -> None:
    """The same words in the same order, late events, errors, copies, purge and restarts among them;
    and with a query that waits for what is asked of it."""
    for seed, rng in dice(SEEDS[part::PARTS]):
        query, finals = Compiled(skipping(rng)), rng.choice(([], ["q"]))
        stream = random_stream(rng, largest=14, errors=rng.choice(((0, 0, 1, 4), (0, 0, 9), (0,))))
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.3, 0.9)), rng.choice((0.0, 0.2)))
        behind_ns = rng.choice((lateness_ns(arrivals), 1 << 40))
        engines = [engine_of(query, finals, waits=waits) for _ in range(2)]
        for at_ns, told in in_step(engines, arrivals, behind_ns, rng):
            assert told[0] == told[1], (seed, unparse(query.query))
            forget(engines[1])
            until_ns = engines[0].clock_ns - rng.choice((0, 2, 5, 9))
            is_raised = waits and rng.random() < 0.5
            for at, engine in enumerate(engines):
                if is_raised:
                    engine.raise_target("q", until_ns, at_ns)
                told[at] = taken(engine)
            assert told[0] == told[1], (seed, unparse(query.query))
            if rng.random() < 0.2:
                assert engines[0].snapshot() == engines[1].snapshot()
                for at, engine in enumerate(engines):
                    engines[at] = engine_of(query, finals, waits=waits)
                    engines[at].restore(engine.snapshot(), map(anew, engine.entries()))
            forget(engines[1])


def test_the_work_of_an_event_does_not_grow_with_the_open_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in matches that SKIP decides about, with nothing ever decided for good."""
    decided = 0
    real: Any = selection.Selection._keep_or_drop

    def counting(*args: Any) -> Any:
        nonlocal decided
        decided += 1
        return real(*args)

    if not str(selection.__file__).endswith(".py"):
        pytest.skip("compiled: its methods cannot be watched")
    monkeypatch.setattr(selection.Selection, "_keep_or_drop", counting)
    text = "PATTERN SEQ(A a, B b) WITHIN 1 s SKIP PAST LAST"
    stream = [entry("AB"[at % 2], at, at) for at in range(600)]
    engine = fed([Compiled(parse_query(text))], stream)
    assert len(taken(engine)) == 300
    assert decided <= 2 * 300
