"""Laws and examples of what may be absent in two branches, or in a turn: it is found once.

A match is what events it binds to which alias. Several alternatives of a query may have it, under
negations and conditions of their own, and it stands as long as one of them has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import (
    Content,
    Reader,
    World,
    anew,
    compiled,
    content,
    contents,
    current,
    feed,
    taken,
    times,
)
from tests.topology.pattern.generate import lateness_ns, of_text, random_stream, shuffled
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.uncertain_oracle import (
    Unsuited,
    possible_and_certain,
    worlds,
)
from topology.model.result import CONFIRMED
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.match.tactics.rules import layouts_of
from topology.pattern.match.twins import Twins
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Uncertain

SEEDS = seeds_of_today(400)
UNIT_NS = 4
FREE = "USING skip_till_any MATCHES ALL"
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"

EXAMPLES = [
    # pattern, options, events, what is found by the times of its events
    ("SEQ(A a, OR(C? b, C? c))", FREE, "a1", "1"),
    ("SEQ(A a, OR(C? b, C? c))", MAXIMAL, "a1", "1"),
    ("SEQ(A a, OR(C? b, C? c))", "MATCHES ALL", "a1 c2", "1 1-2 1-2"),  # c as b, and as c
    ("SEQ(A a, OR(C? b, D? c), E e)", FREE, "a1 e5", "1-5"),
    ("SEQ(A a, OR(C? b, D? c), E e)", FREE, "a1 c2 d3 e5", "1-2-5 1-3-5 1-5"),
    ("SEQ(A a, OR(C? b, D? c), E e)", MAXIMAL, "a1 e5", "1-5"),
    ("SEQ(A a, SEQ(C* c[])? t)", FREE, "a1", "1"),
    ("SEQ(A a, SEQ(C* c[])? t)", FREE, "a1 c2", "1 1-2"),
    ("SEQ(A a, SEQ(C* c[], D? d)? t, E e)", FREE, "a1 e5", "1-5"),
    ("SEQ(C* c[])?", FREE, "c1", "1"),
    ("AND(A a, OR(C? b, D? c))", FREE, "a1", "1"),
    # it stands as long as one alternative has it
    ("SEQ(A a, OR(SEQ(C? b, !D m), C? c), E e)", FREE, "a1 d3 e5", "1-5"),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 d3 e5", "1-5"),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 b2 e5", "1-5"),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 e5", "1-5"),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, "a1 b2 d3 e5", ""),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c))", FREE, "a1 b2", "1"),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c))", FREE, "a1", "1"),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c), D d)", "MATCHES ALL", "a1 d3 d7", "1-3 1-7"),
    ("SEQ(A a, STRICT SEQ(SEQ(C* c[])? t, D d))", FREE, "a1 e2 d3", "1-3"),
    ("SEQ(A a, STRICT SEQ(SEQ(C* c[])? t, D d))", FREE, "a1 d3", "1-3"),
]


@pytest.mark.parametrize(("pattern", "options", "events", "found"), EXAMPLES)
def test_it_is_found_once_in_any_order_of_arrival(
    pattern: str, options: str, events: str, found: str
) -> None:
    query, stream = compiled(pattern, options), of_text(events)
    for seed in range(10):
        arrivals = shuffled(Random(seed), stream, disorder=0.9 if seed else 0.0, copies=0.2)
        assert times(current(query, arrivals), stream) == found, arrivals


@pytest.mark.parametrize(
    ("branches", "events", "over_ns"),
    [
        ("!B n FOR 5 ns, C? c", "a1", 2),  # the other branch asks for nothing
        ("SEQ(C? b, !B n FOR 3 ns), SEQ(C? c, !D m FOR 5 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 d2", 6),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 b2", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 b5", 4),  # it stands by then
    ],
)
def test_it_is_final_when_one_alternative_is(branches: str, events: str, over_ns: int) -> None:
    query = compiled(f"SEQ(A a, OR({branches}))", f"{FREE} EMIT FINAL", within=100)
    engine, reader = Engine([query], emits_final=["q"]), Reader()
    for one in of_text(events):
        if one.time_ns < over_ns:
            feed(engine, reader, [one])
    engine.advance(over_ns - 1, 0)
    reader.read(taken(engine))
    assert not reader.standing
    engine.advance(over_ns, 0)
    for one in of_text(events):
        if one.time_ns >= over_ns:
            feed(engine, reader, [one])
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
OPTIONS = (
    FREE,
    FREE,
    MAXIMAL,
    MAXIMAL,
    "MATCHES ALL",
    "USING strict MATCHES ALL",
    "",
    "MATCHES BEST",
)
EXTRAS = (
    "",
    "",
    "EMIT EAGER",
    "EMIT FINAL",
    "SKIP PAST LAST",
    "SKIP TO NEXT",
    "TIES BY KEY",
)


def found_in_order(world: World) -> list[Content]:
    """What the oracle finds, each once."""
    found = contents(world.query, oracle(world.query.form, map(anew, world.stream)))
    assert len(set(found)) == len(found), world
    return found


def worlds_of(
    options: Sequence[str], extras: Sequence[str], errors: Sequence[int] = (0,), unit_ns: int = 1
) -> Iterator[World]:
    for seed in SEEDS:
        rng = Random(seed)
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
        yield World(seed, text, query, stream, arrivals)


@pytest.mark.slow
def test_in_any_order_it_is_the_oracle() -> None:
    found = 0
    for world in worlds_of(OPTIONS, (*EXTRAS, "EMIT SLACK 3 ns")):
        expected = found_in_order(world)
        assert current(world.query, world.arrivals).contents() == expected, world
        found += bool(expected)
    assert found > len(SEEDS) // 5


@pytest.mark.slow
def test_what_a_limit_leaves_is_the_same_in_any_order() -> None:
    cut = 0
    for world in worlds_of((FREE, MAXIMAL, "MATCHES ALL"), ("LIMIT 1", "LIMIT 2")):
        reader, other = current(world.query, world.stream), current(world.query, world.arrivals)
        assert reader.contents() == other.contents(), world
        assert set(reader.contents()) <= set(found_in_order(world)), world
        assert len(set(reader.contents())) == len(reader.contents()), world
        cut += bool(reader.overflows)
    assert cut > len(SEEDS) // 20


@pytest.mark.slow
def test_what_is_final_stays_and_a_restart_is_not_seen() -> None:
    for world in worlds_of(OPTIONS, EXTRAS):
        behind_ns = lateness_ns(world.arrivals)
        engine, reader, rng = Engine([world.query], emits_final=["q"]), Reader(), Random(world.seed)
        for one in world.arrivals:
            feed(engine, reader, [one])
            engine.advance(engine.clock_ns - behind_ns, 0)
            reader.read(taken(engine))
            assert len(set(reader.contents())) == len(reader.contents()), world
            if rng.random() < 0.3:
                state, kept = engine.snapshot(), [anew(each) for each in engine.entries()]
                engine = Engine([world.query], emits_final=["q"])
                engine.restore(state, kept)
        engine.end(0)
        reader.read(taken(engine))
        assert reader.contents() == found_in_order(world), world
        assert reader.final == set(reader.standing), world
        assert engine.retained == 0, world


@pytest.mark.parametrize("uncertain", ["nominal", "possible"])
@pytest.mark.slow
def test_every_world_lies_between(uncertain: Uncertain) -> None:
    """Confirmed ⊆ the matches of a world ⊆ possible; in any order of arrival the same."""
    seen: Counter[str] = Counter()
    modes = (FREE, MAXIMAL, "MATCHES ALL", "USING strict MATCHES ALL")
    for world in worlds_of(modes, ("",), (0, 0, 1, 2, 4, 6), UNIT_NS):
        query = Compiled(replace(world.query.query, uncertain=uncertain))
        told = standing(query, world, world.arrivals)
        for seed in range(3):
            arrivals = shuffled(Random(seed), world.stream, 0.9, copies=0.1)
            assert standing(query, world, arrivals) == told, (world, arrivals)
        sure = {match for match, confidence in told.items() if confidence == CONFIRMED}
        seen["sure"] += len(sure)
        seen["unsure"] += len(told) - len(sure)
        for true_times in worlds(Random(world.seed), world.stream, 12):
            true = set(contents(query, oracle(query.form, true_times)))
            assert sure <= true, (world, true_times)
            if uncertain == "possible":
                missing = true - told.keys()
                if world.query.query.matches == "maximal":  # each is part of a possible one
                    missing = {m for m in missing if not any(set(m) <= set(h) for h in told)}
                assert not missing, (world, true_times)
    assert min(seen.values()) > 10, seen


def standing(query: Compiled, world: World, arrivals: Sequence[Entry]) -> dict[Content, str]:
    """What stands at the end, each match once, and how sure it is."""
    most_ns = max(one.event.error_ns for one in world.stream)
    engine, reader, behind_ns = (
        Engine([query], max_error_ns=most_ns),
        Reader(),
        lateness_ns(arrivals),
    )
    for one in arrivals:
        feed(engine, reader, [one])
        engine.advance(engine.clock_ns - behind_ns, 0)
        reader.read(taken(engine))
    engine.end(0)
    reader.read(taken(engine))
    found = {content(result): result.confidence for result in reader.standing.values()}
    assert len(found) == len(reader.standing), (world, arrivals)
    return found


@pytest.mark.slow
def test_possible_ones_are_those_of_the_uncertain_oracle() -> None:
    found = 0
    for world in worlds_of((FREE,), ("",), (0, 0, 1, 2, 4), UNIT_NS):
        query = Compiled(replace(world.query.query, uncertain="possible"))
        try:
            possible, certain = possible_and_certain(query.form, list(map(anew, world.stream)))
        except Unsuited:
            continue
        told = standing(query, world, world.arrivals)
        assert told.keys() >= set(contents(query, possible)), world
        sure = {match for match, confidence in told.items() if confidence == CONFIRMED}
        if "STRICT" in world.text:
            continue  # several doubts together are not seen
        assert sorted(told) == contents(query, possible), world
        if "FOR" not in world.text and "(!" not in world.text:
            # Alternatives are decided at one instant, and no member may block at the start.
            assert sorted(sure) == contents(query, certain), world
        found += bool(possible)
    assert found > len(SEEDS) // 8
