"""Examples for the oracle of patterns: published examples, and the rule for each unusual shape.

[L] and [S] are papers cited in patterns.md. A match is written as its events in order.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.generate import (
    MODES,
    entry,
    of_text,
    random_query,
    random_stream,
)
from tests.topology.queries.pattern.oracle import oracle, valid
from tests.topology.queries.pattern.places import (
    ALL,
    MAXIMAL,
    NEXT,
    NEXT_ALL,
    STRICT,
    form_of,
    judged,
)
from topology.queries.pattern.language.check import check
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.normal_form import normalise
from topology.queries.pattern.tree.syntax import EventNode
from topology.queries.pattern.tree.walk import find_components, find_expressions, walk

SEEDS = seeds_of_today(150)
BEST = "MATCHES BEST"
MINI = "b1 b2 a3 a4 a5 a6 a7 b8 a9 c10 b11 b12 a13 b14 a15 b16 a17 a18 c19 c20"
"""A stream of [L 4.3]."""


def found(pattern: str, events: str | list[Entry], options: str = "") -> list[str]:
    """Return each match's events in order; the window is 10 ns unless the pattern has one."""
    pattern, _, within = pattern.partition(" WITHIN ")
    stream = of_text(events) if isinstance(events, str) else events
    matches = judged(form_of(pattern, options, int(within or 10)), stream)
    return [" ".join(f"{e.type.lower()}{e.time_ns}" for _, e in it.label()) for it in matches]


Rule = tuple[str, str | list[Entry], str, list[str]]
"""A pattern, events, options, and the matches."""


# -- published --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "counts"),
    [
        ("SEQ(A, B, C)", (8, 8, 15, 15, 0)),
        ("SEQ(A, B+, C)", (8, 12, 10, 28, 0)),
        ("SEQ(A+, B+, C)", (8, 26, 6, 61, 0)),
        ("SEQ(A, !B, C)", (3, 3, 5, 5, 2)),
        ("SEQ(!B, A, C)", (0, 0, 1, 1, 0)),
        ("SEQ(A, C, !B)", (4, 4, 9, 9, 1)),
    ],
)
def test_mini_stream_has_published_counts(pattern: str, counts: tuple[int, ...]) -> None:
    """Source: patterns.md 5."""
    modes = (NEXT, NEXT_ALL, MAXIMAL, ALL, STRICT)
    assert tuple(len(found(pattern, MINI, mode)) for mode in modes) == counts


AABBC_ONE = [
    "a3 a4 a5 a6 a7 b8 c10", "a4 a5 a6 a7 b8 c10", "a5 a6 a7 b8 c10", "a6 a7 b8 c10", "a7 b8 c10",
    "a9 b11 b12 b14 b16 c19", "a13 b14 b16 c19", "a15 b16 c19",
]  # fmt: skip
AABBC_MAXIMAL = [
    "a3 a4 a5 a6 a7 b8 c10", "a9 b11 b12 b14 b16 c19", "a9 a13 b14 b16 c19",
    "a9 a13 a15 b16 c19", "a13 b14 b16 c20", "a13 a15 b16 c20",
]  # fmt: skip


PUBLISHED: list[Rule] = [
    ("SEQ(A+, B+, C)", MINI, NEXT, AABBC_ONE),
    ("SEQ(A+, B+, C)", MINI, MAXIMAL, AABBC_MAXIMAL),
    ("SEQ(A, !B, C)", MINI, NEXT, ["a9 c10", "a17 c19", "a18 c19"]),
    ("SEQ(!B, A, C)", MINI, ALL, ["a9 c19"]),
    ("SEQ(A, C, !B)", MINI, STRICT, ["a18 c19"]),
    # [L 4.4]
    ("SEQ(A+, B+, C)", "a1 a2 b3 a4 b5 b6 c7", MAXIMAL, ["a1 a2 b3 b5 b6 c7", "a1 a2 a4 b5 b6 c7"]),
    # [S fig 2, 3, 4.3], with the window inclusive
    ("SEQ(A, B, D)", "a3 b6 a7 d10 b11 d15", ALL, ["a3 b6 d10", "a7 b11 d15"]),
    (
        "SEQ(A, B, D)",
        "a3 b6 a7 b8 d10 b11 d15",
        ALL,
        ["a3 b6 d10", "a3 b8 d10", "a7 b8 d10", "a7 b8 d15", "a7 b11 d15"],
    ),
    ("SEQ(A, B, D)", "a0 b1 d2 a3 b6", ALL, ["a0 b1 d2"]),
    ("SEQ(A, B, D) WITHIN 7", "a3 b6 a7 d10 b11 d15", ALL, ["a3 b6 d10"]),
    ("SEQ(A, B, D) WITHIN 8", "a3 b6 a7 d10 b11 d15", ALL, ["a3 b6 d10", "a7 b11 d15"]),
]


