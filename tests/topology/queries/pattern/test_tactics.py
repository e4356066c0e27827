"""Tactics: their matches in order, the events on which a result depends, and the cost.

Oracle: the oracle of patterns, on seeded streams of the whole language. For BEST it makes all
matches of a start, and takes the least in the order of the tree's choices. Regular expressions are
compared with Python's own.

Laws: tactics agree, order and limit hold, and a result depends only on its reach (`hi_ns`,
`waits`). Example tables: single cases, published counts, bounds. Work is counted in steps, never in
time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from benchmarks.patterns import record
from benchmarks.traces import TraceAbsent
from tests.seeds import seeds_of_today
from tests.services import without_trace
from tests.topology.queries.pattern.generate import (
    BEST,
    MODES,
    Modes,
    dice,
    entry,
    of_text,
    random_query,
    random_stream,
)
from tests.topology.queries.pattern.oracle import oracle
from tests.topology.queries.pattern.places import (
    ALL,
    MAXIMAL,
    NEXT,
    NEXT_ALL,
    contents,
    evaluate,
    form_of,
    judged,
    matches,
    place,
    units,
)
from topology.queries.pattern.match.evaluation import MAX_STEPS, STEPS_PER_MATCH
from topology.queries.pattern.match.match import EntryView, Match, in_order
from topology.queries.pattern.match.tactics.exhaustive import Enumeration, Exhaustive
from topology.queries.pattern.match.tactics.rules import layouts_of
from topology.queries.pattern.match.tactics.slices import can_slice
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.normal_form import NormalForm, has_choice, normalise
from topology.queries.pattern.tree.syntax import LIMIT, EventNode
from topology.queries.pattern.tree.walk import find_components

SEEDS = seeds_of_today(100)
ONE: Modes = (("next", "one"), ("strict", "one"), ("partition", "one"))
BY_END: Modes = (("any", "maximal"), ("any", "all"))


# -- what is found ----------------------------------------------------------------------------


def anything(rng: Random) -> NormalForm:
    return normalise(random_query(rng, (*MODES, *BEST), skips=("none",), previous=True))


def sliceable(rng: Random) -> NormalForm:
    """Return a skip-till-any sequence of single events, and of groups with unrelated elements."""
    count = rng.randint(1, 4)
    items: list[str] = []
    groups: list[str] = []
    singles: list[str] = []
    for at in range(count):
        if rng.random() < 0.2:
            items.append(f"!{rng.choice('ABCD')} n{at}")
        kind = rng.choice(("A", "B", "C", "A|B", "B|C|D"))
        quantity = rng.choice(("", "", "+", "+", "{2,}", "?", "*") if at else ("", "+"))
        (groups if quantity not in ("", "?") else singles).append(f"t{at}")
        items.append(f"{kind}{quantity} t{at}")
    if rng.random() < 0.2:
        items.append(f"!{rng.choice('ABCD')} n{count}")
    if rng.random() < 0.2:
        items.append(items.pop(0))
    where = []
    for _ in range(rng.choice((0, 1, 2))):
        sign = rng.choice(("<", "<=", "!=", ">="))
        one = rng.choice(groups + singles)
        if singles:
            where.append(f"{one}.x {sign} {rng.choice(singles)}.y")
        negated = [item.split()[1] for item in items if item[0] == "!"]
        if negated and singles and rng.random() < 0.5:
            where.append(f"{rng.choice(negated)}.x {sign} {rng.choice(singles)}.x")
    mode = rng.choice((MAXIMAL, f"{MAXIMAL} TIES BY KEY", MAXIMAL if groups else ALL))
    pattern = f"SEQ({', '.join(items)})"
    return form_of(pattern, mode, rng.choice((3, 5, 8)), " AND ".join(where))


def chained(rng: Random) -> NormalForm:
    """Return a pattern of maximal matches, with groups whose elements depend on neighbours."""
    patterns = (
        "SEQ(A a, B+ b, C c)",
        "SEQ(B+ b, C c)",
        "SEQ(A a, B+ b)",
        "SEQ(B+ b)",
        "SEQ(A a, !D, B+ b, !D, C c)",
        "SEQ(A|B+ a, B+ b, C c)",
        "SEQ(A a, B* b, C? c, B d)",
        "SEQ(!D, B{2,} b, A|C c)",
    )
    pattern = rng.choice(patterns)
    neighbours = (
        "b[i].x > b[i-1].x",
        "b[i].x <= b[i+1].y",
        "b[i].x != b[i-1].x",
        "b[i].x - b[i-1].x = 1",
        "b[i].x > b[i-2].x",
        "b[i].x > b[1].x",
        "b[i].x >= avg(b[..i-1].x)",
        "b[i+1].x > b[i].y AND b.y > 0",
    )
    where = [rng.choice(neighbours)]
    if "A a" in pattern and rng.random() < 0.5:
        where.append(rng.choice(("b.x >= a.x", "b[i].x > a.y", "b[i].y - b[i-1].y < a.x")))
    if " c" in pattern and rng.random() < 0.3:
        where.append(rng.choice(("c.x > b.x", "c.x > 1", "count(b) > 1")))
    ties = rng.choice(("", " TIES BY KEY"))
    return form_of(pattern, MAXIMAL + ties, rng.choice((4, 6, 9)), " AND ".join(where))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "one_of"), [(anything, 4), (sliceable, 4), (chained, 8)])
def test_tactics_match_the_oracle(make: Callable[[Random], NormalForm], one_of: int) -> None:
    some = 0
    for seed, rng in dice(SEEDS):
        form = make(rng)
        for _ in range(2):
            stream = random_stream(rng, 11)
            found = contents(judged(form, stream))
            some += bool(found)
            if make is sliceable:
                layouts = layouts_of(form)
                assert can_slice(layouts[0])
                needs_nothing = Enumeration(layouts, [Exhaustive(each) for each in layouts])
                assert contents(matches(form, stream, needs_nothing)) == found, seed
    assert some > len(SEEDS) // one_of


@pytest.fixture(scope="module")
def micro() -> list[Entry]:
    """Return LimeCEP's 10,000 events."""
    try:
        found = record(disordered=False)
    except TraceAbsent as missing:
        without_trace(missing)
    return [entry(kind, number, number) for number, kind in found]


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "mode", "within", "count"),
    [
        ("SEQ(A, B, C)", NEXT, 10, 2_929),
        ("SEQ(A, B, C)", NEXT, 1_000, 3_232),
        ("SEQ(A, B+, C)", NEXT, 10, 2_929),
        ("SEQ(A, B+, C)", NEXT, 1_000, 3_232),
        ("SEQ(A+, B+, C)", NEXT, 10, 2_929),
        ("SEQ(A+, B+, C)", NEXT, 1_000, 3_232),
        ("SEQ(A, B, C)", ALL, 10, 16_818),
        ("SEQ(A, B+, C)", MAXIMAL, 10, 7_860),
        ("SEQ(A+, B+, C)", MAXIMAL, 10, 4_737),
        ("SEQ(A+, B+, C)", MAXIMAL, 100, 54_713),
        ("SEQ(A, B+, C)", NEXT_ALL, 10, 7_764),
        ("SEQ(A+, B+, C)", NEXT_ALL, 10, 16_374),
    ],
)
def test_large_stream_has_published_counts(
    micro: list[Entry], pattern: str, mode: str, within: int, count: int
) -> None:
    """Source: patterns.md 8."""
    found = units(form_of(pattern, mode, within), micro)
    assert sum(len(evaluation.matches) for _, evaluation in found) == count
    assert not any(evaluation.overflow for _, evaluation in found)


