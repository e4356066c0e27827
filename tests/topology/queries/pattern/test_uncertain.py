"""Laws and example tables of uncertain matches, through the engine.

A confirmed match is in every world, and a match in some world is reported under POSSIBLE. The
grading stops at the first uncertainty, and is compared with a full evaluation.

Matches that were found while all times were exact are evaluated again when the first error makes
them uncertain. A run that is restarted before each event has the same results, whether or not it
had errors from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.seeds import seeds_of_today
from tests.topology.queries.pattern.following import (
    Changelog,
    Reader,
    World,
    confirmed,
    current,
    fed,
    followed,
    in_step,
    missing,
    restarted,
    taken,
)
from tests.topology.queries.pattern.generate import (
    BEST,
    MODES,
    Modes,
    dice,
    entry,
    lateness_ns,
    of_text,
    random_query,
    random_stream,
    shuffled,
)
from tests.topology.queries.pattern.run.test_engine_laws import OPEN_ENDED
from tests.topology.queries.pattern.true_times import estimated_anew, worlds
from tests.topology.queries.pattern.unparse import unparse
from topology.base.result import CONFIRMED, UNCERTAIN, Finding, MatchResult
from topology.queries.pattern.compile.grading import YES
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.evaluation import Place
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.match.uncertain import grade
from topology.queries.pattern.match.uncertain.case import Case
from topology.queries.pattern.match.uncertain.doubt import MAX_ERROR_NS
from topology.queries.pattern.match.uncertain.grade import Grading, grade_validity, is_sure
from topology.queries.pattern.run.admit import STORED, UNSURE
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import Uncertain

LASTING = "SEQ(A a, AND(C c, !N FOR 5 ns), !M FOR 3 ns)"
PARTS = 2
SEEDS = seeds_of_today(240)
WORLDS = 18
UNIT_NS = 4
"""Events of a stream are this far apart, or a few times as much; errors are up to 6."""

UNCERTAIN_MODES: tuple[Uncertain, ...] = ("ignore", "nominal", "possible")


def streams(
    part: int,
    errors: Sequence[Sequence[int]],
    share: int = 1,
    modes: Modes = MODES,
    *,
    previous: bool = False,
) -> Iterator[World]:
    """Yield worlds with seeded queries, for one in `share` of the part's seeds."""
    for seed, rng in dice(SEEDS[part :: PARTS * share]):
        query = random_query(rng, modes, skips=["none"], previous=previous)
        query = replace(query, within_ns=query.within_ns * UNIT_NS)
        entries = random_stream(rng, 7, errors=rng.choice(errors), types="ABC", unit_ns=UNIT_NS)
        for one in entries:
            one.event.segment = rng.randint(0, 5)
        if rng.random() < 0.5:
            estimated_anew(rng, entries)
        arrivals = shuffled(rng, entries, rng.choice((0.0, 0.3, 0.9)), copies=rng.choice((0, 0.2)))
        yield World(seed, Compiled(query), entries, arrivals)


def off_by(one: Entry, error_ns: int) -> Entry:
    """Return the event with the given error."""
    return entry(one.type, one.time_ns, one.event.seq, one.payload, one.event.source, error_ns)


parts = pytest.mark.parametrize("part", range(PARTS))
ERRORS = ((0, 0, 1), (0, 1, 2), (0, 1, 2, 4, 6))


def lies_between(stream: World, count: int, seen: Counter[str]) -> None:
    """Assert that confirmed ⊆ the matches of each of `count` worlds ⊆ possible.

    With MAXIMAL, each match is part of a possible one. Events arrive in any order, and a frontier
    purges entries.
    """
    told, hulls = (
        followed(asked, stream.arrivals, max_error_ns=stream.largest_ns).confidences()
        for asked in (stream.query, stream.asking(uncertain="possible"))
    )
    sure = confirmed(told) | confirmed(hulls)
    seen["confirmed"] += len(sure)
    seen["uncertain"] += len(told) - len(confirmed(told))
    seen["possible"] += len(hulls.keys() - told.keys())
    for world in worlds(Random(stream.seed), stream.stream, count):
        true = stream.wanted(world)
        assert sure <= set(true), (stream, world)
        assert not missing(stream.query, true, hulls), (stream, world)