# -- rules ------------------------------------------------------------------------------------


RULES: list[Rule] = [
    # order
    ("SEQ(A, B)", "a1 b1 b2", ALL, ["a1 b2"]),
    ("SEQ(A, B)", "a1 b1 b2", f"{ALL} TIES BY KEY", ["a1 b1", "a1 b2"]),
    ("SEQ(A+, B)", "a1 a1 b2", MAXIMAL, ["a1 a1 b2"]),
    ("SEQ(AND(A, B), C)", "b1 a2 c3 a4", ALL, ["b1 a2 c3"]),
    ("SEQ(A, B)", "a1 b11 a2 b13", ALL, ["a1 b11", "a2 b11"]),
    # strategies
    ("SEQ(A, ANY B)", "a1 b2 b3", NEXT_ALL, ["a1 b2", "a1 b3"]),
    ("SEQ(A, NEXT B)", "a1 b2 b3", ALL, ["a1 b2"]),
    ("SEQ(A, B+ LOOP STRICT)", "a1 b2 c3 b4", ALL, ["a1 b2", "a1 b4"]),
    ("SEQ(A, B+ LOOP ANY, C)", "a1 b2 b3 b4 c5", NEXT_ALL, [
        "a1 b2 c5", "a1 b2 b3 c5", "a1 b2 b3 b4 c5", "a1 b2 b4 c5"]),
    ("SEQ(A, STRICT SEQ(B, C))", "a1 d2 b3 c4 a5 b6 d7 c8", NEXT_ALL, ["a5 b6 c8"]),
    ("SEQ(A, STRICT AND(B, C))", "a1 c2 b3 a4 c5 d6 b7", NEXT_ALL, ["a1 c2 b3"]),
    # counts, and optional components
    ("SEQ(A, B{2,3}, C)", "a1 b2 b3 b4 b5 c6", NEXT, ["a1 b2 b3 b4 c6"]),
    ("SEQ(A, B{2,3}, C)", "a1 b2 c3 b4 b5 b6 c7", NEXT, ["a1 b2 b4 b5 c7"]),
    ("SEQ(A, B?, C)", "a1 b2 c3", ALL, ["a1 c3", "a1 b2 c3"]),
    ("SEQ(A, B* b, C)", "b1 a2 c4", MAXIMAL, ["a2 c4"]),
    ("SEQ(A, B? b, C) WHERE b.x > 1", "a1 b2=1 b3=2 c4", MAXIMAL, ["a1 b3 c4"]),
    ("SEQ(A?, B)", "a1 b2", NEXT, ["a1 b2", "b2"]),
    # One walk: the first event for the successor closes the group, unless it is greedy.
    ("SEQ(A, B|C+, C)", "a1 b2 c3 b4 c5", NEXT, ["a1 b2 c3"]),
    ("SEQ(A, B|C+ LOOP GREEDY, C)", "a1 b2 c3 b4 c5", NEXT, []),
    ("SEQ(A, B|C{1,2} LOOP GREEDY, C)", "a1 b2 c3 b4 c5", NEXT, ["a1 b2 c3 c5"]),
    # A greedy group leaves nothing out, and an event that fits both belongs to the group.
    ("SEQ(A, B* LOOP GREEDY, C)", "a1 b2 b3 c4 b5 c6", NEXT_ALL,
     ["a1 b2 b3 c4", "a1 b2 b3 b5 c6"]),
    ("SEQ(A, B* LOOP GREEDY, C)", "a1 b2 c3 b4 c5", ALL,
     ["a1 b2 c3", "a1 b2 b4 c5", "a1 b4 c5"]),
    ("SEQ(A, B|C{1,2} LOOP GREEDY, C)", "a1 b2 c3 c4 c5", NEXT_ALL, ["a1 b2 c3 c4"]),
    ("SEQ(A, B+ b LOOP GREEDY, C)", "a1 b2 b4 c4", NEXT_ALL, ["a1 b2 c4"]),
    ("SEQ(A, B+ b LOOP GREEDY, C)", "a1 b2 b4 c4", f"{NEXT_ALL} TIES BY KEY", ["a1 b2 b4 c4"]),
    ("SEQ(B* LOOP GREEDY, C)", "b1 c2", NEXT_ALL, ["b1 c2", "c2"]),
    ("SEQ(A, B+ LOOP GREEDY)", "a1 b2 c3 b4 b12", NEXT_ALL, ["a1 b2 b4"]),
    ("SEQ(A, B+ b[] LOOP GREEDY UNTIL (b.time > 3 ns), C)", "a1 b2 b3 b4 b5 c6", NEXT_ALL,
     ["a1 b2 b3 c6"]),
    ("SEQ(A, B* LOOP GREEDY, D?, C)", "a1 b2 d3 b4 c5", NEXT_ALL,
     ["a1 b2 b4 c5", "a1 b2 d3 c5"]),
    ("SEQ(AND(A, B+ LOOP GREEDY), C)", "b1 a2 b3 c4", NEXT_ALL, ["b1 a2 b3 c4", "a2 b3 c4"]),
    ("OR(SEQ(A, B, C), SEQ(A, C))", "a1 b2 c3", NEXT, ["a1 b2 c3"]),
    ("OR(SEQ(A, B, C), SEQ(A, D))", "a1 b2 d3 c4", NEXT, ["a1 d3"]),
    ("AND(A+, B)", "a1 b2 a3", NEXT, ["a1 b2 a3", "b2 a3"]),
    # until
    ("SEQ(A+ a[] UNTIL (a.time = 3 ns), B)", "a1 a2 a3 a4 b5", MAXIMAL,
     ["a1 a2 b5", "a4 b5"]),
    ("SEQ(A+ a[] UNTIL (a.time = 3 ns), A x)", "a1 a2 a3", NEXT, ["a1 a2", "a2 a3"]),
    ("SEQ(A+ a[] UNTIL (count(a) > 2))", "a1 a2 a3 a4", NEXT,
     ["a1 a2", "a2 a3", "a3 a4", "a4"]),
    # groups that are not free
    ("SEQ(A, B+, STRICT !D, C)", "a1 b2 b3 d4 c5", MAXIMAL, ["a1 b2 c5"]),
    ("SEQ(A, B+ b, !D n, C) WHERE n.x = count(b)", "a1 b2 b3 d4=2 c5", MAXIMAL,
     ["a1 b2 c5", "a1 b3 c5"]),
    ("SEQ(B+ b, C) WHERE b[i].x > b[i-2].x", "b1=1 b2=5 b3=2 b4=3 c5", MAXIMAL,
     ["b1 b2 b3 c5", "b1 b2 b4 c5", "b1 b3 b4 c5"]),
    # negation
    ("SEQ(!B, A)", "b1 a11", NEXT, []),
    ("SEQ(!B, A)", "b1 a12", NEXT, ["a12"]),
    ("SEQ(A, !B)", "a1 b11", NEXT, []),
    ("SEQ(A, !B)", "a1 b12", NEXT, ["a1"]),
    ("SEQ(A, C, !B)", "a1 c11 b11", NEXT, ["a1 c11"]),
    ("SEQ(A, !B, C?, D)", "a1 c2 b3 d4", NEXT, ["a1 c2 d4"]),
    ("SEQ(A, C?, !B, D)", "a1 b3 d4", NEXT, []),
    ("SEQ(A, STRICT !B, C)", "a1 d2 b3 c4", NEXT, ["a1 c4"]),
    ("SEQ(A, STRICT !B)", "a1 d2 b3", NEXT, ["a1"]),
    ("SEQ(STRICT !B, A)", "b1 d2 a3", NEXT, ["a3"]),
    ("SEQ(A, SEQ(!B, C))", "a2 b3 c4", NEXT, []),
    ("AND(SEQ(!B, A), C)", "c1 b2 a3", NEXT, []),
    ("AND(SEQ(A, !B), C)", "a1 b2 c3", NEXT, []),
    ("AND(SEQ(A, !B, D), C)", "a1 c2 b3 d4", NEXT, []),
    # BEST: an event that fits two places goes where it leads to a match.
    ("SEQ(A, B?, B)", "a1 b2", BEST, ["a1 b2"]),
    ("SEQ(A, B|C+, C)", "a1 b2 c3 c4", BEST, ["a1 b2 c3 c4"]),
    ("SEQ(A, B|C+?, C)", "a1 b2 c3 c4", BEST, ["a1 b2 c3"]),
    # A group takes as much as it can, a reluctant one as little as it must.
    ("SEQ(A, B+?, C)", "a1 b2 b3 c4 b5 c6", BEST, ["a1 b2 c4"]),
    ("SEQ(A, B+?, STRICT C)", "a1 b2 b3 c4", BEST, ["a1 b2 b3 c4"]),
    ("SEQ(A, B??, C?)", "a1 b2 c3", BEST, ["a1 c3"]),
    # Branches are tried in the order of the text.
    ("OR(SEQ(A, B), SEQ(A, B, C))", "a1 b2 c3", BEST, ["a1 b2"]),
    ("SEQ(A+, OR(B, C))", "a1 b2 a3 c4", BEST, ["a1 a3 c4", "a3 c4"]),
    ("SEQ(A, OR(B?, D), E)", "a1 d2 e3", BEST, ["a1 e3"]),
    ("SEQ(A, AND(B+, C), D)", "a1 c2 b3 d4 b5 d6", BEST, ["a1 c2 b3 b5 d6"]),
    # A choice that leads to no match is skipped.
    ("SEQ(A, B+, !C, D)", "a1 b2 d3 b4 c5 d6", BEST, ["a1 b2 d3"]),
    ("AND(A, B, C)", "b1 c2 a3", f"USING strict {BEST}", ["b1 c2 a3"]),
    # skip
    ("SEQ(A, B+, C)", "a1 b2 a3 b4 c5 a6 b7 c8", f"{BEST} SKIP PAST LAST", ["a1 b2 b4 b7 c8"]),
    ("A+", "a1 a2 a3", f"{NEXT} SKIP PAST LAST", ["a1 a2 a3"]),
    ("SEQ(A, ANY B)", "a1 a2 b3 b4", f"{NEXT_ALL} SKIP TO NEXT", ["a1 b3", "a2 b3"]),
    ("SEQ(A, B b)", "a1 a2 b3 a3 b4", f"{NEXT_ALL} SKIP TO FIRST b", ["a1 b3", "a3 b4"]),
    ("A{2} a[]", "a1 a2 a3", f"{NEXT_ALL} SKIP TO LAST a", ["a1 a2", "a2 a3"]),
]  # fmt: skip


