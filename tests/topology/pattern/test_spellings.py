"""Examples: a query in both spellings (spellings.yaml) finds the same, in any order of arrival.

Law: where the language has the words for a query of SQL, both are one tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.topology.pattern.following import of_rows, shown_of_rows
from tests.topology.pattern.unparse import unparse
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.sql.parse import parse_sql
from topology.pattern.tree.syntax import Query, RowAggregate, RowRef, Running
from topology.pattern.tree.walk import expressions, walk, with_events

ORDERS: Final = 10
OPTIONS: Final = "USING strict MATCHES BEST TIES BY KEY"
GROUPS: Final = yaml.safe_load(
    (Path(__file__).parent / "spellings.yaml").read_text(encoding="utf-8")
)
CASES: Final = [
    pytest.param(group["rows"], case, id=case["name"])
    for group in GROUPS
    for case in group["cases"]
]


def in_language(case: dict[str, Any]) -> Query:
    """Options come behind WITHIN, SKIP and RETURN last."""
    body, returns, columns = case["query"].partition("RETURN")
    body, skip, to = body.partition("SKIP")
    within = case.get("within", "3599999999999 ns")
    return parse_query(f"PATTERN {body} WITHIN {within} {OPTIONS} {skip} {to} {returns} {columns}")


@pytest.mark.parametrize(("rows", "case"), CASES)
@pytest.mark.parametrize("spelling", ["sql", "language"])
def test_both_find_the_same(rows: list[int], case: dict[str, Any], spelling: str) -> None:
    is_sql = spelling == "sql"
    query = in_sql(case) if is_sql else in_language(case)
    check(query, params={})
    found = shown_of_rows(query, of_rows(rows), ORDERS)
    assert [members for members, _ in found] == case["matches"]
    if "values" in case:
        assert [values for _, values in found] == case["values"]


def in_sql(case: dict[str, Any]) -> Query:
    return parse_sql(f"MATCH_RECOGNIZE ({case['sql']})")


def is_of_the_language(query: Query) -> bool:
    parts = (part for expr in expressions(query) for part in walk(expr))
    return not any(isinstance(part, Running | RowRef | RowAggregate) for part in parts)


@pytest.mark.parametrize(
    "case",
    [case for group in GROUPS for case in group["cases"] if is_of_the_language(in_sql(case))],
)
def test_both_are_one_tree(case: dict[str, Any]) -> None:
    """But for the variables' names as labels, and a list of no columns, which only SQL has."""
    query = in_sql(case)
    node = with_events(query.node, lambda event: replace(event, label=""))
    said = replace(query, node=node, columns=query.columns or None)
    assert said == in_language(case) == parse_query(unparse(said))
