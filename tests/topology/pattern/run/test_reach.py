"""A law and examples of which matches an event can change where times are not exact, and of what
that costs: work is counted in looks at a pair, never in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.seeds import seeds_of_today
from tests.topology.pattern.following import Content, Reader, anew, content, taken
from tests.topology.pattern.generate import entry, random_query, random_stream, shuffled
from topology.model.result import UNCERTAIN
from topology.pattern.compile.scope import Environment
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.store.entry import Entry

PARTS = 2
SEEDS = seeds_of_today(500)
UNIT_NS = 8
"""Longer than many a window, and much less than the few large errors."""

ERRORS = ((*[0] * 5, 40), (*[0] * 7, 9, 70), (0, 0, 12))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_grades_are_those_of_any_order_of_arrival(part: int) -> None:
    """An event meets the matches that stand, or is there before them: what it does to their grade
    is the same."""
    seen: Counter[str] = Counter()
    for seed in SEEDS[part::PARTS]:
        rng = Random(seed)
        query = random_query(rng, conditions=rng.random() < 0.2, partitions=False, skips=["none"])
        query = replace(query, within_ns=query.within_ns * rng.choice((4, 8)))
        entries = random_stream(rng, 16, rng.choice(ERRORS), rng.choice(("AB", "ABC")), UNIT_NS)
        for one in entries:
            one.event.segment = rng.randint(0, 3)
        compiled = Compiled(query)
        calm = _grades(compiled, entries)
        for disorder in (0.3, 0.9):
            arrivals = shuffled(rng, entries, disorder, copies=0)
            assert _grades(compiled, arrivals) == calm, (seed, arrivals)
        seen["uncertain"] += sum(grade == UNCERTAIN for grade in calm.values())
        seen["confirmed"] += sum(grade != UNCERTAIN for grade in calm.values())
    assert min(seen["uncertain"], seen["confirmed"]) > 10, seen


def _grades(query: Compiled, arrivals: Sequence[Entry]) -> dict[Content, str]:
    engine, reader = Engine([query]), Reader()
    for one in arrivals:
        engine.accept(anew(one), 0)
        reader.read(taken(engine))
    return {content(result): result.confidence for result in reader.standing.values()}


PAIRS = 60
APART_NS = 100


@pytest.mark.parametrize("disorder", ["in order", "each pair late"])
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, !N, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns USING skip_till_any MATCHES ALL",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns USING skip_till_any MATCHES MAXIMAL",
    ],
)
def test_one_event_whose_clock_was_far_off_has_not_all_looked_at_again(
    pattern: str, disorder: str
) -> None:
    """Its own doubts reach far; those of two events that are sure do not, whatever else came."""
    looks = 0

    def near(_: Any, __: Any) -> bool:
        nonlocal looks
        looks += 1
        return True

    functions = {"near": near}
    query = Compiled(parse_query(f"PATTERN {pattern}"), Environment(functions=functions))

    def looks_for(pairs: int) -> int:
        nonlocal looks
        looks = 0
        engine = Engine([query])
        engine.accept(entry("A", 0, 0, {"x": 0}, "off", error_ns=2 * PAIRS * APART_NS), 0)
        for at in range(1, pairs + 1):
            pair = [
                entry(kind, at * APART_NS + place, at, {"x": 0}, kind)
                for place, kind in enumerate("AB")
            ]
            for one in pair if disorder == "in order" else reversed(pair):
                engine.accept(one, 0)
        assert len(engine.findings) >= pairs
        return looks

    assert looks_for(PAIRS) < 3 * looks_for(PAIRS // 2), "it grows with the pairs, not their square"


ROUNDS = 80
LOOKS_OF_AN_EVENT = 3
"""On average: at its own match, and at the few that are near it."""


@pytest.mark.parametrize("error_ns", [20, 200, 2_000, 1_000_000])
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, !N, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns MATCHES ALL",
    ],
)
def test_a_source_that_goes_back_and_forth_costs_no_more_than_any_other(
    pattern: str, error_ns: int
) -> None:
    """Each third event has an error up to twenty thousand windows long, and what it may be part of
    stays undecided for twice as long. What is in doubt is not asked again, and what is sure only
    about the newcomer."""
    looks = 0

    def near(_: Any, __: Any) -> bool:
        nonlocal looks
        looks += 1
        return True

    query = Compiled(parse_query(f"PATTERN {pattern}"), Environment(functions={"near": near}))
    engine, accepted = Engine([query]), 0
    for at in range(ROUNDS):
        for kind, place_ns, source, off_ns in (
            ("A", 0, "a", 2),
            ("B", 7, "b", 2),
            ("AB"[at % 2], 15, "off", error_ns),
        ):
            new_entry = entry(kind, 20 * at + place_ns, at, {"x": 0}, source, error_ns=off_ns)
            accepted += engine.accept(new_entry, 0) == "stored"
            engine.advance(engine.clock_ns - 400, 0)
    assert len(engine.findings) >= ROUNDS
    assert accepted == 3 * ROUNDS
    assert looks < LOOKS_OF_AN_EVENT * accepted


@pytest.mark.parametrize(
    ("error_ns", "time_ns", "grades"),
    [
        (0, 500, ["confirmed"]),
        (400, 500, ["confirmed"]),
        (490, 500, ["confirmed", "uncertain"]),
        (490, 1_010, ["confirmed"]),
    ],
)
def test_how_far_a_doubt_reaches(error_ns: int, time_ns: int, grades: list[str]) -> None:
    """A pair at 1 and 20, and an N far behind it that may have been between the two."""
    pattern = "PATTERN SEQ(A a, !N, B b) WITHIN 50 ns"
    engine = Engine([Compiled(parse_query(pattern))])
    for one in (
        entry("A", 1, 0, {}, "a"),
        entry("B", 20, 0, {}, "b"),
        entry("N", time_ns, 0, {}, "n", error_ns=error_ns),
    ):
        engine.accept(one, 0)
    assert [getattr(finding, "confidence", "") for finding in taken(engine)] == grades


def test_what_the_clock_lets_out_and_an_event_puts_in_doubt_is_told_once() -> None:
    """The N is past the window and so lets the match be told, and may have been in it."""
    query = Compiled(parse_query("PATTERN SEQ(A a, !N) WITHIN 5 ns EMIT EAGER"))
    engine, reader = Engine([query]), Reader()
    engine.accept(entry("A", 1, 0, {}, "a"), 0)
    assert not taken(engine)
    engine.accept(entry("N", 10, 0, {}, "n", error_ns=6), 1)
    findings = taken(engine)
    reader.read(findings)
    assert [getattr(finding, "confidence", "") for finding in findings] == [UNCERTAIN]
