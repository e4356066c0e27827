"""Laws and examples: which matches an event can change if times are uncertain, and at what cost.

Work is counted in looks at a pair, never in time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from unittest.mock import Mock

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import Reader, current, fed, taken
from tests.topology.queries.pattern.generate import (
    dice,
    entry,
    of_text,
    random_query,
    random_stream,
    shuffled,
)
from topology.base.result import CONFIRMED, UNCERTAIN
from topology.queries.pattern.compile.scope import Environment
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.run.found_match import FoundMatch, SureUnits
from topology.queries.pattern.store.entry import Key

PARTS = 2
SEEDS = seeds_of_today(500)
UNIT_NS = 8
"""Longer than many windows, and much shorter than the few large errors."""

ERRORS = ((*[0] * 5, 40), (*[0] * 7, 9, 70), (0, 0, 12))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_grades_ignore_order_of_arrival(part: int) -> None:
    """An event has the same effect on grades, whether it comes before or after the matches."""
    seen: Counter[str] = Counter()
    for seed, rng in dice(SEEDS[part::PARTS]):
        query = random_query(rng, conditions=rng.random() < 0.2, partitions=False, skips=["none"])
        query = replace(query, within_ns=query.within_ns * rng.choice((4, 8)))
        entries = random_stream(rng, 16, rng.choice(ERRORS), rng.choice(("AB", "ABC")), UNIT_NS)
        for one in entries:
            one.event.segment = rng.randint(0, 3)
        compiled = Compiled(query)
        calm = current(compiled, entries).confidences()
        for disorder in (0.3, 0.9):
            arrivals = shuffled(rng, entries, disorder, copies=0)
            assert current(compiled, arrivals).confidences() == calm, (seed, arrivals)
        seen["uncertain"] += sum(grade == UNCERTAIN for grade in calm.values())
        seen["confirmed"] += sum(grade != UNCERTAIN for grade in calm.values())
    assert min(seen["uncertain"], seen["confirmed"]) > 10, seen


def _asking(pattern: str) -> tuple[Engine, Mock]:
    """Return an engine whose query calls a function, and that function."""
    near = Mock(return_value=True)
    environment = Environment(functions={"near": near})
    return Engine([Compiled(parse_query(f"PATTERN {pattern}"), environment)]), near


PAIRS = 60
APART_NS = 100


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, !N, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns USING skip_till_any MATCHES ALL",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns USING skip_till_any MATCHES MAXIMAL",
    ],
)
def test_one_wrong_clock_adds_little_work(pattern: str, late: bool) -> None:
    """An uncertain event reaches far; a match of two exact events does not, whatever else came."""

    def looks_for(pairs: int) -> int:
        engine, near = _asking(pattern)
        engine.accept(entry("A", 0, 0, {"x": 0}, "off", error_ns=2 * PAIRS * APART_NS), 0)
        for at in range(1, pairs + 1):
            for place, kind in ((0, "A"), (1, "B"))[:: -1 if late else 1]:
                engine.accept(entry(kind, at * APART_NS + place, at, {"x": 0}, kind), 0)
        assert len(taken(engine)) >= pairs
        return near.call_count

    assert looks_for(PAIRS) < 3 * looks_for(PAIRS // 2), "it grows with the pairs, not their square"


ROUNDS = 80
LOOKS_OF_AN_EVENT = 3
"""On average: at its own match, and at the few that are near it."""


@pytest.mark.slow
@pytest.mark.parametrize("error_ns", [20, 200, 2_000, 1_000_000])
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, !N, B b) WHERE near(a.x, b.x) WITHIN 50 ns",
        "SEQ(A a, B b) WHERE near(a.x, b.x) WITHIN 50 ns MATCHES ALL",
    ],
)
def test_jumping_source_adds_little_work(pattern: str, error_ns: int) -> None:
    """Each third event has an error of up to twenty thousand windows.

    Its possible matches stay undecided for twice as long. A new event causes no evaluation of
    uncertain matches, and only one of certain matches.
    """
    (engine, near), accepted = _asking(pattern), 0
    for at in range(ROUNDS):
        for kind, place_ns, source, off_ns in (
            ("A", 0, "a", 2),
            ("B", 7, "b", 2),
            ("AB"[at % 2], 15, "off", error_ns),
        ):
            new_entry = entry(kind, 20 * at + place_ns, at, {"x": 0}, source, error_ns=off_ns)
            accepted += engine.accept(new_entry, 0) == "stored"
            engine.advance(engine.clock_ns - 400, 0)
    assert len(taken(engine)) >= ROUNDS
    assert accepted == 3 * ROUNDS
    assert near.call_count < LOOKS_OF_AN_EVENT * accepted


@pytest.mark.parametrize(
    ("error_ns", "time_ns", "grades"),
    [
        (0, 500, ["confirmed"]),
        (400, 500, ["confirmed"]),
        (490, 500, ["confirmed", "uncertain"]),
        (490, 1_010, ["confirmed"]),
    ],
)
def test_error_reaches_earlier_matches(error_ns: int, time_ns: int, grades: list[str]) -> None:
    """A pair is at 1 and 20, and a much later N may have been between the two."""
    pattern = "PATTERN SEQ(A a, !N, B b) WITHIN 50 ns"
    stream = of_text(f"a1 b20 n{time_ns}~{error_ns}", apart=True)
    engine = fed([Compiled(parse_query(pattern))], stream)
    assert [getattr(finding, "confidence", "") for finding in taken(engine)] == grades


def test_uncertain_match_is_emitted_once() -> None:
    """N is after the window, so the match is emitted; N may be inside, so it is uncertain."""
    query = Compiled(parse_query("PATTERN SEQ(A a, !N) WITHIN 5 ns EMIT EAGER"))
    engine, reader = Engine([query]), Reader()
    first, other = of_text("a1 n10~6", apart=True)
    engine.accept(first, 0)
    assert not taken(engine)
    engine.accept(other, 1)
    findings = taken(engine)
    reader.read(findings)
    assert [getattr(finding, "confidence", "") for finding in findings] == [UNCERTAIN]


OFF_NS = (0, 0, 2, 9, 300)
"""Errors of the events of units and of new events."""


def _members(rng: Random, seq: int) -> Match:
    first_ns = rng.randrange(1_000)
    times = [first_ns, first_ns + rng.choice((0, 1, 20, 400))]
    pair = [
        (entry("A", ns, seq, {}, source, error_ns=rng.choice(OFF_NS)),)
        for ns, source in zip(times, "ab", strict=True)
    ]
    return Match(0, tuple(pair))


@pytest.mark.parametrize("seed", range(40))
def test_units_around_match_a_search(seed: int) -> None:
    rng, sure, units = Random(seed), SureUnits(), dict[Key, FoundMatch]()
    for seq in range(120):
        match = _members(rng, seq)
        found = FoundMatch(match, 0, rng.choice((CONFIRMED, CONFIRMED, UNCERTAIN)))
        units[match.first.key] = found
        sure.note(match.first.key, [found])
        changed = rng.choice(list(units))
        if rng.random() < 0.3:
            units[changed] = FoundMatch(units[changed].match, 0, UNCERTAIN)
            sure.note(changed, [units[changed]])
        elif rng.random() < 0.2:
            del units[changed]
            sure.drop(changed)
        new_entry = entry("B", rng.randrange(1_400), seq, {}, "n", error_ns=rng.choice(OFF_NS))
        within_ns = rng.choice((1, 30))
        low_ns, high_ns = new_entry.low_ns - within_ns, new_entry.high_ns + within_ns
        assert set(sure.find_around(new_entry, within_ns)) == {
            key
            for key, each in units.items()
            if each.confidence == CONFIRMED
            and any(e.high_ns >= low_ns for (e,) in each.match.bound)
            and any(e.low_ns <= high_ns for (e,) in each.match.bound)
        }
    for key in units:
        sure.drop(key)
    assert not sure.find_around(entry("B", 700, -1, {}, "n"), 1 << 40)
