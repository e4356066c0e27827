"""Law: MATCHES ALL from start events asks only starts that may lead to the newest event, and says
what asking all of the window would say."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import anew, taken
from tests.topology.pattern.generate import (
    TYPES,
    entry,
    lateness_ns,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.places import place
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.evaluation import Evaluation, Place, Tactic
from topology.pattern.run import affect
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Edge, EventNode, Item, Matches, Query, Seq, Strategy

SEEDS = seeds_of_today(180)
PARTS = 3
plain_only = pytest.mark.skipif(
    not str(affect.__file__).endswith(".py"), reason="compiled: no other tactic fits in"
)
MODES: tuple[tuple[Strategy, Matches], ...] = (
    ("next", "all"),
    ("strict", "all"),
    ("partition", "all"),
)
COUNTS = ((1, 1), (1, 1), (1, 1), (0, 1), (1, 2), (2, 3))
EDGES: tuple[Edge | None, ...] = (None, None, "strict", "next")


def plain(rng: Random) -> Query:
    """A sequence whose steps all have a bound, most often; the general ones seldom have."""
    items = [
        Item(
            EventNode(
                tuple(rng.sample(TYPES, rng.choice((1, 1, 2)))),
                f"t{at}",
                *(rng.choice(COUNTS) if at else (1, 1)),
            ),
            rng.choice(EDGES) if at else None,
        )
        for at in range(rng.randint(1, 4))
    ]
    return Query(
        node=Seq(tuple(items)),
        within_ns=rng.choice((3, 8, 30)),
        strategy=rng.choice(("next", "strict")),
        matches="all",
        ties=rng.choice(("strict", "key")),
    )


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
    for seed in SEEDS[part::PARTS]:
        rng = Random(seed)
        query = plain(rng) if rng.random() < 0.6 else random_query(rng, MODES)
        queries = both(dataclasses.replace(query, name="q"))
        stream = random_stream(rng, largest=16, errors=rng.choice(((0,), (0,), (0, 2))))
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.1, 0.5)), rng.choice((0.0, 0.2)))
        behind_ns = rng.choice((lateness_ns(arrivals), 1 << 40))
        engines = [Engine([each]) for each in queries]
        for at_ns, one in enumerate(arrivals):
            for engine in engines:
                engine.accept(anew(one), at_ns)
                engine.advance(engine.clock_ns - behind_ns, at_ns)
            ours, whole = map(taken, engines)
            assert ours == whole, (seed, unparse(query), stream)
        for at, each in enumerate(queries):
            all_asked[at] += asked(each)
    assert all_asked[0] < all_asked[1]


@plain_only
@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("SEQ(A a, B b) WITHIN 1 s MATCHES ALL", 2),
        ("SEQ(A a, B b, A c) WITHIN 1 s USING strict MATCHES ALL", 3),
        ("SEQ(A a, B{1,2} b) WITHIN 1 s USING strict MATCHES ALL", 4),
    ],
)
def test_what_an_event_asks_does_not_grow_with_the_window(pattern: str, most: int) -> None:
    query, _ = both(parse_query(f"PATTERN {pattern}"))
    engine = Engine([query])
    for at in range(400):
        before = asked(query)
        engine.accept(entry("AB"[at % 2], at, at), 0)
        assert asked(query) - before <= most
    assert len(taken(engine)) > 100


@plain_only
def test_a_group_goes_back_as_far_as_its_count() -> None:
    pattern = "PATTERN SEQ(A a, B{2,4} b, B? c) WITHIN 1 s USING strict MATCHES ALL"
    engines = [Engine([each]) for each in both(parse_query(pattern))]
    for at in range(60):
        for engine in engines:
            engine.accept(entry("ABBBBB"[at % 6], at, at), 0)
    ours, whole = map(taken, engines)
    assert ours == whole
    assert len(ours) > 30


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE b.x > a.x WITHIN 1 s MATCHES ALL",  # the first there is may not fit
        "SEQ(A a, B+ b, C c) WITHIN 1 s MATCHES ALL",
        "SEQ(A a, ANY B b) WITHIN 1 s MATCHES ALL",
        "AND(A a, B b) WITHIN 1 s MATCHES ALL",
    ],
)
def test_where_no_step_has_a_bound_the_window_is_asked(pattern: str) -> None:
    query = Compiled(parse_query(f"PATTERN {pattern}"))
    assert query.earliest is not None
    newest = entry("B", 100, 1)
    assert query.earliest.before(place(query.form, [], []), newest, 7) == 7
