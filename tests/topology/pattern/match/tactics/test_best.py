"""MATCHES BEST: example tables, and laws over seeded streams.

Oracle: `tests/topology/pattern/oracle.py` makes all matches of a start and takes the least in the
order of the choices, which it reads from the tree; its laws for all modes are in `test_tactics` and
`test_engine_laws`. Here: what a regular expression finds, beside Python's own; when a match is
settled.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.generate import dice, entry, of_text, random_query, random_stream
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.places import contents, evaluate, form_of, judged, matches, shown
from topology.pattern.tree.normal_form import has_choice, normalise
from topology.pattern.tree.syntax import EventNode
from topology.pattern.tree.walk import components

SEEDS = seeds_of_today(200)
PREFERRED = "MATCHES BEST"
STRICTLY = "USING strict MATCHES BEST"


@pytest.mark.parametrize(
    ("pattern", "options", "events", "found"),
    [
        # an event that fits two places goes where a match comes of it
        ("SEQ(A, B?, B)", PREFERRED, "a1 b2", ["a1 | - | b2"]),
        ("SEQ(A, B?, B)", PREFERRED, "a1 b2 b3", ["a1 | b2 | b3"]),
        ("SEQ(A, B|C+, C)", PREFERRED, "a1 b2 c3 c4", ["a1 | b2 c3 | c4"]),
        ("SEQ(A, B|C+?, C)", PREFERRED, "a1 b2 c3 c4", ["a1 | b2 | c3"]),
        # a group takes what it can, a reluctant one what it must
        ("SEQ(A, B+, C)", PREFERRED, "a1 b2 c3 b4 c5", ["a1 | b2 b4 | c5"]),
        ("SEQ(A, B+?, C)", PREFERRED, "a1 b2 b3 c4 b5 c6", ["a1 | b2 | c4"]),
        ("SEQ(A, B{2,}?, C)", PREFERRED, "a1 b2 b3 b4 c5", ["a1 | b2 b3 | c5"]),
        ("SEQ(A, B+?, STRICT C)", PREFERRED, "a1 b2 b3 c4", ["a1 | b2 b3 | c4"]),
        ("SEQ(A, B*?)", PREFERRED, "a1 b2", ["a1 | -"]),
        ("SEQ(A, B*)", PREFERRED, "a1 b2 b3", ["a1 | b2 b3"]),
        ("SEQ(A, B??, C?)", PREFERRED, "a1 b2 c3", ["a1 | - | c3"]),
        ("SEQ(A, B??, C??)", PREFERRED, "a1 b2 c3", ["a1 | - | -"]),
        ("SEQ(A, ANY B, C)", PREFERRED, "a1 b2 b3 c4", ["a1 | b2 | c4"]),
        # branches by their place in the text, when their turn comes
        ("OR(SEQ(A, B, C), SEQ(A, B))", PREFERRED, "a1 b2", ["a1 | b2"]),
        ("OR(SEQ(A, B), SEQ(A, B, C))", PREFERRED, "a1 b2 c3", ["a1 | b2"]),
        ("OR(SEQ(A, C), SEQ(A, B))", PREFERRED, "a1 b2 c3", ["a1 | c3"]),
        ("SEQ(A+, OR(B, C))", PREFERRED, "a1 b2 a3 c4", ["a1 a3 | c4", "a3 | c4"]),
        ("SEQ(A, OR(SEQ(B??, C), D))", PREFERRED, "a1 b2 c3 d4", ["a1 | - | c3"]),
        ("SEQ(A, OR(B?, D), E)", PREFERRED, "a1 d2 e3", ["a1 | - | e3"]),
        ("SEQ(A, AND(B+, C), D)", PREFERRED, "a1 c2 b3 d4 b5 d6", ["a1 | b3 b5 | c2 | d6"]),
        # a choice that must not be is passed over
        ("SEQ(A, B+, !C, D)", PREFERRED, "a1 b2 d3 b4 c5 d6", ["a1 | b2 | d3"]),
        ("SEQ(A, B+, !C)", PREFERRED, "a1 b2 c3 b4", ["a1 | b2 b4"]),
        # the very next event
        ("SEQ(A, B+)", STRICTLY, "a1 b2 b3 c4 b5", ["a1 | b2 b3"]),
        ("SEQ(A|B+, B)", STRICTLY, "a1 b2 b3 c4", ["a1 b2 | b3", "b2 | b3"]),
        ("SEQ(A|B+?, B)", STRICTLY, "a1 b2 b3 c4", ["a1 | b2", "b2 | b3"]),
        ("AND(A, B, C)", STRICTLY, "b1 c2 a3", ["a3 | b1 | c2"]),
        # what is left away
        ("SEQ(A, B+, C)", f"{PREFERRED} SKIP PAST LAST", "a1 b2 a3 b4 c5 a6 b7 c8",
         ["a1 | b2 b4 b7 | c8"]),
        ("A+", f"{STRICTLY} SKIP PAST LAST", "a1 a2 b3 a4", ["a1 a2", "a4"]),
    ],
)  # fmt: skip
def test_what_is_found(pattern: str, options: str, events: str, found: list[str]) -> None:
    form = form_of(pattern, options)
    assert [shown(match, " | ") for match in judged(form, of_text(events))] == found


def test_a_strict_pattern_is_a_regular_expression() -> None:
    """Oracle: Python's `re`, of the same counts and branches over events of one letter each. Events
    may fit several places, so which one is taken counts."""
    some = 0
    for seed, rng in dice(SEEDS):
        count = rng.randint(1, 4)
        parts = [(rng.choice(("A", "B", "AB", "ABC")), _count(rng)) for _ in range(count)]
        parts[0] = (parts[0][0], rng.choice(("", "+", "+?", "{2,3}?")))
        expression = "".join(f"([{kinds}]{count})" for kinds, count in parts)
        inner = ", ".join(f"{'|'.join(kinds)}{count}" for kinds, count in parts)
        text = "".join(rng.choices("ABC", k=rng.randint(1, 12)))
        stream = [entry(kind, at, at) for at, kind in enumerate(text)]
        form = form_of(f"SEQ({inner})", STRICTLY, within=100)
        told = {match.first.time_ns: match for match in matches(form, stream)}
        for at in range(len(text)):
            wanted = re.compile(expression).match(text, at)
            match = told.get(at)
            assert (match is None) == (wanted is None), (seed, expression, text, at)
            if match is not None and wanted is not None:
                lengths = [len(group or "") for group in wanted.groups()]
                found = [len(entries) for entries in match.bound]
                assert found == lengths, (seed, expression, text)
                some += 1
    assert some > len(SEEDS)


def _count(rng: Random) -> str:
    return rng.choice(("", "", "+", "+?", "*", "*?", "?", "??", "{2}", "{1,2}", "{1,3}?"))


def test_one_finds_a_match_of_no_other_start() -> None:
    """One walk finds nothing where it took an event to the wrong place. But for GREEDY, which is a
    rule of the walk itself, a start with a match of ONE has one of BEST, and where the pattern
    leaves no choice it is the same."""
    some = 0
    for seed, rng in dice(SEEDS):
        query = random_query(rng, [("next", "one"), ("strict", "one")], skips=("none",))
        if any(isinstance(it, EventNode) and it.greedy for it in components(query.node)):
            continue
        one, best = normalise(query), normalise(replace(query, matches="best"))
        stream = random_stream(rng, 9)
        found = {match.first.key: match for match in oracle(one, stream)}
        preferred = {match.first.key: match for match in oracle(best, stream)}
        assert found.keys() <= preferred.keys(), seed
        some += bool(found)
        if not has_choice(one.alternatives):
            assert contents(list(found.values())) == contents(list(preferred.values())), seed
    assert some > len(SEEDS) // 8


@pytest.mark.parametrize(
    ("pattern", "options", "events", "hi_ns"),
    [
        ("SEQ(A, B, C)", PREFERRED, "a1 b2 c3", 3),
        ("SEQ(A, B+, C)", PREFERRED, "a1 b2 c3", 11),
        ("SEQ(A, B+?, C)", PREFERRED, "a1 b2 c3", 3),
        ("SEQ(A, B{1,2}, C)", PREFERRED, "a1 b2 b3 c4", 4),
        ("SEQ(A, B?, C)", PREFERRED, "a1 c2", 11),
        ("SEQ(A, B??, C)", PREFERRED, "a1 c2", 2),
        ("SEQ(A, B+, !C)", PREFERRED, "a1 b2", 11),
        ("SEQ(A, B+)", STRICTLY, "a1 b2", 11),
        ("SEQ(A, B+)", STRICTLY, "a1 b2 b3 c5", 5),
        ("SEQ(A, B+, C)", STRICTLY, "a1 b2 b3 c5", 5),
        ("SEQ(A, B+?, C)", STRICTLY, "a1 b2 d4 c5", 4),
        ("OR(SEQ(A, B, C), SEQ(A, B))", PREFERRED, "a1 b2", 11),
        ("OR(SEQ(A, B), SEQ(A, B, C))", PREFERRED, "a1 b2", 2),
    ],
)
def test_when_it_is_settled(pattern: str, options: str, events: str, hi_ns: int) -> None:
    """By the event that breaks a STRICT step, or by the end of the window."""
    stream = of_text(events)
    assert evaluate(form_of(pattern, options), stream, stream[0]).hi_ns == hi_ns


def test_too_many_runs_overflow() -> None:
    """Each B more doubles the runs, and none of them has its D."""
    form = form_of("SEQ(A, B+ b LOOP ANY, C c)", PREFERRED, 1000, "c.x = count(b)")
    stream = [entry("A", 0, 0, {}), *(entry("B", at, at, {}) for at in range(1, 40))]
    stream.append(entry("C", 50, 50, {"x": 99}))
    evaluation = evaluate(form, stream, stream[0])
    assert evaluation.overflow
    assert not evaluation.matches