@pytest.mark.slow
@parts
def test_grades_bound_every_world(part: int) -> None:
    seen: Counter[str] = Counter()
    for stream in streams(part, ERRORS, previous=True):
        lies_between(stream, WORLDS, seen)
    assert min(seen.values()) > 0, seen


@pytest.mark.in_turns(2)
@pytest.mark.slow
@parts
@pytest.mark.parametrize("modes", [MODES, BEST], ids=["usual", "best"])
def test_grades_ignore_order_of_arrival(part: int, modes: Modes) -> None:
    """A frontier changes nothing either, if the largest error is known.

    Matches of NOMINAL are the oracle's matches by corrected timestamp. A match that BEST confirms
    is also in every world.
    """
    seen: Counter[str] = Counter()
    for stream in streams(part, ERRORS, modes=modes):
        for uncertain in UNCERTAIN_MODES[1 : 2 if modes is BEST else 3]:
            query = stream.asking(uncertain=uncertain)
            calm = current(query, stream.stream).confidences()
            assert current(query, stream.arrivals).confidences() == calm, stream
            assert followed(query, stream.arrivals, max_error_ns=6).confidences() == calm, stream
            if uncertain == "nominal":
                assert sorted(calm) == stream.wanted(), stream
                seen["confirmed"] += len(confirmed(calm))
                seen["uncertain"] += len(calm) - len(confirmed(calm))
            if modes is BEST:
                for world in worlds(Random(stream.seed), stream.stream, WORLDS):
                    assert confirmed(calm) <= set(stream.wanted(world)), stream
    assert min(seen.values()) > 0, seen


@pytest.mark.slow
@parts
def test_exact_times_are_confirmed(part: int) -> None:
    """Exact times are confirmed even if errors are expected, and if a query ignores errors."""
    for stream in streams(part, ERRORS, share=3):
        exact = [off_by(one, 0) for one in stream.arrivals]
        wanted = dict.fromkeys(stream.wanted(exact), CONFIRMED)
        for uncertain in UNCERTAIN_MODES:
            found = followed(stream.asking(uncertain=uncertain), exact).confidences()
            assert found == wanted, stream
        ignoring = stream.asking(uncertain="ignore")
        found = followed(ignoring, stream.arrivals, max_error_ns=0).confidences()
        assert found == wanted, stream


@pytest.mark.slow
@parts
@pytest.mark.parametrize("uncertain", ["nominal", "possible"])
def test_restart_changes_nothing(part: int, uncertain: Uncertain) -> None:
    """No bound is set, and errors grow as events come."""
    for stream in streams(part, ERRORS, share=3):
        query, rng, reader = stream.asking(uncertain=uncertain), Random(stream.seed), Reader()
        engines, log = [Engine([query]), Engine([query])], Changelog()
        for _, told in in_step(engines, stream.arrivals, lateness_ns(stream.arrivals)):
            assert told[0] == told[1], stream
            reader.read(told[0])
            if rng.random() < 0.4:
                engines[1] = restarted(engines[1], [query], log.of(engines[1]))


class Holding(Grading):
    """A grading that compares the shortcut with a full evaluation."""

    def __init__(self, grading: Grading, about: str) -> None:
        super().__init__(grading.layouts)
        self._about = about
        self.told = [0, 0]

    def confidence(self, place: Place, match: Match) -> str:
        case = Case(self.layouts[match.alternative], place, match.bound)
        sure = is_sure(case)
        assert sure == (grade_validity(case, is_nominal=True) == YES), (self._about, match)
        self.told[sure] += 1
        return super().confidence(place, match)


@pytest.mark.slow
@pytest.mark.skipif(not str(grade.__file__).endswith(".py"), reason="compiled: none other fits in")
@parts
def test_first_uncertainty_decides(part: int) -> None:
    told = [0, 0]
    for seed, rng in dice(SEEDS[part::PARTS]):
        asked = random_query(rng, open_ended=rng.random() < 0.2)
        query = Compiled(replace(asked, uncertain=rng.choice(("nominal", "nominal", "possible"))))
        assert query.grading is not None
        holding = query.grading = Holding(query.grading, f"seed {seed}\n{unparse(asked)}")
        stream = random_stream(rng, largest=9, errors=rng.choice(((0, 0, 1), (1, 3))), unit_ns=2)
        fed([query], shuffled(rng, stream, 0.3, 0.0))
        told = [one + other for one, other in zip(told, holding.told, strict=True)]
    assert min(told) > 0


