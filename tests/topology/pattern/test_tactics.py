"""Tactics: what they find, in which order, and what it depends on.

Oracle: the oracle, on seeded streams of everything the language has. Laws: tactics equal, order
and limit, what a result depends on (`hi_ns`, `waits`). Example tables: single cases, published
counts. What it costs: `test_tactics_work`.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from random import Random

import pytest

from benchmarks.traces import TraceAbsent, folder
from tests.seeds import seeds_of_today
from tests.services import without_trace
from tests.topology.pattern.generate import (
    BEST,
    MODES,
    entry,
    of_text,
    random_query,
    random_stream,
)
from tests.topology.pattern.oracle import oracle
from tests.topology.pattern.places import (
    ALL,
    MAXIMAL,
    NEXT,
    NEXT_ALL,
    STRICT,
    contents,
    evaluate,
    form_of,
    matches,
    place,
    units,
)
from topology.pattern.match.evaluation import Tactic
from topology.pattern.match.match import Match, in_order
from topology.pattern.match.tactics import tactic_for
from topology.pattern.match.tactics.exhaustive import Enumeration, Exhaustive
from topology.pattern.match.tactics.rules import layouts_of
from topology.pattern.match.tactics.slices import can_slice
from topology.pattern.store.entry import Entry
from topology.pattern.tree.normal_form import NormalForm, normalise
from topology.pattern.tree.syntax import Matches, Strategy

SEEDS = seeds_of_today(100)
Modes = tuple[tuple[Strategy, Matches], ...]
ONE: Modes = (("next", "one"), ("strict", "one"), ("partition", "one"))
BY_END: Modes = (("any", "maximal"), ("any", "all"))


# -- what is found ----------------------------------------------------------------------------


def test_tactics_find_what_the_oracle_finds() -> None:
    some = 0
    for seed in SEEDS:
        rng = Random(seed)
        form = normalise(random_query(rng, (*MODES, *BEST), skips=("none",), previous=True))
        for _ in range(2):
            stream = random_stream(rng, 11)
            wanted = oracle(form, stream)
            assert contents(matches(form, tactic_for(layouts_of(form)), stream)) == contents(
                wanted
            ), seed
            some += bool(wanted)
    assert some > len(SEEDS) // 4


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


def exhaustive(form: NormalForm) -> Tactic:
    """The tactic that needs no condition."""
    layouts = layouts_of(form)
    return Enumeration(layouts, [Exhaustive(layout) for layout in layouts])


def test_slices_find_what_the_exhaustive_search_finds() -> None:
    some = 0
    for seed in SEEDS:
        rng = Random(seed)
        form = sliceable(rng)
        assert can_slice(layouts_of(form)[0])
        stream = random_stream(rng, 12)
        wanted = contents(matches(form, exhaustive(form), stream))
        assert contents(matches(form, tactic_for(layouts_of(form)), stream)) == wanted, seed
        assert wanted == contents(oracle(form, stream)), seed
        some += bool(wanted)
    assert some > len(SEEDS) // 4


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
    for seed in SEEDS:
        rng = Random(seed)
        form = chained(rng)
        stream = random_stream(rng, 11)
        wanted = oracle(form, stream)
        assert contents(matches(form, tactic_for(layouts_of(form)), stream)) == contents(wanted), (
            seed
        )
        some += bool(wanted)
    assert some > len(SEEDS) // 8


def of_values(text: str) -> list[Entry]:
    """`b2=5`: type, time, and its `x`."""
    made = []
    for seq, word in enumerate(text.split()):
        place_, _, x = word.partition("=")
        made.append(entry(place_[0].upper(), int(place_[1:]), seq, {"x": int(x or 0)}))
    return made


def shown(match: Match) -> str:
    """By component, `-` where it is absent."""
    return " | ".join(
        " ".join(f"{one.type.lower()}{one.time_ns}" for one in entries) or "-"
        for entries in match.bound
    )


@pytest.mark.parametrize(
    ("pattern", "where", "options", "events", "found"),
    [
        # an event that fits both goes to the successor, but for GREEDY
        ("SEQ(A, B|C+, C)", "", NEXT, "a1 b2 c3 c4", ["a1 | b2 | c3"]),
        ("SEQ(A, B|C+ LOOP GREEDY, C)", "", NEXT, "a1 b2 c3 c4", []),
        ("SEQ(A, B|C+ LOOP GREEDY, C|D)", "", NEXT, "a1 b2 c3 d4", ["a1 | b2 c3 | d4"]),
        # a cut stops at the minimum, at the maximum, and at what comes next
        ("SEQ(A, B{2,3}, C)", "", NEXT, "a1 b2 b3 c4 b5", ["a1 | b2 b3 | c4"]),
        ("SEQ(A, B{2,3}, C)", "", NEXT, "a1 b2 c3 b4 b5 b6 c7", ["a1 | b2 b4 b5 | c7"]),
        ("SEQ(A, B+, C)", "", NEXT, "a1 b2 c2 b3 c4", ["a1 | b2 b3 | c4"]),
        # of alternatives that end together the first
        ("OR(SEQ(A, B), SEQ(A, B))", "", NEXT, "a1 b2", ["a1 | b2"]),
        ("OR(SEQ(A, B, C), SEQ(A, C))", "", NEXT, "a1 b2 c3", ["a1 | b2 | c3"]),
        # groups that are not free
        ("SEQ(A, B+, STRICT !D, C)", "", MAXIMAL, "a1 b2 b3 d4 c5", ["a1 | b2 | c5"]),
        (
            "SEQ(A, B+ b, !D n, C)", "n.x = count(b)", MAXIMAL, "a1 b2 b3 d4=2 c5",
            ["a1 | b2 | c5", "a1 | b3 | c5"],
        ),
        (
            "SEQ(B+ b, C)", "b[i].x > b[i-2].x", MAXIMAL, "b1=1 b2=5 b3=2 b4=3 c5",
            ["b1 b2 b3 | c5", "b1 b2 b4 | c5", "b1 b3 b4 | c5"],
        ),
        # what is optional
        ("SEQ(A, B*, C)", "", MAXIMAL, "a1 b2 b3 c4", ["a1 | b2 b3 | c4"]),
        ("SEQ(A, B*, C)", "", MAXIMAL, "b1 a2 c4", ["a2 | - | c4"]),
        ("SEQ(A, B? b, C)", "b.x > 1", MAXIMAL, "a1 b2=1 b3=2 c4", ["a1 | b3 | c4"]),
        ("SEQ(A, B?, C)", "", ALL, "a1 b2 c4", ["a1 | - | c4", "a1 | b2 | c4"]),
    ],
)  # fmt: skip
def test_single_cases(
    pattern: str, where: str, options: str, events: str, found: list[str]
) -> None:
    form = form_of(pattern, options, where=where)
    stream = of_values(events)
    assert sorted(map(shown, matches(form, tactic_for(layouts_of(form)), stream))) == sorted(found)
    assert sorted(map(shown, oracle(form, stream))) == sorted(found)


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
    assert (
        tuple(len(matches(form, tactic_for(layouts_of(form)), stream)) for form in forms) == counts
    )


@pytest.fixture(scope="module")
def micro() -> list[Entry]:
    """The 10 000 events of LimeCEP."""
    try:
        path = folder() / "limecep" / "micro_inorder.csv.gz"
    except TraceAbsent as missing:
        without_trace(missing)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [entry(row["type"], int(row["ts"]), int(row["id"])) for row in rows]


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
    for seed in SEEDS:
        rng = Random(seed)
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


def test_no_event_beyond_the_reach_changes_a_result() -> None:
    beyond = 0
    for seed in SEEDS:
        rng = Random(seed)
        form = normalise(random_query(rng, (*MODES, *BEST), skips=("none",), previous=True))
        if form.same:
            continue  # units of one partition are as units without
        stream = random_stream(rng, 8)
        after = {anchor.key: evaluation for anchor, evaluation in units(form, stream)}
        for late in stream:
            for anchor, evaluation in units(form, [one for one in stream if one is not late]):
                if late.time_ns > evaluation.hi_ns:
                    beyond += 1
                    assert contents(evaluation.matches) == contents(after[anchor.key].matches), seed
    assert beyond > len(SEEDS) // 2


def test_a_walk_that_waits_is_changed_by_nothing_else() -> None:
    """Each event of a stream comes in order; what it changes had been waiting for it."""
    changes = quiet = 0
    for seed in SEEDS:
        rng = Random(seed)
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
        ("SEQ(A, B+ b UNTIL (b.time > 4 ns))", "a1 b2 b6", set(), 6),
        ("SEQ(A, B+ b UNTIL (b.time > 4 ns))", "a1 b2 b3", {(0, 1)}, 11),
    ],
)
def test_what_a_walk_waits_for(
    pattern: str, events: str, waits: set[tuple[int, int]], hi_ns: int
) -> None:
    stream = of_text(events)
    evaluation = evaluate(form_of(pattern), stream, stream[0])
    assert evaluation.waits == frozenset(waits)
    assert evaluation.hi_ns == hi_ns