# -- order and limit --------------------------------------------------------------------------


def test_limit_cuts_ordered_matches() -> None:
    cut = 0
    for seed, rng in dice(SEEDS):
        query = random_query(rng, modes=BY_END, skips=("none",))
        form = sliceable(rng) if seed % 2 else normalise(query)
        limited = normalise(replace(form.query, limit=2))
        stream = random_stream(rng, 14)
        is_exact = all(alternative.is_linear for alternative in form.alternatives)
        for (_, full), (_, some) in zip(units(form, stream), units(limited, stream), strict=True):
            assert contents(full.matches) == contents(in_order(full.matches)), seed
            assert some.overflow == (len(full.matches) > 2), seed
            assert len(some.matches) == min(2, len(full.matches)), seed
            if is_exact:
                assert contents(some.matches) == contents(full.matches[:2]), seed
            else:
                assert set(contents(some.matches)) <= set(contents(full.matches)), seed
            cut += some.overflow
    assert cut > len(SEEDS) // 20


# -- what a result depends on -----------------------------------------------------------------


def test_reach_bounds_every_change() -> None:
    beyond = 0
    for seed, rng in dice(SEEDS):
        form = anything(rng)
        if form.same:
            continue  # Units of one partition behave like units without partitions.
        stream = random_stream(rng, 8)
        after = {anchor.key: evaluation for anchor, evaluation in units(form, stream)}
        for late in stream:
            for anchor, evaluation in units(form, [one for one in stream if one is not late]):
                if late.time_ns > evaluation.hi_ns:
                    beyond += 1
                    assert contents(evaluation.matches) == contents(after[anchor.key].matches), seed
    assert beyond > len(SEEDS) // 2