# -- a late first error -----------------------------------------------------------------------

PURGED_APART = 229
"""At this seed one index has purged an event, and another has not, when the first error comes."""


def exact_at_first(part: int, uncertain: Uncertain) -> Iterator[World]:
    """Yield worlds whose times are exact up to some event, often the very last one."""
    for seed, rng in dice((*seeds_of_today(80), PURGED_APART)[part::PARTS]):
        is_open = rng.random() < 0.6
        modes = OPEN_ENDED if is_open else MODES
        if uncertain == "possible":
            modes = tuple(mode for mode in modes if mode not in BEST)
        query = random_query(rng, modes, rng.random() < 0.3, skips=["none"], open_ended=is_open)
        query = replace(query, within_ns=query.within_ns * UNIT_NS, uncertain=uncertain)
        types = rng.choice(("AB", "ABC", "ABCD"))
        stream = random_stream(rng, 10, types=types, unit_ns=UNIT_NS)
        arrivals = shuffled(rng, stream, rng.choice((0.0, 0.3, 0.9)), copies=0)
        last = len(arrivals) - 1
        first = rng.choice((last, rng.randint(0, last)))
        arrivals[first:] = _blurred(rng, arrivals[first:])
        yield World(seed, Compiled(query), arrivals, arrivals)


def _blurred(rng: Random, entries: Sequence[Entry]) -> list[Entry]:
    errors = [rng.choice((1, 2, 4, 6, 12, 24)), *rng.choices((0, 1, 2, 4, 6, 12), k=len(entries))]
    return list(map(off_by, entries, errors))


@pytest.mark.in_turns(2)
@pytest.mark.slow
@parts
@pytest.mark.parametrize("uncertain", ["possible", "nominal"])
@pytest.mark.parametrize("follows", [False, True])
def test_restarts_change_no_finding(part: int, uncertain: Uncertain, follows: bool) -> None:
    """Times are exact at first, and the engine restarts before every event."""
    for case in exact_at_first(part, uncertain):
        engines = [Engine([case.query]), Engine([case.query])]
        behind_ns = lateness_ns(case.arrivals) if follows else None
        for _, (calm, cut) in in_step(engines, case.arrivals, behind_ns):
            assert calm == cut, case
            engines[1] = restarted(engines[1], [case.query])


# -- examples ---------------------------------------------------------------------------------


EITHER = "OR(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 20 ns MATCHES ALL"


def steps(pattern: str, events: str) -> list[str]:
    """Return the results of each event."""
    engine = Engine([Compiled(parse_query(f"PATTERN {pattern}"))])
    told = []
    for one in of_text(events, apart=True):
        engine.accept(one, 0)
        told.append(" ".join(_short(finding) for finding in taken(engine)))
    return told


def _short(finding: Finding) -> str:
    assert isinstance(finding, MatchResult)
    members = "".join(f"{m.alias}{m.ref_time_ns}" for m in finding.members)
    doubt = "" if finding.confidence == CONFIRMED else "?"
    return f"{finding.op} {members}{doubt}"


