"""Laws: the text of a tree is read as the same tree, for any names and nesting.

Examples: texts of conditions.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from tests.topology.queries.pattern.generate import BEST, MODES, random_query
from tests.topology.queries.pattern.trees import EXPRESSIONS, queries
from tests.topology.queries.pattern.unparse import unparse
from topology.queries.pattern.language.expression_text import expression_text
from topology.queries.pattern.language.parse import parse, parse_query
from topology.queries.pattern.tree import syntax


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(queries())
def test_tree_survives_its_text(query: syntax.Query) -> None:
    text = unparse(query)
    again = parse_query(text)
    assert again == query
    # Python treats `1`, `1.0` and TRUE as equal, but their texts differ.
    assert unparse(again) == text


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_parentheses_keep_meaning(expr: syntax.Expr) -> None:
    text = expression_text(expr)
    assert parse_query(f"PATTERN A a WHERE {text} WITHIN 1 s").where == expr
    assert parse_query(f"PATTERN A a WHERE ({text}) WITHIN 1 s").where == expr


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(queries(), queries())
def test_script_keeps_order_of_queries(one: syntax.Query, other: syntax.Query) -> None:
    if one.name and one.name == other.name:
        return
    assert parse(f"{unparse(one)};\n{unparse(other)};") == [one, other]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a.x-5>-b.y*2", "a.x - 5 > -b.y * 2"),
        ("a.x - (b.x - c.x)", "a.x - (b.x - c.x)"),
        ("-(5) < - a.x", "-(5) < -a.x"),
        ("a.x=1 AND b.x!=2", "a.x = 1 AND b.x != 2"),
        ("not (a.x = 1 or b.x = 1) and c.x = 1", "NOT (a.x = 1 OR b.x = 1) AND c.x = 1"),
        ("a.x between 1 and 2 and b.x is not null", "a.x BETWEEN 1 AND 2 AND b.x IS NOT NULL"),
        ("a.x not in (1,-2.5,'it''s')", "a.x NOT IN (1, -2.5, 'it''s')"),
        ("b[first].x < b[last].x", "b[1].x < b[last].x"),
        ("b[ i - 1 ].x < avg(b[ .. i - 1 ].x)", "b[i-1].x < avg(b[..i-1].x)"),
        ("COUNT(b) > 1 AND Sum(b.x) > limit0", "count(b[]) > 1 AND sum(b[].x) > $limit0"),
        ("a.key = $key AND [room, pos.x]", "a.key = $key AND [room, pos.x]"),
        # Durations use the largest unit that divides them.
        ("b.time - a.time < 90 sec", "b.time - a.time < 90 s"),
        ("a.x > 0 s", "a.x > 0 ns"),
        ("a.x > 1.5 us AND a.x < 1.5 s", "a.x > 1500 ns AND a.x < 1500 ms"),
        ("a.x > -5000 us AND a.x < 48 h", "a.x > -5 ms AND a.x < 2 d"),
        ("`last`.x = `a b`.`c d` AND `where`.x = 1", "last.x = `a b`.`c d` AND `where`.x = 1"),
    ],
)
def test_condition_text_is_normalised(written: str, told: str) -> None:
    where = parse_query(f"PATTERN A a WHERE {written} WITHIN 1 s").where
    assert where is not None
    assert expression_text(where) == told


@pytest.mark.slow
def test_law_queries_survive_their_text() -> None:
    """Law: generated queries, with counts, steps and absences, are read back unchanged."""
    for seed in range(400):
        query = random_query(Random(seed), (*MODES, *BEST), previous=True)
        assert parse_query(unparse(query)) == query, seed
