"""Laws and examples of absence for a time (`!B FOR 5 s`): its meaning in any order of arrival, and
when it is decided.

A match that several branches or turns share, because they differ only in events that did not come,
is found once.

The judge of the law is `declared`. It tries all choices of events and checks the sentences of the
manual on each, without the normal form.

A match is its events, each bound to an alias. Several alternatives may have it, each with its own
negations and conditions; it stays while one of them has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
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
    restarted,
    taken,
    times,
)
from tests.topology.queries.pattern.generate import dice, entry, of_text, random_stream, shuffled
from tests.topology.queries.pattern.test_uncertain import lies_between
from tests.topology.queries.pattern.uncertain_oracle import Unsuited, possible_and_certain
from tests.topology.queries.pattern.unparse import unparse
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.tactics.rules import layouts_of
from topology.queries.pattern.match.twins import Twins
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Emit

SEEDS = seeds_of_today(300)
FREE = "USING skip_till_any MATCHES ALL"

EXAMPLES = [
    # Pattern, options, and the matches in these events, by times.
    ("SEQ(A a, !B FOR 5 ns)", "", {"a1 b6": "1"}),  # An event exactly at its end does not block.
    ("SEQ(A a, !B FOR 5 ns)", "", {"a1 b1": "1", "a1 b5": ""}),
    ("SEQ(A a, C c, !B FOR 50 ns)", "", {"a1 c9 b58": "", "a1 c9 b59": "1-9"}),  # beyond the window
    ("SEQ(A a, !B FOR 5 ns, C c)", "", {"a1 c4 c6": "1-6", "a1 c4 b5 c6": ""}),
    ("SEQ(!B FOR 5 ns, C c)", "", {"b1 c6 b7 c8": "6"}),
    ("SEQ(A+ a[], !B FOR 3 ns, C c)", "", {"a1 a3 b5 c7": ""}),  # It begins at a3.
    ("SEQ(AND(A a, D d), !B FOR 3 ns, C c)", "", {"a1 d3 b4 c7": "", "d1 a3 b6 c7": "1-3-7"}),
    ("SEQ(A a, STRICT !B FOR 3 ns)", "", {"a1 c2 b3": "1", "a1 b3 c3": ""}),
    # No event of the match blocks it, nor one at a neighbour's time, whatever its key.
    ("SEQ(A a, STRICT !C, C c)", FREE, {"a1 c2": "1-2", "a1 c2 c3": "1-2", "a1 b2 c3": "1-3"}),
    ("SEQ(A a, !B, C c)", "TIES BY KEY", {"a1 b1 c1": "1-1", "a1 b1 c2": "1-2", "a1 b2 c3": ""}),
    # In an OR, an absence is its own branch; only BEST prefers the first branch.
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", FREE, {"a1 c3 d4": "1-3-4", "a1 b3 c4 d7": "1-4-7"}),
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", FREE, {"a1 b6 c4 d7": "1-4-7 1-7"}),
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", "MATCHES BEST", {"a1 b6 c4 d7": "1-4-7"}),
    ("SEQ(A a, OR(!B FOR 5 ns, C c), D d)", "MATCHES BEST", {"a1 b6 c4 d7": "1-7"}),
    ("SEQ(A a, OR(C c, !B FOR 3 ns), !D FOR 2 ns)", FREE, {"a1 c2 d5": "1-2"}),  # in (4, 6)
    ("SEQ(A a, AND(OR(C c, !B FOR 3 ns), D d))", FREE, {"a1 d2 b5": "1-2"}),
    # In an AND, an absence begins with the AND.
    ("SEQ(A a, AND(!B FOR 5 ns, C c))", "", {"a1 c2 b7": "1-2", "a1 c2 b5": "", "a1 b6 c9": "1-9"}),
    ("SEQ(A a, AND(!B FOR 2 ns, !C FOR 5 ns))", "", {"a1 b4": "1", "a1 c4": ""}),
    ("SEQ(A a, AND(!B, C c), D d)", "", {"a1 c2 b3 d4": "1-2-4", "a1 b2 c3 d4": ""}),
    # Absences follow one another, and stand beside optional components.
    ("SEQ(A a, !B FOR 3 ns, !C FOR 4 ns)", "", {"a1 b5 c3": "1", "a1 b3": "", "a1 c7": ""}),
    ("SEQ(A a, !B FOR 3 ns, !C FOR 4 ns, D d)", "", {"a1 d7 d8": "1-8"}),
    ("SEQ(A a, !B FOR 3 ns, C? c)", "MATCHES ALL", {"a1 c2 c4": "1 1-4"}),
    ("SEQ(A a, C? c, !B FOR 3 ns, D d)", "MATCHES ALL", {"a1 c2 d4 d5": "1-2-5 1-4"}),
    ("SEQ(A a, !B FOR 3 ns, C? c, D d)", "MATCHES ALL", {"a1 d3 d4": "1-4"}),
    ("SEQ(!B FOR 3 ns, C? c, D d)", "MATCHES ALL", {"b1 c3 d5": "5"}),
    # A FOR begins when everything before it is over, including other FORs.
    ("SEQ(A a, !B FOR 3 ns, AND(C c, !B FOR 2 ns))", FREE, {"a1 b5 c6": ""}),  # in (4, 6)
    ("SEQ(A a, !B FOR 3 ns, AND(C c, !B FOR 2 ns))", FREE, {"a1 b6 c7": "1-7"}),
    ("SEQ(A a, AND(C c, !B FOR 5 ns), !D FOR 3 ns)", FREE, {"a1 c3 d8": ""}),  # in (6, 9)
    ("SEQ(A a, AND(C c, !B FOR 5 ns), !D FOR 3 ns)", FREE, {"a1 c3 d9": "1-3"}),
    ("SEQ(A a, AND(C c, !B FOR 2 ns), !D FOR 3 ns)", FREE, {"a1 c5 d7": ""}),  # in (5, 8)
    ("SEQ(A a, SEQ(!B FOR 3 ns, !C FOR 2 ns, D d))", FREE, {"a1 c5 d7": ""}),  # in (4, 6)
    ("SEQ(A a, SEQ(B* d[], !C FOR 5 ns, B* f[]){2})", "MATCHES BEST", {"a2 c8": "", "a2 c13": "2"}),
    ("SEQ(A a, !C FOR 3 ns, D? d, !B b, D x)", FREE, {"a1 b2 d9": "1-9"}),  # !B begins at 4
    ("SEQ(A a, !C FOR 3 ns, D? d, !B b, D x)", FREE, {"a1 b5 d9": ""}),
    # A condition on the distance also limits the absence.
    ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns", "", {"a1 b5": "", "a1 b6": "1"}),
    ("SEQ(A a, !B b) WHERE b.time - a.time <= 5 ns", "", {"a1 b6": ""}),
    ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 50 ns", "", {"a1 c9 b12": "1-9"}),  # the window
    ("SEQ(A a, C? c, !B b) WHERE b.time - c.time < 2 ns", "", {"a1 b9": ""}),  # Needs a c.
    # A match that two branches or turns share is found once.
    ("SEQ(A a, OR(C? b, C? c))", FREE, {"a1": "1"}),
    ("SEQ(A a, OR(C? b, C? c))", "MATCHES ALL", {"a1 c2": "1 1-2 1-2"}),  # c as b, and as c
    ("SEQ(A a, OR(C? b, D? c), E e)", FREE, {"a1 c2 d3 e5": "1-2-5 1-3-5 1-5"}),
    ("SEQ(A a, SEQ(C* c[])? t)", FREE, {"a1 c2": "1 1-2"}),
    ("SEQ(C* c[])?", FREE, {"c1": "1"}),
    ("AND(A a, OR(C? b, D? c))", FREE, {"a1": "1"}),
    # A match stays while one alternative has it.
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, {"a1 b2 e5": "1-5"}),
    ("SEQ(A a, OR(SEQ(C? b, !D m), SEQ(C? c, !B n)), E e)", FREE, {"a1 b2 d3 e5": ""}),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c))", FREE, {"a1 b2": "1"}),
    ("SEQ(A a, OR(!B n FOR 5 ns, C? c), D d)", "MATCHES ALL", {"a1 d3 d7": "1-3 1-7"}),
    ("SEQ(A a, STRICT SEQ(SEQ(C* c[])? t, D d))", FREE, {"a1 d3": "1-3"}),
]


@pytest.mark.parametrize(("pattern", "options", "cases"), EXAMPLES)
def test_absences_have_expected_matches(pattern: str, options: str, cases: dict[str, str]) -> None:
    query = compiled(pattern, options)
    for events, found in cases.items():
        assert in_any_order(query, of_text(events)) == {found}, events


@pytest.mark.parametrize("emit", ["EAGER", "FINAL"])
@pytest.mark.parametrize(
    ("pattern", "events", "over_ns"),
    [
        ("SEQ(A a, !B FOR 5 ns)", "a1", 6),  # The FOR ends before the window.
        ("SEQ(A a, C c, !B FOR 200 ns)", "a1 c4", 204),
        ("SEQ(A a, AND(!B FOR 5 ns, C c))", "a1 c2", 6),
        ("SEQ(A a, AND(!B FOR 3 ns, !C FOR 5 ns))", "a1", 6),
        ("SEQ(A a, !B FOR 5 ns, !C FOR 5 ns)", "a1", 11),
        ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns", "a1", 6),
        ("SEQ(A a, !B b) WHERE b.time - a.time <= 5 ns", "a1", 7),
        ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 5 ns", "a1 c4", 9),
        ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 5 ns", "a1 c99", 102),  # The window is over.
        ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns AND b.time - a.time < 9 ns", "a1", 6),
    ],
)
def test_absence_is_emitted_at_end(pattern: str, events: str, over_ns: int, emit: str) -> None:
    query = compiled(pattern, f"EMIT {emit}", within=100)
    engine, reader = Engine([query], emits_final=["q"]), Reader()
    feed(engine, reader, of_text(events))
    for is_over in (False, True):
        one = entry("Z", over_ns - 1 + is_over, 9 + is_over)
        feed(engine, reader, [one])
        engine.advance(one.time_ns, 0)
        reader.read(taken(engine))
        assert bool(reader.standing) == is_over
        assert len(reader.final) == is_over


SHAPES = (
    "SEQ(A a, !B n FOR {} ns)",
    "SEQ(A a, !B n FOR {} ns, C c)",
    "SEQ(!B n FOR {} ns, C c)",
    "SEQ(A a, C c, !B n FOR {} ns)",
    "SEQ(!A m FOR {} ns, A a, !A n FOR {} ns)",
    "SEQ(A a, !B n FOR {} ns, C c, !A m FOR {} ns)",
    "SEQ(A+ a[], !B n FOR {} ns, C+ c[])",
    "SEQ(A+ a[], !B n FOR {} ns)",
    "SEQ(AND(A a, C c), !B n FOR {} ns)",
    "AND(SEQ(A a, !B n FOR {} ns), C c)",
    "OR(SEQ(A a, !B n FOR {} ns), SEQ(A x, C c, !A m FOR {} ns))",
    "SEQ(A a, C? x, A c, !B n FOR {} ns)",
    "SEQ(A a, STRICT !B n FOR {} ns)",
    "SEQ(A a, !B n FOR {} ns, C? c)",
    "SEQ(A a, C? c, !B n FOR {} ns)",
    "SEQ(A a, C* c[], !B n FOR {} ns, A d)",
    "SEQ(A a, !B n FOR {} ns, C? c, A d)",
    "SEQ(!B n FOR {} ns, C? c, A a)",
    "SEQ(A a, !B n FOR {} ns, !C m FOR {} ns)",
    "SEQ(A a, !B n FOR {} ns, !C m FOR {} ns, A c)",
    "SEQ(A a, AND(!B n FOR {} ns, C c))",
    "SEQ(A a, AND(!B n FOR {} ns, C c), A d)",
    "SEQ(A a, AND(!B n FOR {} ns, !C m FOR {} ns))",
    "SEQ(A a, SEQ(C c, !B n FOR {} ns){{1,2}})",
    "SEQ(A a, !B n FOR {} ns, AND(C c, !B m FOR {} ns))",
    "SEQ(A a, AND(C c, !B n FOR {} ns), !B m FOR {} ns)",
    "SEQ(A a, AND(C c, !B n FOR {} ns), !B m FOR {} ns, A d)",
    "SEQ(A a, SEQ(!B n FOR {} ns, !C m FOR {} ns, A d))",
    "SEQ(A a, !B n) WHERE n.time - a.time < {} ns",
    "SEQ(A a, C c, !B n) WHERE n.time - c.time <= {} ns",
    "SEQ(AND(A a, C c), !B n) WHERE n.time - a.time < {} ns",
    "SEQ(A a, STRICT !B n) WHERE n.time - a.time <= {} ns",
    "OR(SEQ(A a, !B n), SEQ(A+ x[], C c, !A m)) WHERE m.time - c.time < {} ns",
)
OPTIONS = (
    "",
    "MATCHES ALL",
    "MATCHES BEST",
    FREE,
    "USING skip_till_any",
    "EMIT EAGER",
    "SKIP PAST LAST",
    "TIES BY KEY",
)


def worlds() -> Iterator[World]:
    for seed, rng in dice(SEEDS):
        shape = rng.choice(SHAPES)
        pattern = shape.format(*(rng.randint(1, 9) for _ in range(shape.count("{}"))))
        options = rng.choice(OPTIONS)
        word = "AND" if "WHERE" in pattern else "WHERE"
        where = f"{word} n.x >= 2 " if rng.random() < 0.3 else ""
        text = f"QUERY q PATTERN {pattern} {where}WITHIN {rng.randint(2, 8)} ns {options}"
        stream = random_stream(rng, types="AABC")
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.4, 0.9)), copies=0.1)
        yield World(seed, Compiled(parse_query(text)), stream, arrivals)


@pytest.mark.in_turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("emit", ["eager", "slack"])
def test_watermark_ends_absence_like_event(emit: Emit) -> None:
    """A watermark gives the same findings as an event at its time that no query asks for.

    Other events are late, and the engine is restarted.
    """
    found = 0
    for world in worlds():
        if world.query.shape.strict:
            continue
        rng, slack_ns = Random(world.seed), 3 if emit == "slack" else None
        query = world.asking(emit=emit, slack_ns=slack_ns)
        told, heard = Engine([query]), Engine([query])
        for at, one in enumerate(world.arrivals):
            for engine in (told, heard):
                engine.accept(anew(one), at)
            watermark_ns = max(told.clock_ns, heard.clock_ns) + rng.choice((0, 1, 3, 9))
            told.advance_clock(watermark_ns, at)
            (mark,) = of_text(f"z{watermark_ns}")
            mark.event.at_ns = at
            heard.accept_unused(mark.event)
            findings = taken(told)
            assert findings == taken(heard), world
            found += len(findings)
            if rng.random() < 0.3:
                told = restarted(told, [query])
    assert found > len(SEEDS) // 5


def declared(stream: Sequence[Entry], lengths: Sequence[int], within: int) -> list[tuple[int, ...]]:
    """Return the places of all matches of SEQ(!B FOR, A a, !B FOR, C c, !B FOR) in the stream."""
    bs = [one.time_ns for one in stream if one.type == "B"]
    first, middle, last = lengths
    found: list[tuple[int, ...]] = []
    for at, (a, c) in enumerate(product(stream, stream)):
        r, s = a.time_ns, c.time_ns
        if a.type == "A" and c.type == "C" and r + middle <= s <= r + within:
            gaps = ((r - first, r), (r, r + middle), (s, s + last))
            if not any(low < b < high for b in bs for low, high in gaps):
                found.append(divmod(at, len(stream)))
    return found


@pytest.mark.slow
def test_absence_follows_the_manual() -> None:
    found = 0
    for seed, rng in dice(SEEDS):
        lengths = [rng.randint(1, 5) for _ in range(3)]
        gaps = [f"!B FOR {length} ns" for length in lengths]
        within = rng.randint(2, 8)
        query = compiled(f"SEQ({gaps[0]}, A a, {gaps[1]}, C c, {gaps[2]})", FREE, within)
        stream = random_stream(rng, types="AACCB")
        place = {one.identity: at for at, one in enumerate(stream)}
        reader = current(query, shuffled(rng, stream, 0.6, copies=0.1))
        mine = sorted(tuple(place[each] for _, each in it) for it in reader.contents())
        assert mine == sorted(declared(stream, lengths, within)), (seed, stream)
        found += len(mine)
    assert found > len(SEEDS) // 5


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("end", ["", ", D d", ", !D e FOR 3 ns"])
@pytest.mark.parametrize("branch", ["C c", "SEQ(C c, B x)", "AND(C c, B x)"])
def test_or_finds_what_its_branches_find(branch: str, end: str) -> None:
    """Queries have MATCHES ALL, and events arrive in any order."""
    both = compiled(f"SEQ(A a, OR({branch}, !B b FOR 4 ns){end})", FREE)
    apart = [compiled(f"SEQ(A a, {part}{end})", FREE) for part in (branch, "!B b FOR 4 ns")]
    for seed, rng in dice(SEEDS):
        stream = random_stream(rng, 7)
        wanted = [one for query in apart for one in current(query, stream).contents()]
        found = current(both, rng.sample(stream, len(stream))).contents()
        assert found == sorted(wanted), seed


# -- found once -------------------------------------------------------------------------------

ONCE_SEEDS = seeds_of_today(400)
UNIT_NS = 4
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"


@pytest.mark.parametrize(
    ("branches", "events", "over_ns"),
    [
        ("!B n FOR 5 ns, C? c", "a1", 2),  # The other branch has no FOR.
        ("SEQ(C? b, !B n FOR 3 ns), SEQ(C? c, !D m FOR 5 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1", 4),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 d2", 6),
        ("SEQ(C? b, !B n FOR 5 ns), SEQ(C? c, !D m FOR 3 ns)", "a1 b5", 4),  # It is final by then.
    ],
)
def test_first_final_alternative_decides(branches: str, events: str, over_ns: int) -> None:
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
def test_limit_counts_a_match_once(limit: int) -> None:
    query = compiled("SEQ(A a, OR(B? b, C? c), E e)", f"{FREE} LIMIT {limit}")
    stream = of_text("a1 a2 e5")
    for seed in range(10):
        reader = current(query, shuffled(Random(seed), stream, 0.9, copies=0.2))
        found = times(reader, stream).split()
        assert set(found) <= {"1-5", "2-5"}
        assert len(found) == min(limit, 2)
        assert bool(reader.overflows) == (limit < 2)


ONCE_SHAPES = (
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
ONCE_OPTIONS = (FREE, FREE, MAXIMAL, MAXIMAL, *SOME)
EXTRAS = ("", "", "EMIT EAGER", "EMIT FINAL", "SKIP PAST LAST", "SKIP TO NEXT", "TIES BY KEY")


def worlds_of(
    options: Sequence[str], extras: Sequence[str], errors: Sequence[int] = (0,), unit_ns: int = 1
) -> Iterator[World]:
    for seed, rng in dice(ONCE_SEEDS):
        pattern, where = rng.choice(ONCE_SHAPES), rng.choice(CONDITIONS)
        is_asked = rng.random() < 0.4 and f" {where[0]}" in pattern
        condition = f"WHERE {where}" if is_asked else ""
        within = f"WITHIN {rng.randint(2, 8) * unit_ns} ns"
        option = f"{rng.choice(options)} {rng.choice(extras)}"
        text = f"QUERY q PATTERN {pattern} {condition} {within} {option}"
        query = Compiled(parse_query(text))
        assert Twins(layouts_of(query.form)).may_be
        stream = random_stream(rng, 7, errors, types="AABC", unit_ns=unit_ns)
        for segment, one in enumerate(stream):  # Each event has its own clock.
            one.event.segment = segment
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.4, 0.9)), copies=0.1)
        yield World(seed, query, stream, arrivals)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["for a time", "found once"])
def test_any_order_matches_the_oracle(kind: str) -> None:
    once = worlds_of(ONCE_OPTIONS, (*EXTRAS, "EMIT SLACK 3 ns"))
    all_worlds = once if kind == "found once" else worlds()
    found = [world.is_as_the_oracle_says() for world in all_worlds]
    assert sum(found) > len(found) // 5


@pytest.mark.slow
def test_limit_is_the_same_in_any_order() -> None:
    cut = 0
    for world in worlds_of((FREE, MAXIMAL, "MATCHES ALL"), ("LIMIT 1", "LIMIT 2")):
        reader, other = current(world.query, world.stream), current(world.query, world.arrivals)
        assert reader.contents() == other.contents(), world
        assert set(reader.contents()) <= set(world.wanted()), world
        assert len(set(reader.contents())) == len(reader.contents()), world
        cut += bool(reader.overflows)
    assert cut > len(ONCE_SEEDS) // 20


def standing(query: Compiled, world: World, arrivals: Sequence[Entry]) -> Standing:
    """Return the confidence of each match at the end; assert that no match is there twice."""
    reader = followed(query, arrivals, max_error_ns=world.largest_ns)
    assert len(reader.confidences()) == len(reader.standing), (world, arrivals)
    return reader.confidences()


@pytest.mark.slow
def test_grades_bound_every_world() -> None:
    """Results are the same in any order of arrival."""
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
def test_possible_matches_uncertain_oracle() -> None:
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
            continue  # The engine does not combine several uncertainties.
        assert sorted(told) == contents(query, possible), world
        if "FOR" not in text and "(!" not in text:
            # Alternatives are decided at one instant, and no member may block at the start.
            assert sorted(confirmed(told)) == contents(query, certain), world
        found += bool(possible)
    assert found > len(ONCE_SEEDS) // 8