ROOM_OF = [("A", 1), ("B", 2), ("N", 2), ("B", 1), ("B", 1.0), ("A", ...), ("B", None)]
ROOMS = [
    entry(kind, at, at, {} if room is ... else {"r": room})
    for at, (kind, room) in enumerate(ROOM_OF, start=1)
]
VALUES = "a1=2 b2=1 b3=5 b4=4 c5 b6=9 c7"


CONDITIONS: list[Rule] = [
    ("SEQ(A a, !N n, B b) WHERE [r]", ROOMS, "", ["a1 b4"]),
    ("SEQ(A a, !N n, B b) WHERE a.r = b.r AND n.r = a.r", ROOMS, "", ["a1 b4"]),
    ("SEQ(A a, B b) WHERE [r]", ROOMS, "USING partition", ["a1 b4"]),
    ("SEQ(A a, B b) WHERE [r]", ROOMS, "USING strict", []),
    ("SEQ(A a, STRICT B b) WHERE [r]", ROOMS, "", ["a1 b4"]),
    ("SEQ(A a, STRICT !B n, N d)", ROOMS, "", []),
    ("SEQ(A a, B+ b[], C c) WHERE b.x > a.x", VALUES, NEXT, ["a1 b3 b4 c5"]),
    ("SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", VALUES, NEXT, ["a1 b2 b3 c5"]),
    ("SEQ(A a, B+ b[], C c) WHERE b[last].x > 8", VALUES, NEXT, ["a1 b2 b3 b4 b6 c7"]),
    ("SEQ(A a, B+ b[], C c) WHERE count(b) < 3", VALUES, NEXT, []),
    ("SEQ(A a, B+ b[]) WHERE sum(b.x) < 9", VALUES, MAXIMAL, ["a1 b2", "a1 b2 b3", "a1 b2 b4"]),
    ("SEQ(A a, D? d, C c) WHERE d.x IS NOT NULL", VALUES, NEXT, []),
    ("SEQ(A a, D? d, C c) WHERE coalesce(d.x, 0) = a.x", VALUES, NEXT, []),
    ("SEQ(A a, D? d, !B n, C c) WHERE n.x = coalesce(d.x, 7)", VALUES, NEXT, ["a1 c5"]),
    ("SEQ(A a, OR(B b, D d), C c) WHERE b.x > 4 AND d.x > 4", VALUES, NEXT, ["a1 b3 c5"]),
]