def test_only_awaited_events_change_walks() -> None:
    """Events come in order; only an event that the walk waits for changes it."""
    changes = quiet = 0
    for seed, rng in dice(SEEDS):
        form = normalise(random_query(rng, modes=(*ONE, *BEST), skips=("none",)))
        if form.same:
            continue
        stream = random_stream(rng, 9)
        for count in range(1, len(stream)):
            so_far, newest = stream[: count + 1], stream[count]
            here = place(form, so_far, so_far)
            slots = {
                (a, j)
                for a, alternative in enumerate(form.alternatives)
                for j, index in enumerate([*here.components[a], *here.blockers[a]])
                if newest in index.entries
            }
            later = dict(units(form, so_far))
            for anchor, evaluation in units(form, stream[:count]):
                if evaluation.waits is None:
                    continue
                if contents(evaluation.matches) != contents(later[anchor].matches):
                    assert evaluation.waits & slots, seed
                    changes += 1
                quiet += not evaluation.waits
    assert changes > len(SEEDS) // 20
    assert quiet > len(SEEDS) // 2


PREFERRED = "MATCHES BEST"
STRICTLY = "USING strict MATCHES BEST"


@pytest.mark.parametrize(
    ("pattern", "options", "events", "waits", "hi_ns"),
    [
        ("SEQ(A, B+, C)", NEXT, "a1 b2 b3", {(0, 2)}, 11),
        ("SEQ(A, B{2,}, C)", NEXT, "a1 b2", {(0, 1)}, 11),
        ("SEQ(A, B{1,2})", NEXT, "a1 b2 b3", set(), 3),
        ("SEQ(A, B, !C)", NEXT, "a1 b2", {(0, 2)}, 11),
        ("SEQ(A, STRICT B, C)", NEXT, "a1 d2", set(), 2),
        ("SEQ(A, AND(B, C))", NEXT, "a1 c2", {(0, 1)}, 11),
        ("OR(SEQ(A, B), SEQ(A, C))", NEXT, "a1", {(0, 1), (1, 1)}, 11),
        ("SEQ(A, B+ b UNTIL (b.time > 4 ns))", NEXT, "a1 b2 b6", set(), 6),
        ("SEQ(A, B+ b UNTIL (b.time > 4 ns))", NEXT, "a1 b2 b3", {(0, 1)}, 11),
        ("SEQ(A, B+, C)", PREFERRED, "a1 b2 c3", {(0, 2)}, 11),
        ("SEQ(A, B+?, C)", PREFERRED, "a1 b2 c3", set(), 3),
        ("SEQ(A, B{1,2}, C)", PREFERRED, "a1 b2 b3 c4", set(), 4),
        ("SEQ(A, B??, C)", PREFERRED, "a1 c2", set(), 2),
        ("SEQ(A, B+, !C)", PREFERRED, "a1 b2", {(0, 1), (0, 2)}, 11),
        ("SEQ(A, B+)", STRICTLY, "a1 b2", None, 11),
        ("SEQ(A, B+)", STRICTLY, "a1 b2 b3 c5", set(), 5),
        ("OR(SEQ(A, B, C), SEQ(A, B))", PREFERRED, "a1 b2", {(0, 2)}, 11),
        ("OR(SEQ(A, B), SEQ(A, B, C))", PREFERRED, "a1 b2", set(), 2),
    ],
)
def test_walk_waits_until_it_is_settled(
    pattern: str, options: str, events: str, waits: set[tuple[int, int]] | None, hi_ns: int
) -> None:
    """A walk is settled by the event that breaks a STRICT step, or by the end of the window."""
    stream = of_text(events)
    evaluation = evaluate(form_of(pattern, options), stream, stream[0])
    assert evaluation.waits == waits
    assert evaluation.hi_ns == hi_ns


