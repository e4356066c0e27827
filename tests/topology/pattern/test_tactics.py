"""Tactics: what they find, in which order, and what it depends on.

Oracle: the oracle, on seeded streams of everything the language has. Laws: tactics equal, order
and limit, what a result depends on (`hi_ns`, `waits`). Example tables: single cases, published
counts. What it costs: `test_tactics_work`.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from benchmarks.traces import TraceAbsent, folder
from tests.seeds import seeds_of_today
from tests.services import without_trace
from tests.topology.pattern.generate import (
    BEST,
    MODES,
    Modes,
    dice,
    entry,
    of_text,
    random_query,
    random_stream,
)
from tests.topology.pattern.places import (
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
from topology.pattern.match.match import in_order
from topology.pattern.match.tactics.exhaustive import Enumeration, Exhaustive
from topology.pattern.match.tactics.rules import layouts_of
from topology.pattern.match.tactics.slices import can_slice
from topology.pattern.store.entry import Entry
from topology.pattern.tree.normal_form import NormalForm, normalise

SEEDS = seeds_of_today(100)
ONE: Modes = (("next", "one"), ("strict", "one"), ("partition", "one"))
BY_END: Modes = (("any", "maximal"), ("any", "all"))


# -- what is found ----------------------------------------------------------------------------


def anything(rng: Random) -> NormalForm:
    return normalise(random_query(rng, (*MODES, *BEST), skips=("none",), previous=True))


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


def chained(rng: Random) -> NormalForm:
    """Maximal matches with groups whose elements depend on their neighbours."""
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


@pytest.mark.parametrize(("make", "one_of"), [(anything, 4), (sliceable, 4), (chained, 8)])
def test_tactics_find_what_the_oracle_finds(
    make: Callable[[Random], NormalForm], one_of: int
) -> None:
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


def test_no_event_beyond_the_reach_changes_a_result() -> None:
    beyond = 0
    for seed, rng in dice(SEEDS):
        form = anything(rng)
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
