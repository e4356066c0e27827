"""Example tables for the oracle: the published examples, and the rule for each odd shape.

[L] and [S] are the papers of patterns.md. A match is written as its events in order.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.generate import (
    MODES,
    entry,
    lateness_ns,
    of_text,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.pattern.oracle import oracle, valid
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.match.match import Match
from topology.pattern.store.entry import Entry
from topology.pattern.tree.normal_form import normalise
from topology.pattern.tree.syntax import EventNode
from topology.pattern.tree.walk import components, expressions, walk

SEEDS = seeds_of_today(150)
MINI = "b1 b2 a3 a4 a5 a6 a7 b8 a9 c10 b11 b12 a13 b14 a15 b16 a17 a18 c19 c20"
"""[L 4.3]."""


def shown(match: Match) -> str:
    return " ".join(f"{entry.type.lower()}{entry.time_ns}" for _, entry in match.labelled())


def found(
    pattern: str, events: str | list[Entry], options: str = "", within: int = 10
) -> list[str]:
    query = parse_query(f"PATTERN {pattern} WITHIN {within} ns {options}")
    return [
        shown(match)
        for match in oracle(query, of_text(events) if isinstance(events, str) else events)
    ]


NEXT_ONE = "USING skip_till_next MATCHES ONE"
NEXT_ALL = "USING skip_till_next MATCHES ALL"
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"
ANY_ALL = "USING skip_till_any MATCHES ALL"
STRICT = "USING strict MATCHES ONE"


# -- published --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "counts"),
    [
        ("SEQ(A, B, C)", (8, 8, 15, 15, 0)),
        ("SEQ(A, B+, C)", (8, 12, 10, 28, 0)),
        ("SEQ(A+, B+, C)", (8, 26, 6, 61, 0)),
    ],
)
def test_counts_of_the_mini_stream(pattern: str, counts: tuple[int, ...]) -> None:
    modes = (NEXT_ONE, NEXT_ALL, MAXIMAL, ANY_ALL, STRICT)
    assert tuple(len(found(pattern, MINI, mode)) for mode in modes) == counts


ABC_ONE = [
    *(f"a{a} b8 c10" for a in (3, 4, 5, 6, 7)), "a9 b11 c19", "a13 b14 c19", "a15 b16 c19",
]  # fmt: skip
ABC_MORE = [
    *(f"a9 b{b} c19" for b in (12, 14, 16)), "a13 b16 c19",
    "a13 b14 c20", "a13 b16 c20", "a15 b16 c20",
]  # fmt: skip
ABBC_ONE = [
    *(f"a{a} b8 c10" for a in (3, 4, 5, 6, 7)),
    "a9 b11 b12 b14 b16 c19", "a13 b14 b16 c19", "a15 b16 c19",
]  # fmt: skip
AABBC_ONE = [
    "a3 a4 a5 a6 a7 b8 c10", "a4 a5 a6 a7 b8 c10", "a5 a6 a7 b8 c10", "a6 a7 b8 c10", "a7 b8 c10",
    "a9 b11 b12 b14 b16 c19", "a13 b14 b16 c19", "a15 b16 c19",
]  # fmt: skip
AABBC_MAXIMAL = [
    "a3 a4 a5 a6 a7 b8 c10", "a9 b11 b12 b14 b16 c19", "a9 a13 b14 b16 c19",
    "a9 a13 a15 b16 c19", "a13 b14 b16 c20", "a13 a15 b16 c20",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "mode", "matches"),
    [
        ("SEQ(A, B, C)", NEXT_ONE, ABC_ONE),
        ("SEQ(A, B, C)", MAXIMAL, ABC_ONE + ABC_MORE),
        ("SEQ(A, B+, C)", NEXT_ONE, ABBC_ONE),
        ("SEQ(A, B+, C)", MAXIMAL, [*ABBC_ONE, "a13 b14 b16 c20", "a15 b16 c20"]),
        ("SEQ(A+, B+, C)", NEXT_ONE, AABBC_ONE),
        ("SEQ(A+, B+, C)", MAXIMAL, AABBC_MAXIMAL),
        ("SEQ(A, !B, C)", NEXT_ONE, ["a9 c10", "a17 c19", "a18 c19"]),
        ("SEQ(A, !B, C)", ANY_ALL, ["a9 c10", "a17 c19", "a18 c19", "a17 c20", "a18 c20"]),
        ("SEQ(!B, A, C)", NEXT_ONE, []),
        ("SEQ(!B, A, C)", ANY_ALL, ["a9 c19"]),
        ("SEQ(A, C, !B)", NEXT_ONE, [f"a{a} c19" for a in (13, 15, 17, 18)]),
        (
            "SEQ(A, C, !B)",
            ANY_ALL,
            [f"a{a} c19" for a in (9, 13, 15, 17, 18)] + [f"a{a} c20" for a in (13, 15, 17, 18)],
        ),
        ("SEQ(A, !B, C)", STRICT, ["a9 c10", "a18 c19"]),
        ("SEQ(A, C, !B)", STRICT, ["a18 c19"]),
    ],
)
def test_matches_of_the_mini_stream(pattern: str, mode: str, matches: list[str]) -> None:
    assert sorted(found(pattern, MINI, mode)) == sorted(matches)


def test_two_groups_of_limecep() -> None:
    """[L 4.4]."""
    assert found("SEQ(A+, B+, C)", "a1 a2 b3 a4 b5 b6 c7", MAXIMAL) == [
        "a1 a2 b3 b5 b6 c7",
        "a1 a2 a4 b5 b6 c7",
    ]


@pytest.mark.parametrize(
    ("events", "within", "matches"),
    [
        ("a3 b6 a7 d10 b11 d15", 10, ["a3 b6 d10", "a7 b11 d15"]),
        (
            "a3 b6 a7 b8 d10 b11 d15", 10,
            ["a3 b6 d10", "a3 b8 d10", "a7 b8 d10", "a7 b8 d15", "a7 b11 d15"],
        ),
        ("a0 b1 d2 a3 b6", 10, ["a0 b1 d2"]),
        ("a3 b6 a7 d10 b11 d15", 7, ["a3 b6 d10"]),
        ("a3 b6 a7 d10 b11 d15", 8, ["a3 b6 d10", "a7 b11 d15"]),
    ],
)  # fmt: skip
def test_stacks_of_sase(events: str, within: int, matches: list[str]) -> None:
    """[S fig 2, 3, 4.3], with the window inclusive."""
    assert found("SEQ(A, B, D)", events, ANY_ALL, within) == matches


# -- rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "events", "options", "matches"),
    [
        # order
        ("SEQ(A, B)", "a1 b1 b2", ANY_ALL, ["a1 b2"]),
        ("SEQ(A, B)", "a1 b1 b2", f"{ANY_ALL} TIES BY KEY", ["a1 b1", "a1 b2"]),
        ("SEQ(B, A)", "a1 b1 b2", f"{ANY_ALL} TIES BY KEY", []),
        ("SEQ(A+, B)", "a1 a1 b2", MAXIMAL, ["a1 a1 b2"]),
        ("AND(A, B)", "b1 a1", ANY_ALL, ["b1 a1"]),
        ("SEQ(AND(A, B), C)", "b1 a2 c3 a4", ANY_ALL, ["b1 a2 c3"]),
        ("SEQ(A, B)", "a1 b11 a2 b13", ANY_ALL, ["a1 b11", "a2 b11"]),
        # strategies
        ("SEQ(A, B)", "a1 c2 b3", STRICT, []),
        ("SEQ(A, B)", "a1 b2 b3", NEXT_ALL, ["a1 b2"]),
        ("SEQ(A, ANY B)", "a1 b2 b3", NEXT_ALL, ["a1 b2", "a1 b3"]),
        ("SEQ(A, NEXT B)", "a1 b2 b3", ANY_ALL, ["a1 b2"]),
        ("SEQ(A, STRICT B)", "a1 c2 b3 a4 b5", ANY_ALL, ["a4 b5"]),
        ("SEQ(A, B+)", "a1 b2 c3 b4", STRICT, ["a1 b2"]),
        ("SEQ(A, B+ LOOP STRICT)", "a1 b2 c3 b4", f"{ANY_ALL}", ["a1 b2", "a1 b4"]),
        ("SEQ(A, B+ LOOP ANY, C)", "a1 b2 b3 b4 c5", NEXT_ALL, [
            "a1 b2 c5", "a1 b2 b3 c5", "a1 b2 b3 b4 c5", "a1 b2 b4 c5"]),
        ("SEQ(A, STRICT SEQ(B, C))", "a1 d2 b3 c4 a5 b6 d7 c8", NEXT_ALL, ["a5 b6 c8"]),
        ("SEQ(A, STRICT AND(B, C))", "a1 c2 b3 a4 c5 d6 b7", NEXT_ALL, ["a1 c2 b3"]),
        # counts, and what is optional
        ("SEQ(A, B{2,3}, C)", "a1 b2 b3 b4 b5 c6", NEXT_ONE, ["a1 b2 b3 b4 c6"]),
        ("SEQ(A, B{2,3}, C)", "a1 b2 b3 b4 c6", NEXT_ONE, ["a1 b2 b3 b4 c6"]),
        ("SEQ(A, B{2}, C)", "a1 b2 c3 b4 c5", NEXT_ONE, ["a1 b2 b4 c5"]),
        ("SEQ(A, B?, C)", "a1 b2 c3", ANY_ALL, ["a1 c3", "a1 b2 c3"]),
        ("SEQ(A, B?, C)", "a1 b2 c3", MAXIMAL, ["a1 b2 c3"]),
        ("SEQ(A, B?)", "a1 b2", NEXT_ONE, ["a1 b2"]),
        ("SEQ(A?, B)", "a1 b2", NEXT_ONE, ["a1 b2", "b2"]),
        ("SEQ(A, B*)", "a1 b2 b3", NEXT_ONE, ["a1 b2 b3"]),
        # one walk: the first event for the successor closes the group, unless it is greedy
        ("SEQ(A, B|C+, C)", "a1 b2 c3 b4 c5", NEXT_ONE, ["a1 b2 c3"]),
        ("SEQ(A, B|C+ LOOP GREEDY, C)", "a1 b2 c3 b4 c5", NEXT_ONE, []),
        ("SEQ(A, B|C{1,2} LOOP GREEDY, C)", "a1 b2 c3 b4 c5", NEXT_ONE, ["a1 b2 c3 c5"]),
        # a greedy group leaves nothing out, and what fits both is the group's
        ("SEQ(A, B* LOOP GREEDY, C)", "a1 b2 b3 c4 b5 c6", NEXT_ALL,
         ["a1 b2 b3 c4", "a1 b2 b3 b5 c6"]),
        ("SEQ(A, B* LOOP GREEDY, C)", "a1 d2 c3", NEXT_ALL, ["a1 c3"]),
        ("SEQ(A, B* LOOP GREEDY, C)", "a1 b2 c3 b4 c5", ANY_ALL,
         ["a1 b2 c3", "a1 b2 b4 c5", "a1 b4 c5"]),
        ("SEQ(A, B|C+ LOOP GREEDY, C)", "a1 b2 c3 b4 c5", NEXT_ALL, []),
        ("SEQ(A, B|C{1,2} LOOP GREEDY, C)", "a1 b2 c3 c4 c5", NEXT_ALL, ["a1 b2 c3 c4"]),
        ("SEQ(A, B+ b LOOP GREEDY, C)", "a1 b2 b4 c4", NEXT_ALL, ["a1 b2 c4"]),
        ("SEQ(A, B+ b LOOP GREEDY, C)", "a1 b2 b4 c4", f"{NEXT_ALL} TIES BY KEY", ["a1 b2 b4 c4"]),
        ("SEQ(B+ LOOP GREEDY, C)", "b1 b2 c3", NEXT_ALL, ["b1 b2 c3", "b2 c3"]),
        ("SEQ(B* LOOP GREEDY, C)", "b1 c2", NEXT_ALL, ["b1 c2", "c2"]),
        ("SEQ(A, B+ LOOP GREEDY)", "a1 b2 c3 b4 b12", NEXT_ALL, ["a1 b2 b4"]),
        ("SEQ(A, B+ LOOP STRICT GREEDY)", "a1 b2 b3 c4 b5", NEXT_ALL, ["a1 b2 b3"]),
        ("SEQ(A, B+ b[] LOOP GREEDY UNTIL (b.time > 3 ns), C)", "a1 b2 b3 b4 b5 c6", NEXT_ALL,
         ["a1 b2 b3 c6"]),
        ("SEQ(A, B* LOOP GREEDY, D?, C)", "a1 b2 d3 b4 c5", NEXT_ALL,
         ["a1 b2 b4 c5", "a1 b2 d3 c5"]),
        ("SEQ(AND(A, B+ LOOP GREEDY), C)", "b1 a2 b3 c4", NEXT_ALL, ["b1 a2 b3 c4", "a2 b3 c4"]),
        ("SEQ(A, B+ LOOP GREEDY, C)", "a1 b2 b3 c4", MAXIMAL, ["a1 b2 b3 c4"]),
        ("OR(SEQ(A, B, C), SEQ(A, C))", "a1 b2 c3", NEXT_ONE, ["a1 b2 c3"]),
        ("OR(SEQ(A, B, C), SEQ(A, D))", "a1 b2 d3 c4", NEXT_ONE, ["a1 d3"]),
        ("OR(SEQ(A, B), SEQ(A, C))", "a1 c2 b3", ANY_ALL, ["a1 c2", "a1 b3"]),
        ("AND(A+, B)", "a1 b2 a3", NEXT_ONE, ["a1 b2 a3", "b2 a3"]),
        # until
        ("SEQ(A+ a[] UNTIL (a.time > 2 ns), B)", "a1 a2 a3 a4 b5", MAXIMAL, ["a1 a2 b5"]),
        ("SEQ(A+ a[] UNTIL (a.time = 3 ns), B)", "a1 a2 a3 a4 b5", MAXIMAL,
         ["a1 a2 b5", "a4 b5"]),
        ("SEQ(A+ a[] UNTIL (a.time = 3 ns), A x)", "a1 a2 a3", NEXT_ONE, ["a1 a2", "a2 a3"]),
        ("SEQ(A+ a[] UNTIL (count(a) > 2))", "a1 a2 a3 a4", NEXT_ONE,
         ["a1 a2", "a2 a3", "a3 a4", "a4"]),
        # negation
        ("SEQ(A, !B, C)", "a1 b1 b3 c3", NEXT_ONE, ["a1 c3"]),
        ("SEQ(A, !B, !C, D)", "a1 c2 d3", NEXT_ONE, []),
        ("SEQ(!B, A)", "b1 a11", NEXT_ONE, []),
        ("SEQ(!B, A)", "b1 a12", NEXT_ONE, ["a12"]),
        ("SEQ(A, !B)", "a1 b11", NEXT_ONE, []),
        ("SEQ(A, !B)", "a1 b12", NEXT_ONE, ["a1"]),
        ("SEQ(A, C, !B)", "a1 c11 b11", NEXT_ONE, ["a1 c11"]),
        ("SEQ(A, !B, C?, D)", "a1 c2 b3 d4", NEXT_ONE, ["a1 c2 d4"]),
        ("SEQ(A, !B, C?, D)", "a1 b3 d4", NEXT_ONE, []),
        ("SEQ(A, !B, C?, D)", "a1 d4 b5", NEXT_ONE, ["a1 d4"]),
        ("SEQ(A, C?, !B, D)", "a1 b3 d4", NEXT_ONE, []),
        ("SEQ(A, C?, !B)", "a1 b3", NEXT_ONE, []),
        ("SEQ(A, STRICT !B, C)", "a1 d2 b3 c4", NEXT_ONE, ["a1 c4"]),
        ("SEQ(A, STRICT !B, C)", "a1 b2 c4", NEXT_ONE, []),
        ("SEQ(A, STRICT !B)", "a1 d2 b3", NEXT_ONE, ["a1"]),
        ("SEQ(STRICT !B, A)", "b1 d2 a3", NEXT_ONE, ["a3"]),
        ("SEQ(STRICT !B, A)", "d1 b2 a3", NEXT_ONE, []),
        ("SEQ(A, SEQ(!B, C))", "b1 a2 c3", NEXT_ONE, ["a2 c3"]),
        ("SEQ(A, SEQ(!B, C))", "a2 b3 c4", NEXT_ONE, []),
        ("AND(SEQ(!B, A), C)", "c1 b2 a3", NEXT_ONE, []),
        ("AND(SEQ(A, !B), C)", "a1 b2 c3", NEXT_ONE, []),
        ("AND(SEQ(A, !B), C)", "b1 a2 c3", NEXT_ONE, ["a2 c3"]),
        ("AND(SEQ(A, !B, D), C)", "a1 c2 b3 d4", NEXT_ONE, []),
        # skip
        ("A+", "a1 a2 a3", f"{NEXT_ONE} SKIP NONE", ["a1 a2 a3", "a2 a3", "a3"]),
        ("A+", "a1 a2 a3", f"{NEXT_ONE} SKIP PAST LAST", ["a1 a2 a3"]),
        ("SEQ(A, ANY B)", "a1 a2 b3 b4", f"{NEXT_ALL} SKIP TO NEXT", ["a1 b3", "a2 b3"]),
        ("SEQ(A, B b)", "a1 a2 b3 a3 b4", f"{NEXT_ALL} SKIP TO FIRST b", ["a1 b3", "a3 b4"]),
        ("A{2} a[]", "a1 a2 a3", f"{NEXT_ALL} SKIP TO LAST a", ["a1 a2", "a2 a3"]),
    ],
)  # fmt: skip
def test_rules(pattern: str, events: str, options: str, matches: list[str]) -> None:
    assert sorted(found(pattern, events, options)) == sorted(matches)


def made(*events: tuple[str, int, dict[str, object]]) -> list[Entry]:
    return [entry(kind, time, at, payload) for at, (kind, time, payload) in enumerate(events)]


ROOMS = made(
    ("A", 1, {"r": 1}), ("B", 2, {"r": 2}), ("N", 3, {"r": 2}), ("B", 4, {"r": 1}),
    ("B", 5, {"r": 1.0}), ("A", 6, {}), ("B", 7, {"r": None}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("SEQ(A a, !N n, B b) WHERE [r]", ["a1 b4"]),
        ("SEQ(A a, !N n, B b) WHERE a.r = b.r AND n.r = a.r", ["a1 b4"]),
        ("SEQ(A a, !N n, B b) WHERE a.r = b.r", []),
        ("SEQ(A a, B b) WHERE partition(a, b){[r]}", ["a1 b4"]),
        ("SEQ(A a, B b) WHERE strict(a, b){[r]}", []),
        ("SEQ(A a, STRICT B b) WHERE [r]", ["a1 b4"]),
        ("SEQ(A a, STRICT !B n, N d)", []),
        ("SEQ(A a, B b) WHERE b.r > 1", ["a1 b2"]),
        ("SEQ(A a, B b) WHERE a.r + b.r < 9", ["a1 b2"]),
    ],
)
def test_conditions(pattern: str, matches: list[str]) -> None:
    assert found(pattern, ROOMS) == matches


VALUES = made(
    ("A", 1, {"x": 2}), ("B", 2, {"x": 1}), ("B", 3, {"x": 5}), ("B", 4, {"x": 4}), ("C", 5, {}),
    ("B", 6, {"x": 9}), ("C", 7, {}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "options", "matches"),
    [
        ("SEQ(A a, B+ b[], C c) WHERE b.x > a.x", NEXT_ONE, ["a1 b3 b4 c5"]),
        ("SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", NEXT_ONE, ["a1 b2 b3 c5"]),
        ("SEQ(A a, B+ b[], C c) WHERE b[last].x > 8", NEXT_ONE, ["a1 b2 b3 b4 b6 c7"]),
        ("SEQ(A a, B+ b[], C c) WHERE count(b) > 3", NEXT_ONE, ["a1 b2 b3 b4 b6 c7"]),
        ("SEQ(A a, B+ b[], C c) WHERE count(b) < 3", NEXT_ONE, []),
        ("SEQ(A a, B+ b[]) WHERE sum(b.x) < 9", NEXT_ONE, []),
        ("SEQ(A a, B+ b[]) WHERE sum(b.x) < 9", MAXIMAL, ["a1 b2", "a1 b2 b3", "a1 b2 b4"]),
        ("SEQ(A a, D? d, C c) WHERE d.x > 3", NEXT_ONE, ["a1 c5"]),
        ("SEQ(A a, D? d, C c) WHERE d.x IS NOT NULL", NEXT_ONE, []),
        ("SEQ(A a, D? d, C c) WHERE coalesce(d.x, 0) = a.x", NEXT_ONE, []),
        ("SEQ(A a, D? d, !B n, C c) WHERE n.x = d.x", NEXT_ONE, []),
        ("SEQ(A a, D? d, !B n, C c) WHERE n.x = coalesce(d.x, 7)", NEXT_ONE, ["a1 c5"]),
        ("SEQ(A a, OR(B b, D d), C c) WHERE b.x > 4 AND d.x > 4", NEXT_ONE, ["a1 b3 c5"]),
    ],
)
def test_conditions_on_groups(pattern: str, options: str, matches: list[str]) -> None:
    assert found(pattern, VALUES, options) == matches


# -- laws -------------------------------------------------------------------------------------


def test_the_checks_accept_what_the_generator_makes() -> None:
    """Law, and that it makes some of everything."""
    made_of: set[str] = set()
    for seed in range(500):
        query = random_query(Random(seed))
        check(query)
        made_of |= {str(query.skip), str(query.strategy), str(query.matches), str(query.ties)}
        made_of |= {type(part).__name__ for expr in expressions(query) for part in walk(expr)}
        for part in components(query.node):
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


def test_arrivals_are_the_stream_and_copies() -> None:
    late = 0
    for seed in range(100):
        rng = Random(seed)
        stream = random_stream(rng)
        arrivals = shuffled(rng, stream, disorder=rng.choice((0.0, 0.3, 0.9)), copies=0.2)
        assert {one.identity for one in arrivals} == {one.identity for one in stream}
        assert lateness_ns(shuffled(rng, stream, disorder=0.0, copies=0.0)) == 0
        late += lateness_ns(arrivals) > 0
    assert late > 20


def test_laws_of_the_modes() -> None:
    """Law: ONE ⊆ ALL; MAXIMAL ⊆ ALL, and every one of ALL lies in one of MAXIMAL."""
    for seed in SEEDS:
        rng = Random(seed)
        one = random_query(rng, [mode for mode in MODES if mode[1] == "one"], skips=["none"])
        stream = random_stream(rng)
        everything = {match.content for match in valid(normalise(one), stream)}
        assert {match.content for match in oracle(one, stream)} <= everything

        most = random_query(rng, [("any", "maximal")], skips=["none"])
        whole = valid(normalise(most), stream)
        maximal = [set(match.labelled()) for match in oracle(most, stream)]
        assert len(maximal) <= len(whole)
        for match in whole:
            members = set(match.labelled())
            assert any(members <= other for other in maximal)