@pytest.mark.parametrize(
    ("pattern", "events", "told"),
    [
        # Another event may be in the gap, in order and late.
        ("SEQ(A a, !N, B b) WITHIN 9 ns", "a1 b6~2 n7~1", ["", "emit a1b6", "update a1b6?"]),
        ("SEQ(A a, !N, B b) WITHIN 9 ns", "a1 b6~2 n9~1", ["", "emit a1b6", ""]),
        (f"{LASTING} WITHIN 20 ns EMIT EAGER", "a1 c3 m9~1", ["", "", "emit a1c3?"]),
        (f"{LASTING} WITHIN 20 ns EMIT EAGER", "a1 c3 m5~1 z30", ["", "", "", "emit a1c3"]),
        # Another event may have been first.
        ("SEQ(A a, B b) WITHIN 9 ns", "a1 b4~1 b6~2", ["", "emit a1b4", "update a1b4?"]),
        ("SEQ(A a, B b) WITHIN 9 ns", "a1 b4~1 b7~1", ["", "emit a1b4", ""]),
        # Another event may belong to the group.
        ("SEQ(A+ a[], B b) WITHIN 9 ns USING skip_till_any", "a1 b4~1 a6~2",
         ["", "emit a1b4", "update a1b4?"]),
        # A late event raises confidence: with c between, b is not the next, wherever a is.
        ("SEQ(A a, STRICT B? b) WITHIN 9 ns", "a1 b4~1 d3~0 c2",
         ["emit a1", "update a1b4", "update a1?", "update a1"]),
        # A possible match is emitted as uncertain.
        ("SEQ(A a, B b) WITHIN 9 ns UNCERTAIN POSSIBLE", "b4~1 a5~1 b9",
         ["", "emit b4a5?", "emit a5b9?"]),
        ("SEQ(A a, !N, B b) WITHIN 9 ns USING skip_till_any UNCERTAIN POSSIBLE", "b4~1 a3~2 n3",
         ["", "emit a3b4?", ""]),
        ("SEQ(A a, B b) WITHIN 9 ns UNCERTAIN IGNORE", "a4~3 b5~3", ["", "emit a4b5"]),
        # SKIP goes by corrected timestamps: c may have come before b.
        (f"{EITHER} SKIP PAST LAST", "a1 b4 c5~2 d9", ["", "emit a1b4", "", "emit c5d9"]),
        (f"{EITHER} SKIP PAST LAST", "a1 b4 c3~2 d9", ["", "emit a1b4", "", ""]),
    ],
)  # fmt: skip
def test_event_has_expected_results(pattern: str, events: str, told: list[str]) -> None:
    assert steps(pattern, events) == told


@pytest.mark.parametrize(
    ("delay_ms", "ignored", "nominal", "possible"),
    [
        (0, "found", CONFIRMED, CONFIRMED),
        (0.125, "found", CONFIRMED, CONFIRMED),
        (1, "found", CONFIRMED, CONFIRMED),
        (10, "found", CONFIRMED, CONFIRMED),
        (30, "found", UNCERTAIN, UNCERTAIN),
        (50, "none", "none", UNCERTAIN),
    ],
)
def test_goal_example_of_the_thesis(
    delay_ms: float, ignored: str, nominal: str, possible: str
) -> None:
    """Table 5.13: a pair is 44 ms apart, and the clocks are 1 s apart and corrected.

    The delay is on the forward leg of one source's time synchronisation and on the backward leg of
    the other's. Each offset is wrong by half the delay, in opposite directions; this half is also
    the bound of each. Query 5.8 compares corrected times, 5.9 asks for possible matches.
    """
    wrong_ns = int(delay_ms * 500_000)
    shot = entry("Shot", 1_000_000_000 + wrong_ns, 0, {}, "leg", wrong_ns)
    goal = entry("Goal", 1_044_000_000 - wrong_ns, 0, {}, "ball", wrong_ns)
    text = "PATTERN SEQ(Shot s, Goal g) WITHIN 1 s UNCERTAIN"
    found = [
        [*current(Compiled(parse_query(f"{text} {mode}")), [shot, goal]).confidences().values()]
        for mode in ("IGNORE", "NOMINAL", "POSSIBLE")
    ]
    told = ["".join(confidences) or "none" for confidences in found]
    assert told == [ignored.replace("found", CONFIRMED), nominal, possible]


def test_too_large_error_is_refused() -> None:
    nominal, ignoring = (
        Compiled(parse_query(f"PATTERN A a WITHIN 9 ns UNCERTAIN {mode}"))
        for mode in ("NOMINAL", "IGNORE")
    )
    small, large = of_text("a1~3 a2~4", apart=True)
    engine = Engine([nominal], max_error_ns=3)
    assert [engine.accept(one, 0) for one in (small, large)] == [STORED, UNSURE]
    assert engine.counts[UNSURE] == 1
    assert Engine([ignoring], max_error_ns=3).accept(large, 0) == STORED
    assert Engine([nominal]).accept(entry("A", 1, 0, error_ns=MAX_ERROR_NS + 1), 0) == UNSURE


def test_error_bound_delays_final_results() -> None:
    """A result waits for the largest error on either side: a later event may have been earlier."""
    query = Compiled(parse_query("PATTERN SEQ(A a, B b) WITHIN 9 ns EMIT FINAL"))
    engine = fed([query], of_text("a1 b5", apart=True), max_error_ns=3)
    engine.advance(11, 0)
    assert taken(engine) == []
    engine.advance(12, 0)
    assert [_short(finding) for finding in taken(engine)] == ["emit a1b5"]