# -- BEST -------------------------------------------------------------------------------------

BEST_SEEDS = seeds_of_today(200)


def test_strict_pattern_matches_regex() -> None:
    """Oracle: Python's `re`, with the same counts and branches, over events of one letter each.

    An event may fit several places, so the choice of the place matters.
    """
    some = 0
    for seed, rng in dice(BEST_SEEDS):
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
    assert some > len(BEST_SEEDS)


def _count(rng: Random) -> str:
    return rng.choice(("", "", "+", "+?", "*", "*?", "?", "??", "{2}", "{1,2}", "{1,3}?"))


def test_best_has_every_start_of_one() -> None:
    """ONE may take an event to the wrong place and find nothing, although BEST finds a match.

    GREEDY is left out, since it is a rule of the walk itself. Both find the same if a pattern
    leaves no choice.
    """
    some = 0
    for seed, rng in dice(BEST_SEEDS):
        query = random_query(rng, [("next", "one"), ("strict", "one")], skips=("none",))
        if any(isinstance(it, EventNode) and it.greedy for it in find_components(query.node)):
            continue
        one, best = normalise(query), normalise(replace(query, matches="best"))
        stream = random_stream(rng, 9)
        found = {match.first.key: match for match in oracle(one, stream)}
        preferred = {match.first.key: match for match in oracle(best, stream)}
        assert found.keys() <= preferred.keys(), seed
        some += bool(found)
        if not has_choice(one.alternatives):
            assert contents(list(found.values())) == contents(list(preferred.values())), seed
    assert some > len(BEST_SEEDS) // 8


# -- cost -------------------------------------------------------------------------------------


def repeated(*parts: tuple[str, int]) -> list[Entry]:
    """Return the given number of events of each type, one after the other, a nanosecond apart."""
    kinds = "".join(kind * count for kind, count in parts)
    return [entry(kind, at, at, {"x": 1}) for at, kind in enumerate(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("SEQ(A, B+, C)", 12),
        ("SEQ(A, !D, B+, C)", 12),
        ("SEQ(A, D+, B+, C)", 24),
        ("SEQ(A, AND(B+, D), C)", 24),
        ("AND(A, B+, C)", 24),
        ("SEQ(A, B+)", 12),
    ],
)
def test_long_walk_takes_few_steps(pattern: str, most: int) -> None:
    """A walk over thousands of events takes no more steps than one over a few."""
    for count in (10, 5_000):
        stream = repeated(("A", 1), ("D", count), ("B", count), ("C", 1), ("D", count))
        evaluation = evaluate(form_of(pattern, within=10**6), stream, stream[0])
        assert len(evaluation.matches) == (0 if "!D, B" in pattern else 1)
        assert evaluation.steps <= most


@pytest.mark.parametrize(
    ("pattern", "cs", "where", "most"),
    [
        ("SEQ(A a, B+ b, C c)", 2_000, "b[i].x >= b[i-1].x AND c.x > a.x", 4),
        ("SEQ(A a, B+ b UNTIL (b.x > 1), C c)", 1, "", 5),
    ],
)
def test_conditions_read_entries_few_times(pattern: str, cs: int, where: str, most: int) -> None:
    stream = [*repeated(("A", 1), ("B", 2_000), ("C", cs)), entry("C", 10_000, 10_000, {"x": 2})]
    evaluation = evaluate(form_of(pattern, within=10**6, where=where), stream, stream[0])
    assert len(evaluation.matches[0].bound[1]) == 2_000
    assert evaluation.steps < most * len(stream)


@pytest.mark.parametrize("pattern", ["SEQ(A, B+, C)", "SEQ(A+, B+, C)", "SEQ(A+, B, C)"])
def test_work_follows_the_output(pattern: str) -> None:
    form = form_of(pattern, MAXIMAL, within=10**6)
    for count in (10, 400):
        stream = repeated(*(("A", 1), ("B", count)) * 20, ("C", 1))
        evaluation = evaluate(form, stream, stream[-1])
        found = len(evaluation.matches)
        assert found == (20 * count if pattern == "SEQ(A+, B, C)" else 20)
        assert evaluation.steps <= 3 * found + 20


