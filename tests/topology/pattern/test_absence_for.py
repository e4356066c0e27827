"""Absence for a time (`!B FOR 5 s`): what it means, in any order of arrival, and when it is known.

Judge of the law: `declared`, which tries all choices of events and asks the sentences of the
manual of each; it knows nothing of the normal form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import (
    Reader,
    World,
    anew,
    compiled,
    current,
    feed,
    in_any_order,
    restarted,
    taken,
)
from tests.topology.pattern.generate import dice, entry, of_text, random_stream, shuffled
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Emit

SEEDS = seeds_of_today(300)
FREE = "USING skip_till_any MATCHES ALL"

EXAMPLES = [
    # pattern, options, what is found in these events, by times
    ("SEQ(A a, !B FOR 5 ns)", "", {"a1 b6": "1"}),  # what is exactly at its end does not block
    ("SEQ(A a, !B FOR 5 ns)", "", {"a1 b1": "1", "a1 b5": ""}),
    ("SEQ(A a, C c, !B FOR 50 ns)", "", {"a1 c9 b58": "", "a1 c9 b59": "1-9"}),  # beyond the window
    ("SEQ(A a, !B FOR 5 ns, C c)", "", {"a1 c4 c6": "1-6", "a1 c4 b5 c6": ""}),
    ("SEQ(!B FOR 5 ns, C c)", "", {"b1 c6 b7 c8": "6"}),
    ("SEQ(A+ a[], !B FOR 3 ns, C c)", "", {"a1 a3 b5 c7": ""}),  # from the last of the group
    ("SEQ(AND(A a, D d), !B FOR 3 ns, C c)", "", {"a1 d3 b4 c7": "", "d1 a3 b6 c7": "1-3-7"}),
    ("SEQ(A a, STRICT !B FOR 3 ns)", "", {"a1 c2 b3": "1", "a1 b3 c3": ""}),
    # in an OR it is where no branch comes to pass; ONE does not ask which is first
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", FREE, {"a1 c3 d4": "1-3-4", "a1 b3 c4 d7": "1-4-7"}),
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", FREE, {"a1 b6 c4 d7": "1-4-7 1-7"}),
    ("SEQ(A a, OR(C c, !B FOR 5 ns), D d)", "MATCHES BEST", {"a1 b6 c4 d7": "1-4-7"}),
    ("SEQ(A a, OR(!B FOR 5 ns, C c), D d)", "MATCHES BEST", {"a1 b6 c4 d7": "1-7"}),
    ("SEQ(A a, OR(C c, !B FOR 3 ns), !D FOR 2 ns)", FREE, {"a1 c2 d5": "1-2"}),  # in (4, 6)
    ("SEQ(A a, AND(OR(C c, !B FOR 3 ns), D d))", FREE, {"a1 d2 b5": "1-2"}),
    # in an AND it begins with the AND
    ("SEQ(A a, AND(!B FOR 5 ns, C c))", "", {"a1 c2 b7": "1-2", "a1 c2 b5": "", "a1 b6 c9": "1-9"}),
    ("SEQ(A a, AND(!B FOR 2 ns, !C FOR 5 ns))", "", {"a1 b4": "1", "a1 c4": ""}),
    ("SEQ(A a, AND(!B, C c), D d)", "", {"a1 c2 b3 d4": "1-2-4", "a1 b2 c3 d4": ""}),
    # one after the other, and beside what may be absent
    ("SEQ(A a, !B FOR 3 ns, !C FOR 4 ns)", "", {"a1 b5 c3": "1", "a1 b3": "", "a1 c7": ""}),
    ("SEQ(A a, !B FOR 3 ns, !C FOR 4 ns, D d)", "", {"a1 d7 d8": "1-8"}),
    ("SEQ(A a, !B FOR 3 ns, C? c)", "MATCHES ALL", {"a1 c2 c4": "1 1-4"}),
    ("SEQ(A a, C? c, !B FOR 3 ns, D d)", "MATCHES ALL", {"a1 c2 d4 d5": "1-2-5 1-4"}),
    ("SEQ(A a, !B FOR 3 ns, C? c, D d)", "MATCHES ALL", {"a1 d3 d4": "1-4"}),
    ("SEQ(!B FOR 3 ns, C? c, D d)", "MATCHES ALL", {"b1 c3 d5": "5"}),
    # a FOR begins when all before it is over, FORs too
    ("SEQ(A a, !B FOR 3 ns, AND(C c, !B FOR 2 ns))", FREE, {"a1 b5 c6": ""}),  # in (4, 6)
    ("SEQ(A a, !B FOR 3 ns, AND(C c, !B FOR 2 ns))", FREE, {"a1 b6 c7": "1-7"}),
    ("SEQ(A a, AND(C c, !B FOR 5 ns), !D FOR 3 ns)", FREE, {"a1 c3 d8": ""}),  # in (6, 9)
    ("SEQ(A a, AND(C c, !B FOR 5 ns), !D FOR 3 ns)", FREE, {"a1 c3 d9": "1-3"}),
    ("SEQ(A a, AND(C c, !B FOR 2 ns), !D FOR 3 ns)", FREE, {"a1 c5 d7": ""}),  # in (5, 8)
    ("SEQ(A a, SEQ(!B FOR 3 ns, !C FOR 2 ns, D d))", FREE, {"a1 c5 d7": ""}),  # in (4, 6)
    ("SEQ(A a, SEQ(B* d[], !C FOR 5 ns, B* f[]){2})", "MATCHES BEST", {"a2 c8": "", "a2 c13": "2"}),
    ("SEQ(A a, !C FOR 3 ns, D? d, !B b, D x)", FREE, {"a1 b2 d9": "1-9"}),  # !B begins at 4
    ("SEQ(A a, !C FOR 3 ns, D? d, !B b, D x)", FREE, {"a1 b5 d9": ""}),
    # a condition on the distance limits the absence, too
    ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns", "", {"a1 b5": "", "a1 b6": "1"}),
    ("SEQ(A a, !B b) WHERE b.time - a.time <= 5 ns", "", {"a1 b6": ""}),
    ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 50 ns", "", {"a1 c9 b12": "1-9"}),  # the window
    ("SEQ(A a, C? c, !B b) WHERE b.time - c.time < 2 ns", "", {"a1 b9": ""}),  # asked of no c
]


@pytest.mark.parametrize(("pattern", "options", "cases"), EXAMPLES)
def test_what_it_means_in_any_order_of_arrival(
    pattern: str, options: str, cases: dict[str, str]
) -> None:
    query = compiled(pattern, options)
    for events, found in cases.items():
        assert in_any_order(query, of_text(events)) == {found}, events


@pytest.mark.parametrize("emit", ["EAGER", "FINAL"])
@pytest.mark.parametrize(
    ("pattern", "events", "over_ns"),
    [
        ("SEQ(A a, !B FOR 5 ns)", "a1", 6),  # not at 101, when the window is over
        ("SEQ(A a, C c, !B FOR 200 ns)", "a1 c4", 204),
        ("SEQ(A a, AND(!B FOR 5 ns, C c))", "a1 c2", 6),
        ("SEQ(A a, AND(!B FOR 3 ns, !C FOR 5 ns))", "a1", 6),
        ("SEQ(A a, !B FOR 5 ns, !C FOR 5 ns)", "a1", 11),
        ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns", "a1", 6),
        ("SEQ(A a, !B b) WHERE b.time - a.time <= 5 ns", "a1", 7),
        ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 5 ns", "a1 c4", 9),
        ("SEQ(A a, C c, !B b) WHERE b.time - c.time < 5 ns", "a1 c99", 102),  # the window's end
        ("SEQ(A a, !B b) WHERE b.time - a.time < 5 ns AND b.time - a.time < 9 ns", "a1", 6),
    ],
)
def test_it_is_emitted_when_its_time_is_over(
    pattern: str, events: str, over_ns: int, emit: str
) -> None:
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


@pytest.mark.slow
def test_in_any_order_it_is_the_oracle() -> None:
    assert sum(world.is_as_the_oracle_says() for world in worlds()) > len(SEEDS) // 5


@pytest.mark.in_turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("emit", ["eager", "slack"])
def test_a_watermark_ends_it_as_an_event_in_order_does(emit: Emit) -> None:
    """One that no query asks for, of that time; however late others come, and over restarts."""
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
            told.pass_time(watermark_ns, at)
            (mark,) = of_text(f"z{watermark_ns}")
            mark.event.at_ns = at
            heard.pass_by(mark.event)
            findings = taken(told)
            assert findings == taken(heard), world
            found += len(findings)
            if rng.random() < 0.3:
                told = restarted(told, [query])
    assert found > len(SEEDS) // 5


def declared(stream: Sequence[Entry], lengths: Sequence[int], within: int) -> list[tuple[int, ...]]:
    """The sequence numbers of all matches of SEQ(!B FOR, A a, !B FOR, C c, !B FOR)."""
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
def test_it_is_what_the_manual_says() -> None:
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
def test_an_or_finds_what_its_branches_find(branch: str, end: str) -> None:
    """MATCHES ALL; in any order of arrival."""
    both = compiled(f"SEQ(A a, OR({branch}, !B b FOR 4 ns){end})", FREE)
    apart = [compiled(f"SEQ(A a, {part}{end})", FREE) for part in (branch, "!B b FOR 4 ns")]
    for seed, rng in dice(SEEDS):
        stream = random_stream(rng, 7)
        wanted = [one for query in apart for one in current(query, stream).contents()]
        found = current(both, rng.sample(stream, len(stream))).contents()
        assert found == sorted(wanted), seed
