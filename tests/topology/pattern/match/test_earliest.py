"""Law: MATCHES ALL from start events asks only starts that may lead to the newest event, and says
what asking all of the window would say."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import in_step, taken
from tests.topology.pattern.generate import (
    TYPES,
    Modes,
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
from topology.pattern.match.evaluation import Evaluation, Place, Tactic
from topology.pattern.run import affect
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Query

SEEDS = seeds_of_today(180)
PARTS = 3
plain_only = pytest.mark.skipif(
    not str(affect.__file__).endswith(".py"), reason="compiled: no other tactic fits in"
)
MODES: Modes = (("next", "all"), ("strict", "all"), ("partition", "all"))
COUNTS = ("", "", "", "?", "{1,2}", "{2,3}")
EDGES = ("", "", "STRICT ", "NEXT ")


def plain(rng: Random) -> Query:
    """A sequence whose steps all have a bound, most often; the general ones seldom have."""
    nodes = []
    for at in range(rng.randint(1, 4)):
        types = "|".join(rng.sample(TYPES, rng.choice((1, 1, 2))))
        edge, count = (rng.choice(EDGES), rng.choice(COUNTS)) if at else ("", "")
        nodes.append(f"{edge}{types}{count} t{at}")
    using, ties = rng.choice(("skip_till_next", "strict")), rng.choice(("", "TIES BY KEY"))
    within = f"WITHIN {rng.choice((3, 8, 30))} ns"
    return parse_query(f"PATTERN SEQ({', '.join(nodes)}) {within} USING {using} MATCHES ALL {ties}")


class Counting:
    """A tactic that counts how often it is asked."""

    def __init__(self, tactic: Tactic) -> None:
        self._tactic = tactic
        self.asked = 0

    def evaluate(self, place: Place, anchor: Entry) -> Evaluation:
        self.asked += 1
        return self._tactic.evaluate(place, anchor)


def both(query: Query) -> tuple[Compiled, Compiled]:
    ours, whole = Compiled(query), Compiled(query)
    whole.earliest = None
    for each in (ours, whole):
        each.tactic = Counting(each.tactic)
    return ours, whole


def asked(query: Compiled) -> int:
    assert isinstance(query.tactic, Counting)
    return query.tactic.asked


@plain_only
@pytest.mark.parametrize("part", range(PARTS))
def test_the_words_are_those_of_asking_all_starts(part: int) -> None:
    """In order and late, with copies, errors and purge. And it asks for less."""
    all_asked = [0, 0]
    for seed, rng in dice(SEEDS[part::PARTS]):
        query = plain(rng) if rng.random() < 0.6 else random_query(rng, MODES)
        queries = both(dataclasses.replace(query, name="q"))
        stream = random_stream(rng, largest=16, errors=rng.choice(((0,), (0,), (0, 2))))
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.1, 0.5)), rng.choice((0.0, 0.2)))
        behind_ns = rng.choice((lateness_ns(arrivals), 1 << 40))
        engines = [Engine([each]) for each in queries]
        for _, (ours, whole) in in_step(engines, arrivals, behind_ns, rng):
            assert ours == whole, (seed, unparse(query), stream)
        for at, each in enumerate(queries):
            all_asked[at] += asked(each)
    assert all_asked[0] < all_asked[1]


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
def test_what_an_event_asks_does_not_grow_with_the_window(
    pattern: str, types: str, most: int
) -> None:
    queries = both(parse_query(f"PATTERN {pattern}"))
    engines = [Engine([each]) for each in queries]
    for at in range(240):
        before = asked(queries[0])
        for engine in engines:
            engine.accept(entry(types[at % len(types)], at, at), 0)
        assert asked(queries[0]) - before <= most
    ours, whole = map(taken, engines)
    assert ours == whole
    assert len(ours) > 60