def test_chains_skip_most_subsets() -> None:
    """Every subset is in order, and the largest is found at once."""
    stream = [entry("B", at, at, {"x": at // 2}) for at in range(50)]
    stream.append(entry("C", 50, 50))
    form = form_of("SEQ(B+ b, C c)", MAXIMAL, 10**6, "b[i].x >= b[i-1].x")
    evaluation = evaluate(form, stream, stream[-1])
    assert [len(match.bound[0]) for match in evaluation.matches] == [50]
    assert evaluation.steps < 3_000


def test_long_groups_share_their_entries() -> None:
    stream = repeated(("A", 100), ("B", 500), ("C", 1))
    evaluation = evaluate(form_of("SEQ(A, B+, C)", MAXIMAL, 10**6), stream, stream[-1])
    groups = [match.bound[1] for match in evaluation.matches]
    assert len(groups) == 100
    assert all(isinstance(group, EntryView) and len(group) == 500 for group in groups)
    assert len({id(group.whole) for group in groups if isinstance(group, EntryView)}) == 1


def test_negation_cost_is_constant() -> None:
    costs = set()
    for count in (10, 5_000):
        stream = repeated(("D", count), ("A", 1), ("B", 1), ("D", count))
        form = form_of("SEQ(A, B, !C)", within=10**6)
        costs.add(evaluate(form, stream, stream[count]).steps)
    assert len(costs) == 1


# -- bounds -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "options", "where"),
    [
        ("SEQ(A+ a, B b)", ALL, ""),
        ("SEQ(A+ a, B b)", MAXIMAL, "a[i].x >= a[1].x"),
        ("SEQ(A{1,20} a, B b)", MAXIMAL, ""),
        ("SEQ(A a, A a2, A a3, A a4, A a5, B b)", ALL, "a5.x > b.x"),
    ],
)
def test_exploding_query_is_stopped(pattern: str, options: str, where: str) -> None:
    stream = repeated(("A", 60), ("B", 1))
    evaluation = evaluate(form_of(pattern, options, 10**6, where), stream, stream[-1])
    assert evaluation.overflow
    assert len(evaluation.matches) <= LIMIT
    assert evaluation.steps <= max(MAX_STEPS, STEPS_PER_MATCH * LIMIT) + 200


def test_limit_stops_the_search() -> None:
    stream = repeated(("A", 60), ("B", 1))
    evaluation = evaluate(form_of("SEQ(A+, B)", f"{ALL} LIMIT 5", 10**6), stream, stream[-1])
    assert evaluation.overflow
    assert len(evaluation.matches) == 5
    assert evaluation.steps < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "options", "count", "where"),
    [
        # Each further B doubles the runs, and none of them has its C.
        ("SEQ(A, B+ b LOOP ANY, C c)", PREFERRED, 39, "c.x = count(b) + 1"),
        # After each b, all candidates for c so far are checked again.
        ("SEQ(A a, B+ b, C c)", NEXT, 700, "c.x > b[1].x"),
    ],
)
def test_too_much_work_overflows(pattern: str, options: str, count: int, where: str) -> None:
    stream = repeated(("A", 1), ("B", count), ("C", count))
    evaluation = evaluate(form_of(pattern, options, 10**6, where), stream, stream[0])
    assert evaluation.overflow
    assert not evaluation.matches


@pytest.mark.slow
def test_group_can_exceed_stack() -> None:
    stream = repeated(("A", 1), ("B", 3_000), ("C", 1))
    form = form_of("SEQ(A, B+, C)", NEXT_ALL, 10**6)
    evaluation = evaluate(form, stream, stream[0])
    assert len(evaluation.matches) == 3_000


# -- matches ----------------------------------------------------------------------------------


def test_match_equals_one_of_same_entries() -> None:
    """A stretch of a longer tuple equals the tuple of its entries."""
    a, b, c, d = of_text("a1 b2 b3 b4")
    match, stretch = Match(0, ((a,), (b, c))), EntryView((a, b, c, d), 1, 3)
    assert stretch == (b, c)
    assert hash(stretch) == hash((b, c))
    assert (stretch[0], stretch[-1], len(stretch), stretch[1:]) == (b, c, 2, (c,))
    assert d not in stretch
    with pytest.raises(IndexError):
        stretch[2]
    assert (match.first, match.last) == (a, c)
    assert match.is_same_as(Match(0, ((a,), stretch)))
    others = Match(1, ((a,), (b, c))), Match(0, ((a,), (b,))), Match(0, ((a,), (c, b)))
    assert not any(map(match.is_same_as, others))
