"""Laws and examples of what may be absent in two branches, or in a turn: it is found once.

A match is what events it binds to which alias. Several alternatives of a query may have it, under
negations and conditions of their own, and it stands as long as one of them has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import (
    Reader,
    Standing,
    World,
    anew,
    compiled,
    confirmed,
    contents,
    current,
    feed,
    followed,
    in_any_order,
    taken,
    times,
)
from tests.topology.pattern.generate import dice, of_text, random_stream, shuffled
from tests.topology.pattern.test_uncertain import lies_between
from tests.topology.pattern.uncertain_oracle import Unsuited, possible_and_certain
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.tactics.rules import layouts_of
from topology.pattern.match.twins import Twins
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry

SEEDS = seeds_of_today(400)
UNIT_NS = 4
FREE = "USING skip_till_any MATCHES ALL"
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"

EXAMPLES = [
    # pattern, options, events, what is found by the times of its events
    ("SEQ(A a, OR(C? b, C? c))", FREE, "a1", "1"),
    ("SEQ(A a, OR(C? b, C? c))", "MATCHES ALL", "a1 c2", "1 1-2 1-2"),  # c as b, and as c
    ("SEQ(A a, OR(C? b, D? c), E e)", FREE, "a1 c2 d3 e5", "1-2-5 1-3-5 1-5"),
    ("SEQ(A a, SEQ(C* c[])? t)", FREE, "a1 c2", "1 1-2"),
    ("SEQ(C* c[])?", FREE, "c1", "1"),
    ("AND(A a, OR(C? b, D? c))", FREE, "a1", "1"),
    # it stands as long as one alternative has it
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 b2 e5", "1-5"),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 b2 d3 e5", ""),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c))", FREE, "a1 b2", "1"),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c), D d)", "MATCHES ALL", "a1 d3 d7", "1-3 1-7"),
    ("SEQ(A a, STRICT SEQ(SEQ(C* c[])? t, D d))", FREE, "a1 d3", "1-3"),
]


@pytest.mark.parametrize(("pattern", "options", "events", "found"), EXAMPLES)
def test_it_is_found_once_in_any_order_of_arrival(
    pattern: str, options: str, events: str, found: str
) -> None:
    assert in_any_order(compiled(pattern, options), of_text(events)) == {found}


@pytest.mark.parametrize(
    ("branches", "events", "over_ns"),
    [
        ("!B n FOR 5 ns, C? c", "a1", 2),  # the other branch asks for nothing
        ("SEQ(C? b, !B n FOR 3 ns), SEQ(C? c, !D m FOR 5 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 d2", 6),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 b5", 4),  # it stands by then
    ],
)
def test_it_is_final_when_one_alternative_is(branches: str, events: str, over_ns: int) -> None:
    query = compiled(f"SEQ(A a, OR({branches}))", f"{FREE} EMIT FINAL", within=100)
    engine, reader, stream = Engine([query], emits_final=["q"]), Reader(), of_text(events)
    feed(engine, reader, [one for one in stream if one.time_ns < over_ns])
    engine.advance(over_ns - 1, 0)
    reader.read(taken(engine))
    assert not reader.standing
    engine.advance(over_ns, 0)
    feed(engine, reader, [one for one in stream if one.time_ns >= over_ns])
    engine.end(0)
    reader.read(taken(engine))
    assert len(reader.standing) == len(reader.final) == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_counts_it_once(limit: int) -> None:
    query = compiled("SEQ(A a, OR(B? b, C? c), E e)", f"{FREE} LIMIT {limit}")
    stream = of_text("a1 a2 e5")
    for seed in range(10):
        reader = current(query, shuffled(Random(seed), stream, 0.9, copies=0.2))
        found = times(reader, stream).split()
        assert set(found) <= {"1-5", "2-5"}
        assert len(found) == min(limit, 2)
        assert bool(reader.overflows) == (limit < 2)


SHAPES = (
    "SEQ(A a, OR(C? b, C? c))",
    "SEQ(A a, OR(C? b, B? c), A d)",
    "SEQ(OR(C? b, B* c[]), A a)",
    "SEQ(A+ a[], OR(C? b, B? c), A d)",
    "SEQ(A a, OR(C? b, B? c), OR(C? d, A? e))",
    "SEQ(A a, OR(C* b[] LOOP GREEDY, B? c), A d)",
    "SEQ(A a, SEQ(C* c[])? t)",
    "SEQ(A a, SEQ(C* c[], B? b)? t, A d)",
    "SEQ(A a, STRICT OR(C? b, B? c), A d)",
    "SEQ(A a, STRICT SEQ(SEQ(C* c[])? t, A d))",
    "SEQ(A a, OR(C? b, B? c), STRICT A d)",
    "SEQ(A a, SEQ(C? b)? t, A d WITHIN 3 ns)",
    "SEQ(A a, OR(SEQ(C? b, !B n), C? c), A d)",
    "SEQ(A a, OR(SEQ(C? b, !B n), SEQ(B? c, !C m)), A d)",
    "SEQ(A a, OR(SEQ(C? b, !B n), SEQ(B? c, !C m)))",
    "SEQ(OR(SEQ(!B n, C? b), SEQ(!C m, B? c)), A a)",
    "SEQ(A a, OR(SEQ(C? b, !B n FOR 3 ns), C? c))",
    "SEQ(A a, OR(SEQ(C? b, !B n FOR 3 ns), SEQ(B? c, !C m FOR 5 ns)))",
    "SEQ(A a, OR(SEQ(C? b, !B n FOR 3 ns), SEQ(B? c, !C m)))",
    "SEQ(A a, OR(!B n FOR 3 ns, C? c), A d)",
    "SEQ(A a, OR(!B n FOR 3 ns, B? b, C? c))",
    "SEQ(OR(SEQ(!B n FOR 3 ns, C? b), B? c), A a)",
    "AND(A a, OR(C? b, B? c))",
    "SEQ(!B n, OR(C? b, B? c), A a, !C m)",
    "OR(A* a[], C* c[])",
)
CONDITIONS = ("a.x >= 1", "b.x >= 1", "c.x >= a.x", "b.x IS NULL", "n.x >= 2", "n.x >= a.x")
SOME = ("MATCHES ALL", "USING strict MATCHES ALL", "", "MATCHES BEST")
OPTIONS = (FREE, FREE, MAXIMAL, MAXIMAL, *SOME)
EXTRAS = ("", "", "EMIT EAGER", "EMIT FINAL", "SKIP PAST LAST", "SKIP TO NEXT", "TIES BY KEY")


def worlds_of(
    options: Sequence[str], extras: Sequence[str], errors: Sequence[int] = (0,), unit_ns: int = 1
) -> Iterator[World]:
    for seed, rng in dice(SEEDS):
        pattern, where = rng.choice(SHAPES), rng.choice(CONDITIONS)
        is_asked = rng.random() < 0.4 and f" {where[0]}" in pattern
        condition = f"WHERE {where}" if is_asked else ""
        within = f"WITHIN {rng.randint(2, 8) * unit_ns} ns"
        option = f"{rng.choice(options)} {rng.choice(extras)}"
        text = f"QUERY q PATTERN {pattern} {condition} {within} {option}"
        query = Compiled(parse_query(text))
        assert Twins(layouts_of(query.form)).may_be
        stream = random_stream(rng, 7, errors, types="AABC", unit_ns=unit_ns)
        for segment, one in enumerate(stream):  # each event has a clock of its own
            one.event.segment = segment
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.4, 0.9)), copies=0.1)
        yield World(seed, query, stream, arrivals)


@pytest.mark.slow
def test_in_any_order_it_is_the_oracle() -> None:
    found = 0
    for world in worlds_of(OPTIONS, (*EXTRAS, "EMIT SLACK 3 ns")):
        assert len({*world.wanted()}) == len(world.wanted()), world
        found += world.is_as_the_oracle_says()
    assert found > len(SEEDS) // 5


@pytest.mark.slow
def test_what_a_limit_leaves_is_the_same_in_any_order() -> None:
    cut = 0
    for world in worlds_of((FREE, MAXIMAL, "MATCHES ALL"), ("LIMIT 1", "LIMIT 2")):
        reader, other = current(world.query, world.stream), current(world.query, world.arrivals)
        assert reader.contents() == other.contents(), world
        assert set(reader.contents()) <= set(world.wanted()), world
        assert len(set(reader.contents())) == len(reader.contents()), world
        cut += bool(reader.overflows)
    assert cut > len(SEEDS) // 20


def standing(query: Compiled, world: World, arrivals: Sequence[Entry]) -> Standing:
    """How sure each match is that stands at the end; none stands twice."""
    reader = followed(query, arrivals, max_error_ns=world.largest_ns)
    assert len(reader.confidences()) == len(reader.standing), (world, arrivals)
    return reader.confidences()


@pytest.mark.slow
def test_every_world_lies_between() -> None:
    """And what is told is the same in any order of arrival."""
    seen: Counter[str] = Counter()
    modes = (FREE, MAXIMAL, "MATCHES ALL", "USING strict MATCHES ALL")
    for world in worlds_of(modes, ("",), (0, 0, 1, 2, 4, 6), UNIT_NS):
        lies_between(world, 12, seen)
        for query in (world.query, world.asking(uncertain="possible")):
            orders = (shuffled(Random(seed), world.stream, 0.9, copies=0.1) for seed in range(4))
            first, *others = (standing(query, world, arrivals) for arrivals in orders)
            assert others == [first] * 3, world
    assert min(seen.values()) > 10, seen


@pytest.mark.slow
def test_possible_ones_are_those_of_the_uncertain_oracle() -> None:
    found = 0
    for world in worlds_of((FREE,), ("",), (0, 0, 1, 2, 4), UNIT_NS):
        query = world.asking(uncertain="possible")
        try:
            possible, certain = possible_and_certain(query.form, list(map(anew, world.stream)))
        except Unsuited:
            continue
        told = standing(query, world, world.arrivals)
        assert told.keys() >= set(contents(query, possible)), world
        text = unparse(query.query)
        if "STRICT" in text:
            continue  # several doubts together are not seen
        assert sorted(told) == contents(query, possible), world
        if "FOR" not in text and "(!" not in text:
            # Alternatives are decided at one instant, and no member may block at the start.
            assert sorted(confirmed(told)) == contents(query, certain), world
        found += bool(possible)
    assert found > len(SEEDS) // 8
