"""Example tables of what tactics cost and of their bounds: work is counted in steps, never in time;
and of the matches that they share entries in."""

from __future__ import annotations

import pytest

from tests.topology.pattern.generate import entry, of_text
from tests.topology.pattern.places import ALL, MAXIMAL, NEXT_ALL, evaluate, form_of
from topology.pattern.match.evaluation import MAX_STEPS, STEPS_PER_MATCH
from topology.pattern.match.match import Match, Stretch
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import LIMIT

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


@pytest.mark.parametrize(
    ("pattern", "cs", "where", "most"),
    [
        ("SEQ(A a, B+ b, C c)", 2_000, "b[i].x >= b[i-1].x AND c.x > a.x", 4),
        ("SEQ(A a, B+ b UNTIL (b.x > 1), C c)", 1, "", 5),
    ],
)
def test_conditions_look_at_each_entry_a_few_times(
    pattern: str, cs: int, where: str, most: int
) -> None:
    stream = [*repeated(("A", 1), ("B", 2_000), ("C", cs)), entry("C", 10_000, 10_000, {"x": 2})]
    evaluation = evaluate(form_of(pattern, within=10**6, where=where), stream, stream[0])
    assert len(evaluation.matches[0].bound[1]) == 2_000
    assert evaluation.steps < most * len(stream)


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
    assert len({id(group.whole) for group in groups if isinstance(group, Stretch)}) == 1


def test_a_negation_without_ties_costs_the_same_however_many_there_are() -> None:
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


def test_a_match_is_as_another_of_the_same_entries() -> None:
    """A stretch of a longer tuple is as the tuple of its entries."""
    a, b, c, d = of_text("a1 b2 b3 b4")
    match, stretch = Match(0, ((a,), (b, c))), Stretch((a, b, c, d), 1, 3)
    assert stretch == (b, c)
    assert hash(stretch) == hash((b, c))
    assert (stretch[0], stretch[-1], len(stretch), stretch[1:]) == (b, c, 2, (c,))
    assert d not in stretch
    with pytest.raises(IndexError):
        stretch[2]
    assert (match.first, match.last) == (a, c)
    assert match.is_as(Match(0, ((a,), stretch)))
    others = Match(1, ((a,), (b, c))), Match(0, ((a,), (b,))), Match(0, ((a,), (c, b)))
    assert not any(map(match.is_as, others))
