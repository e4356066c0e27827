"""Laws: an engine that evaluates less finds the same as one that evaluates everything.

MATCHES ALL from start events evaluates only starts that can lead to the newest event. SKIP decides
again only what a change can affect.
"""

from __future__ import annotations

import dataclasses
from random import Random
from unittest.mock import Mock, patch

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import anew, fed, in_step, taken
from tests.topology.queries.pattern.generate import (
    TYPES,
    Modes,
    dice,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.queries.pattern.unparse import unparse
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run import affect
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.run.run import BEFORE_ALL_TIME
from topology.queries.pattern.run.selection import Selection
from topology.queries.pattern.tree.syntax import Emit, Query, Skip

SEEDS = seeds_of_today(180)
PARTS = 3
plain_only = pytest.mark.skipif(
    not str(affect.__file__).endswith(".py"), reason="compiled: nothing else fits in"
)
MODES: Modes = (("next", "all"), ("strict", "all"), ("partition", "all"))
COUNTS = ("", "", "", "?", "{1,2}", "{2,3}")
EDGES = ("", "", "STRICT ", "NEXT ")


def plain(rng: Random) -> Query:
    """Return a sequence in which most steps have a bound; general queries seldom have bounds."""
    nodes = []
    for at in range(rng.randint(1, 4)):
        types = "|".join(rng.sample(TYPES, rng.choice((1, 1, 2))))
        edge, count = (rng.choice(EDGES), rng.choice(COUNTS)) if at else ("", "")
        nodes.append(f"{edge}{types}{count} t{at}")
    using, ties = rng.choice(("skip_till_next", "strict")), rng.choice(("", "TIES BY KEY"))
    within = f"WITHIN {rng.choice((3, 8, 30))} ns"
    return parse_query(f"PATTERN SEQ({', '.join(nodes)}) {within} USING {using} MATCHES ALL {ties}")


def both(query: Query) -> tuple[list[Engine], list[Mock]]:
    """Return an engine that evaluates less and one that evaluates all, with the tactic of each."""
    ours, whole = Compiled(query), Compiled(query)
    whole.earliest = None
    asked = [Mock(wraps=each.tactic) for each in (ours, whole)]
    ours.tactic, whole.tactic = asked
    return [Engine([ours]), Engine([whole])], asked


@pytest.mark.slow
@plain_only
@pytest.mark.parametrize("part", range(PARTS))
def test_results_match_asking_all_starts(part: int) -> None:
    """Events are in order or late, with duplicates, errors and purges."""
    times_asked = [0, 0]
    for seed, rng in dice(SEEDS[part::PARTS]):
        query = plain(rng) if rng.random() < 0.6 else random_query(rng, MODES)
        engines, asked = both(dataclasses.replace(query, name="q"))
        stream = random_stream(rng, largest=16, errors=rng.choice(((0,), (0,), (0, 2))))
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.1, 0.5)), rng.choice((0.0, 0.2)))
        behind_ns = rng.choice((lateness_ns(arrivals), 1 << 40))
        for _, (ours, whole) in in_step(engines, arrivals, behind_ns, rng):
            assert ours == whole, (seed, unparse(query), stream)
        for at, tactic in enumerate(asked):
            times_asked[at] += tactic.evaluate.call_count
    assert times_asked[0] < times_asked[1]


@pytest.mark.slow
@plain_only
@pytest.mark.parametrize(
    ("pattern", "types", "most"),
    [
        ("SEQ(A a, B b) WITHIN 1 s MATCHES ALL", "AB", 2),
        ("SEQ(A a, B b, A c) WITHIN 1 s USING strict MATCHES ALL", "AB", 3),
        ("SEQ(A a, B{1,2} b) WITHIN 1 s USING strict MATCHES ALL", "AB", 4),
        ("SEQ(A a, B{2,4} b, B? c) WITHIN 1 s USING strict MATCHES ALL", "ABBBBB", 9),
    ],
)
def test_work_does_not_grow_with_window(pattern: str, types: str, most: int) -> None:
    engines, (less, _) = both(parse_query(f"PATTERN {pattern}"))
    for at in range(240):
        less.reset_mock()
        for engine in engines:
            engine.accept(entry(types[at % len(types)], at, at), 0)
        assert less.evaluate.call_count <= most
    ours, whole = map(taken, engines)
    assert ours == whole
    assert len(ours) > 60


# -- SKIP -------------------------------------------------------------------------------------

SKIP_SEEDS = seeds_of_today(120)
EMITS: tuple[Emit, ...] = ("eager", "eager", "final", "slack")
SKIPS: tuple[Skip, ...] = ("next", "past_last", "first", "last")


def skipping(rng: Random) -> Query:
    query = random_query(rng, open_ended=rng.random() < 0.3)
    skip = query.skip if query.skip != "none" else rng.choice(SKIPS[:2])
    emit = rng.choice(EMITS)
    return dataclasses.replace(query, skip=skip, emit=emit, name="q")


def forget(engine: Engine) -> None:
    """Clear the decisions of SKIP, so that it makes all of them again."""
    for run in engine.levels[0].runs():
        if run.selection is not None:
            run.selection.clear()


def engine_of(query: Compiled, finals: list[str], *, waits: bool) -> Engine:
    engine = Engine([query], emits_final=finals)
    if waits:
        engine.raise_target("q", BEFORE_ALL_TIME, 0)
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("waits", [False, True])
def test_skip_matches_full_evaluation(part: int, waits: bool) -> None:
    """Results and their order agree, with late events, errors, duplicates, purges and restarts.

    With `waits`, the query delays its results until a target is raised.
    """
    for seed, rng in dice(SKIP_SEEDS[part::PARTS]):
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


@plain_only
def test_skip_work_ignores_open_matches() -> None:
    """Work is counted in decisions of SKIP about matches, none of which becomes final."""
    text = "PATTERN SEQ(A a, B b) WITHIN 1 s SKIP PAST LAST"
    stream = [entry("AB"[at % 2], at, at) for at in range(600)]
    real = Selection._keep_or_drop
    with patch.object(Selection, "_keep_or_drop", autospec=True, side_effect=real) as decided:
        engine = fed([Compiled(parse_query(text))], stream)
    assert len(taken(engine)) == 300
    assert 300 <= decided.call_count <= 2 * 300
