"""Grades of conditions on uncertain times: a law over event times, and example tables."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from tests.topology.queries.pattern.generate import Conditions, entry, of_text, random_payload
from tests.topology.queries.pattern.true_times import worlds
from topology.queries.pattern.compile import expression
from topology.queries.pattern.compile.closures import Binding
from topology.queries.pattern.compile.grading import MAYBE, NO, YES, compile_grade
from topology.queries.pattern.compile.scope import Scope
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.syntax import UNBOUNDED, EventNode, Expr

SLOTS = {"a": 0, "b": 1, "c": 2}
GROUPS = frozenset({1})
NODES = (EventNode(("A",), "a"), EventNode(("B",), "b", 1, UNBOUNDED), EventNode(("C",), "c"))


@cache
def where(text: str) -> Expr:
    query = parse_query(f"PATTERN SEQ(A a, B+ b[], C? c) WHERE {text} WITHIN 10 ns")
    assert query.where is not None
    return query.where


def bound(*texts: str) -> Binding:
    """Return entries from texts like `10~2 12`: time and error; an entry's place is its `x`."""
    return [
        of_text(" ".join(f"t{word}={at}" for at, word in enumerate(text.split()))) for text in texts
    ]


@pytest.mark.parametrize(
    ("text", "binding", "graded"),
    [
        ("c.time - a.time < 5 ns", ("10~1", "", "13~0"), YES),
        ("c.time - a.time < 4 ns", ("10~1", "", "13~0"), MAYBE),
        ("c.time - a.time <= 4 ns", ("10~1", "", "13~0"), YES),
        ("c.time - a.time < 2 ns", ("10~1", "", "13~0"), NO),
        ("NOT c.time - a.time < 2 ns", ("10~1", "", "13~0"), YES),
        ("abs(c.time - a.time) < 4 ns", ("10~1", "", "9~1"), YES),
        ("abs(c.time - a.time) > 0 ns", ("10~1", "", "9~1"), MAYBE),
        ("a.time = 10", ("10~0", "", ""), YES),
        ("a.time != 12", ("10~1", "", ""), YES),
        ("a.time BETWEEN 9 AND 11", ("10~1", "", ""), YES),
        ("a.time IN (8, 12)", ("10~1", "", ""), NO),
        ("a.time NOT IN (8, 12)", ("10~1", "", ""), YES),
        ("a.time IS NULL", ("10~1", "", ""), NO),
        ("a.time = 'x'", ("10~1", "", ""), NO),
        ("a.time * 2 / 4 >= 4.5", ("10~1", "", ""), YES),
        ("1 / (a.time - 10) > 0", ("10~1", "", ""), MAYBE),
        ("-a.time < -8", ("10~1", "", ""), YES),
        ("a.time > 10 OR a.x = 0", ("10~1", "", ""), YES),
        ("c.time > 1", ("10~1", "", ""), NO),
        ("coalesce(c.time, a.time) > 8", ("10~1", "", ""), YES),
        ("coalesce(c.time, a.time) > 10", ("10~1", "", ""), MAYBE),
        ("a.ts = 10 AND a.error = 1", ("10~1", "", ""), YES),
        ("b.time > 5", ("0", "6~1 8~1", ""), MAYBE),
        ("b.time > 7", ("0", "6~1 9~1", ""), NO),
        ("b[i].x > b[i-1].x", ("0", "6~1 9~1", ""), YES),
        ("b[1].x = 0", ("0", "6~1 7~1", ""), MAYBE),
        ("count(b) = 2", ("0", "6~1 7~1", ""), YES),
        ("max(b.time) - min(b.time) <= 2", ("0", "6~1 7~1", ""), MAYBE),
        ("avg(b.time) >= 5.5", ("0", "6~1 7~1", ""), YES),
        ("sum(b.time) > 15", ("0", "6~1 7~1", ""), NO),
        ("stddev(b.time) > 100", ("0", "6~1 7~1", ""), MAYBE),
        ("[time] OR a.x = 7", ("6~1", "7~1", ""), MAYBE),
        ("[time] OR a.x = 7", ("6~1", "9~1", ""), NO),
    ],
)  # fmt: skip
def test_condition_has_expected_grade(text: str, binding: tuple[str, ...], graded: int) -> None:
    assert compile_grade(where(text), Scope(SLOTS, GROUPS))(bound(*binding)) == graded


TIMED = (
    "a.time - c.time < 3 ns", "abs(b.time - a.time) > 2 ns", "b[i].time - b[i-1].time < 4 ns",
    "max(b.time) - c.time > 1 ns", "avg(b.time) > a.time OR a.x = 1", "sum(b.time) / 2 < c.time",
    "(a.time - c.time) * (b.time - c.time) < 4", "a.time IN (9, 10, 11) AND NOT c.time = 10",
    "b[last].time > c.time", "b[i].x >= avg(b[..i-1].x)", "a.time / (c.time - 8) > 3",
    "coalesce(a.x, c.time) < 11", "c.time BETWEEN a.time AND b.time", "min(b.time) % 3 = 1",
)  # fmt: skip


@pytest.mark.slow
def test_law_grade_holds_in_every_world() -> None:
    """Law: a condition graded YES holds in every world, one graded NO in none."""
    seen = dict.fromkeys((NO, MAYBE, YES), 0)
    for rng in map(Random, range(1500)):
        timed = rng.random() < 0.7
        expr = where(rng.choice(TIMED)) if timed else Conditions(rng, NODES, []).conjunct()
        slots = [0, 2, *[1] * rng.randint(1, 3)]
        stream = [
            entry("T", rng.randint(6, 14), seq, random_payload(rng), error_ns=rng.choice((0, 1, 2)))
            for seq in range(len(slots))
        ]
        graded = compile_grade(expr, Scope(SLOTS, GROUPS))(in_slots(slots, stream))
        seen[graded] += 1
        condition = expression.Condition(expr, Scope(SLOTS, GROUPS))
        for world in worlds(rng, stream, 8, apart=True):
            holds = condition.holds(in_slots(slots, world)) is True
            assert graded == MAYBE or holds is (graded == YES), (expr, stream, world)
    assert min(seen.values()) > 100, seen


def in_slots(slots: list[int], stream: list[Entry]) -> Binding:
    pairs = sorted(zip(slots, stream, strict=True), key=lambda pair: pair[1].key)
    return [[one for at, one in pairs if at == slot] for slot in range(3)]