@pytest.mark.parametrize(
    ("pattern", "events", "options", "matches"), [*PUBLISHED, *RULES, *CONDITIONS]
)
def test_rule_gives_expected_matches(
    pattern: str, events: str | list[Entry], options: str, matches: list[str]
) -> None:
    assert sorted(found(pattern, events, options)) == sorted(matches)


# -- laws -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_generated_queries_pass_checks() -> None:
    """Law: generated queries pass the checks, and together they use the whole language."""
    made_of: set[str] = set()
    for seed in range(500):
        query = random_query(Random(seed))
        check(query)
        made_of |= {str(query.skip), str(query.strategy), str(query.matches), str(query.ties)}
        made_of |= {type(part).__name__ for expr in find_expressions(query) for part in walk(expr)}
        for part in find_components(query.node):
            made_of.add(type(part).__name__)
            if isinstance(part, EventNode):
                made_of |= {f"{part.minimum}-{part.maximum}"}
                made_of |= {name for name in ("greedy", "until", "loop") if getattr(part, name)}
    missing = {
        "none", "next", "past_last", "first", "last", "strict", "partition", "any", "one", "all",
        "maximal", "key", "Negation", "greedy", "until", "loop", "0-1", "0--1", "1--1", "2-3",
        "Same", "AggregateCall", "IsNull", "Or", "Not", "Like", "In", "Between", "Call",
    } - made_of  # fmt: skip
    assert not missing


@pytest.mark.slow
def test_law_modes_contain_each_other() -> None:
    """Law: matches of ONE are among ALL, and each match of ALL is part of one of MAXIMAL."""
    for rng in map(Random, SEEDS):
        one = random_query(rng, [mode for mode in MODES if mode[1] == "one"], skips=["none"])
        stream = random_stream(rng)
        everything = {match.content for match in valid(normalise(one), stream)}
        assert {match.content for match in oracle(one, stream)} <= everything

        most = random_query(rng, [("any", "maximal")], skips=["none"])
        whole = valid(normalise(most), stream)
        maximal = [set(match.label()) for match in oracle(most, stream)]
        assert len(maximal) <= len(whole)
        for match in whole:
            members = set(match.label())
            assert any(members <= other for other in maximal)
