"""Tactics: what they find, in which order, and what it costs.

Oracle: the judge, on seeded streams of everything the language has. Laws: tactics equal, order
and limit, what a result depends on (`hi_ns`, `waits`). Example tables: published counts, work in
steps (never in time), and what happens at the bounds.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from benchmarks.traces import TraceAbsent, folder
from tests.topology.pattern.generate import (
    entry,
    of_text,
    random_payload,
    random_query,
    random_stream,
)
from tests.topology.pattern.judge import judge
from tests.topology.pattern.places import matches, partitions, place
from topology.pattern.entry import Entry
from topology.pattern.evaluation import MAX_STEPS, STEPS_PER_MATCH, Evaluation
from topology.pattern.match import Match, Stretch, in_order, same_content
from topology.pattern.normal_form import NormalForm, normalise
from topology.pattern.parse import parse_query
from topology.pattern.syntax import LIMIT, Matches, Strategy
from topology.pattern.tactics import exhaustive, tactic_for
from topology.pattern.tactics.slices import can_slice

SEEDS = 200 * int(os.environ.get("INORDER_SEEDS", "1"))
Modes = tuple[tuple[Strategy, Matches], ...]
ONE: Modes = (("next", "one"), ("strict", "one"), ("partition", "one"))
BY_END: Modes = (("any", "maximal"), ("any", "all"))
NEXT = "USING skip_till_next MATCHES ONE"
NEXT_ALL = "USING skip_till_next MATCHES ALL"
STRICT = "USING strict MATCHES ONE"
MAXIMAL = "USING skip_till_any MATCHES MAXIMAL"
ALL = "USING skip_till_any MATCHES ALL"


def form_of(pattern: str, options: str = NEXT, within: int = 10, where: str = "") -> NormalForm:
    condition = f"WHERE {where}" if where else ""
    return normalise(parse_query(f"PATTERN {pattern} {condition} WITHIN {within} ns {options}"))


def contents(found: Sequence[Match]) -> list[object]:
    return [match.content for match in found]


def units(form: NormalForm, stream: Sequence[Entry]) -> list[tuple[Entry, Evaluation]]:
    tactic = tactic_for(form)
    found = []
    for members in partitions(form, stream):
        here = place(form, members, stream)
        found += [(anchor, tactic.evaluate(here, anchor)) for anchor in members]
    return found


def evaluate(form: NormalForm, stream: Sequence[Entry], anchor: Entry) -> Evaluation:
    return tactic_for(form).evaluate(place(form, stream, stream), anchor)


# -- what is found ----------------------------------------------------------------------------


def test_tactics_find_what_the_judge_finds() -> None:
    some = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        form = normalise(random_query(rng, skips=("none",)))
        for _ in range(2):
            stream = random_stream(rng, 11)
            wanted = judge(form, stream)
            assert contents(matches(form, tactic_for(form), stream)) == contents(wanted), seed
            some += bool(wanted)
    assert some > SEEDS // 3


def sliceable(rng: Random) -> NormalForm:
    """A sequence under skip-till-any of singles and groups that nothing relates."""
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


def test_slices_find_what_the_exhaustive_search_finds() -> None:
    some = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        form = sliceable(rng)
        assert can_slice(form, form.alternatives[0])
        stream = random_stream(rng, 12)
        wanted = contents(matches(form, exhaustive(form), stream))
        assert contents(matches(form, tactic_for(form), stream)) == wanted, seed
        assert wanted == contents(judge(form, stream)), seed
        some += bool(wanted)
    assert some > SEEDS // 4


def chained(rng: Random) -> NormalForm:
    """Maximal matches with groups whose elements depend on their neighbours."""
    pattern = rng.choice(
        (
            "SEQ(A a, B+ b, C c)",
            "SEQ(B+ b, C c)",
            "SEQ(A a, B+ b)",
            "SEQ(B+ b)",
            "SEQ(A a, !D, B+ b, !D, C c)",
            "SEQ(A|B+ a, B+ b, C c)",
            "SEQ(A a, B* b, C? c, B d)",
            "SEQ(!D, B{2,} b, A|C c)",
        )
    )
    where = [
        rng.choice(
            (
                "b[i].x > b[i-1].x",
                "b[i].x <= b[i+1].y",
                "b[i].x != b[i-1].x",
                "b[i].x - b[i-1].x = 1",
                "b[i].x > b[i-2].x",
                "b[i].x > b[1].x",
                "b[i].x >= avg(b[..i-1].x)",
                "b[i+1].x > b[i].y AND b.y > 0",
            )
        )
    ]
    if "A a" in pattern and rng.random() < 0.5:
        where.append(rng.choice(("b.x >= a.x", "b[i].x > a.y", "b[i].y - b[i-1].y < a.x")))
    if " c" in pattern and rng.random() < 0.3:
        where.append(rng.choice(("c.x > b.x", "c.x > 1", "count(b) > 1")))
    ties = rng.choice(("", " TIES BY KEY"))
    return form_of(pattern, MAXIMAL + ties, rng.choice((4, 6, 9)), " AND ".join(where))


def test_chains_are_found_without_trying_all() -> None:
    some = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        form = chained(rng)
        stream = random_stream(rng, 11)
        wanted = judge(form, stream)
        assert contents(matches(form, tactic_for(form), stream)) == contents(wanted), seed
        some += bool(wanted)
    assert some > SEEDS // 8


MINI = "b1 b2 a3 a4 a5 a6 a7 b8 a9 c10 b11 b12 a13 b14 a15 b16 a17 a18 c19 c20"


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
def test_published_counts(pattern: str, counts: tuple[int, ...]) -> None:
    """patterns.md 5, from the mini stream of LimeCEP."""
    modes = (NEXT, NEXT_ALL, MAXIMAL, ALL, STRICT)
    forms = [form_of(pattern, mode) for mode in modes]
    stream = of_text(MINI)
    assert tuple(len(matches(form, tactic_for(form), stream)) for form in forms) == counts


@pytest.fixture(scope="module")
def micro() -> list[Entry]:
    """The 10 000 events of LimeCEP."""
    try:
        path = folder() / "limecep" / "micro_inorder.csv.gz"
    except TraceAbsent as absent:
        pytest.skip(str(absent))
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [entry(row["type"], int(row["ts"]), int(row["id"])) for row in rows]


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
def test_counts_of_ten_thousand_events(
    micro: list[Entry], pattern: str, mode: str, within: int, count: int
) -> None:
    """patterns.md 8."""
    found = units(form_of(pattern, mode, within), micro)
    assert sum(len(evaluation.matches) for _, evaluation in found) == count
    assert not any(evaluation.overflow for _, evaluation in found)


# -- order and limit --------------------------------------------------------------------------


def test_matches_of_a_unit_are_in_order_and_a_limit_cuts_there() -> None:
    cut = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        query = random_query(rng, modes=BY_END, skips=("none",))
        form = sliceable(rng) if seed % 2 else normalise(query)
        limited = normalise(replace(form.query, limit=2))
        stream = random_stream(rng, 10)
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
    assert cut > SEEDS // 20


# -- what a result depends on -----------------------------------------------------------------


def test_no_event_beyond_the_reach_changes_a_result() -> None:
    beyond = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        form = normalise(random_query(rng, skips=("none",)))
        if form.same:
            continue  # units of one partition are as units without
        stream = random_stream(rng, 10)
        late = rng.choice(stream)
        before = units(form, [one for one in stream if one is not late])
        after = {anchor.key: evaluation for anchor, evaluation in units(form, stream)}
        for anchor, evaluation in before:
            if late.time_ns > evaluation.hi_ns:
                beyond += 1
                assert contents(evaluation.matches) == contents(after[anchor.key].matches), seed
    assert beyond > SEEDS // 2


def test_a_walk_that_waits_is_changed_by_nothing_else() -> None:
    """Each event of a stream comes in order; what it changes had been waiting for it."""
    changes = quiet = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        form = normalise(random_query(rng, modes=ONE, skips=("none",)))
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
                assert evaluation.waits is not None
                if contents(evaluation.matches) != contents(later[anchor].matches):
                    assert evaluation.waits & slots, seed
                    changes += 1
                quiet += not evaluation.waits
    assert changes > SEEDS // 10
    assert quiet > SEEDS // 2


@pytest.mark.parametrize(
    ("pattern", "events", "waits", "hi_ns"),
    [
        ("SEQ(A, B, C)", "a1", {(0, 1)}, 11),
        ("SEQ(A, B+, C)", "a1 b2 b3", {(0, 2)}, 11),
        ("SEQ(A, B+, C)", "a1 b2 c3", set(), 3),
        ("SEQ(A, B{2,}, C)", "a1 b2", {(0, 1)}, 11),
        ("SEQ(A, B+)", "a1 b2", {(0, 1)}, 11),
        ("SEQ(A, B{1,2})", "a1 b2 b3", set(), 3),
        ("SEQ(A, B, !C)", "a1 b2", {(0, 2)}, 11),
        ("SEQ(A, !B, C)", "a1 b2 c3", set(), 3),
        ("SEQ(A, STRICT B, C)", "a1 d2", set(), 2),
        ("SEQ(A, AND(B, C))", "a1 c2", {(0, 1)}, 11),
        ("OR(SEQ(A, B), SEQ(A, C))", "a1", {(0, 1), (1, 1)}, 11),
        ("OR(SEQ(A, B), SEQ(A, C))", "a1 c2", set(), 2),
        ("SEQ(A, B+ b UNTIL (b.x > 0), C)", "a1 b2", {(0, 2)}, 11),
    ],
)
def test_what_a_walk_waits_for(
    pattern: str, events: str, waits: set[tuple[int, int]], hi_ns: int
) -> None:
    stream = of_text(events)
    evaluation = evaluate(form_of(pattern), stream, stream[0])
    assert evaluation.waits == frozenset(waits)
    assert evaluation.hi_ns == hi_ns


# -- cost -------------------------------------------------------------------------------------


def repeated(*parts: tuple[str, int]) -> list[Entry]:
    """So many events of each type, one after the other, a nanosecond apart."""
    kinds = "".join(kind * count for kind, count in parts)
    return [entry(kind, at, at, {"x": 1}) for at, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("SEQ(A, B, C)", 6),
        ("SEQ(A, B+, C)", 12),
        ("SEQ(A, !D, B+, C)", 12),
        ("SEQ(A, B+, !D, C)", 12),
        ("SEQ(A, D+, B+, C)", 24),
        ("SEQ(A, B*, C)", 12),
        ("SEQ(A, B{2,}, C)", 16),
        ("SEQ(A, AND(B+, D), C)", 24),
        ("AND(A, B+, C)", 24),
        ("SEQ(A, B+)", 12),
    ],
)
def test_a_walk_jumps(pattern: str, most: int) -> None:
    """Over thousands of events, in no more steps than over a few."""
    for count in (10, 5_000):
        stream = repeated(("A", 1), ("D", count), ("B", count), ("C", 1), ("D", count))
        evaluation = evaluate(form_of(pattern, within=10**6), stream, stream[0])
        assert len(evaluation.matches) == (0 if "!D, B" in pattern else 1)
        assert evaluation.steps <= most


def test_a_walk_with_predicates_looks_at_each_entry_a_few_times() -> None:
    stream = repeated(("A", 1), ("B", 2_000), ("C", 2_000))
    stream.append(entry("C", 10_000, 10_000, {"x": 2}))
    conditions = "b[i].x >= b[i-1].x AND c.x > a.x"
    form = form_of("SEQ(A a, B+ b, C c)", within=10**6, where=conditions)
    evaluation = evaluate(form, stream, stream[0])
    assert len(evaluation.matches[0].bound[1]) == 2_000
    assert evaluation.steps < 4 * len(stream)


def test_until_looks_at_each_entry_a_few_times() -> None:
    stream = repeated(("A", 1), ("B", 2_000), ("C", 1))
    form = form_of("SEQ(A a, B+ b UNTIL (b.x > 1), C c)", within=10**6)
    evaluation = evaluate(form, stream, stream[0])
    assert len(evaluation.matches[0].bound[1]) == 2_000
    assert evaluation.steps < 5 * len(stream)


@pytest.mark.parametrize("pattern", ["SEQ(A, B+, C)", "SEQ(A+, B+, C)", "SEQ(A+, B, C)"])
def test_work_follows_the_output_and_not_the_groups(pattern: str) -> None:
    form = form_of(pattern, MAXIMAL, within=10**6)
    for count in (10, 400):
        stream = repeated(*(("A", 1), ("B", count)) * 20, ("C", 1))
        evaluation = evaluate(form, stream, stream[-1])
        found = len(evaluation.matches)
        assert found == (20 * count if pattern == "SEQ(A+, B, C)" else 20)
        assert evaluation.steps <= 3 * found + 20


def test_chains_take_less_than_all_their_parts() -> None:
    """2^25 subsets are increasing; the largest is found at once."""
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
    assert all(isinstance(group, Stretch) and len(group) == 500 for group in groups)
    assert len({id(group._entries) for group in groups if isinstance(group, Stretch)}) == 1


def test_a_negation_without_ties_costs_the_same_however_many_there_are() -> None:
    costs = set()
    for count in (10, 5_000):
        stream = repeated(("D", count), ("A", 1), ("B", 1), ("D", count))
        form = form_of("SEQ(A, B, !C)", within=10**6)
        costs.add(evaluate(form, stream, stream[count]).steps)
    assert len(costs) == 1


# -- bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "options", "where"),
    [
        ("SEQ(A+ a, B b)", ALL, ""),
        ("SEQ(A+ a, B b)", MAXIMAL, "a[i].x >= a[1].x"),
        ("SEQ(A{1,20} a, B b)", MAXIMAL, ""),
        ("SEQ(A a, A a2, A a3, A a4, A a5, B b)", ALL, "a5.x > b.x"),
    ],
)
def test_a_query_that_explodes_is_stopped(pattern: str, options: str, where: str) -> None:
    stream = repeated(("A", 60), ("B", 1))
    evaluation = evaluate(form_of(pattern, options, 10**6, where), stream, stream[-1])
    assert evaluation.overflow
    assert len(evaluation.matches) <= LIMIT
    assert evaluation.steps <= max(MAX_STEPS, STEPS_PER_MATCH * LIMIT) + 200


def test_a_limit_stops_the_search() -> None:
    stream = repeated(("A", 60), ("B", 1))
    evaluation = evaluate(form_of("SEQ(A+, B)", f"{ALL} LIMIT 5", 10**6), stream, stream[-1])
    assert evaluation.overflow
    assert len(evaluation.matches) == 5
    assert evaluation.steps < 100


def test_a_walk_that_takes_too_much_work_overflows() -> None:
    """After each b, all that fitted c so far is in question again."""
    stream = repeated(("A", 1), ("B", 700), ("C", 700))
    form = form_of("SEQ(A a, B+ b, C c)", within=10**6, where="c.x > b[1].x")
    evaluation = evaluate(form, stream, stream[0])
    assert evaluation.overflow
    assert not evaluation.matches


def test_groups_may_be_longer_than_the_stack_is_deep() -> None:
    stream = repeated(("A", 1), ("B", 3_000), ("C", 1))
    form = form_of("SEQ(A, B+, C)", NEXT_ALL, 10**6)
    evaluation = evaluate(form, stream, stream[0])
    assert len(evaluation.matches) == 3_000


# -- matches ----------------------------------------------------------------------------------


def test_a_stretch_is_as_the_tuple_of_its_entries() -> None:
    entries = tuple(of_text("a1 a2 a3 a4 a5"))
    stretch = Stretch(entries, 1, 4)
    assert stretch == entries[1:4]
    assert hash(stretch) == hash(entries[1:4])
    assert (stretch[0], stretch[-1], len(stretch)) == (entries[1], entries[3], 3)
    assert stretch[1:] == entries[2:4]
    assert entries[4] not in stretch
    with pytest.raises(IndexError):
        stretch[3]


def test_same_content_tells_matches_apart() -> None:
    a, b, c = of_text("a1 b2 b3")
    twin = entry("B", 2, 1)
    match = Match(0, ((a,), (b, c)))
    assert (match.first, match.last) == (a, c)
    assert same_content(match, Match(0, ((a,), (twin, c))))
    assert same_content(match, Match(0, ((a,), Stretch((b, c), 0, 2))))
    assert not same_content(match, Match(1, ((a,), (b, c))))
    assert not same_content(match, Match(0, ((a,), (b,))))
    assert not same_content(match, Match(0, ((a,), (c, b))))


def test_payloads_of_the_streams_are_of_all_kinds() -> None:
    """What the laws rest on."""
    kinds = {type(random_payload(Random(seed))) for seed in range(500)}
    assert {dict, str, int, float, list} <= kinds
