"""Examples of MATCH_RECOGNIZE: matches in any order of arrival, and queries that are refused.

Published cases are data (cases_sql/*.yaml). A query that has no meaning on a stream, or is not
supported, is refused with the code of its case. With ALL ROWS PER MATCH, each row is a result.
Cases with MATCH_NUMBER, subqueries, or joins of several clauses are left out.

Law: both spellings of a query (spellings.yaml) find the same. If the language can express an SQL
query, both are one tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.topology.queries.pattern.following import of_rows, shown_of_rows
from tests.topology.queries.pattern.unparse import unparse
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse_query
from topology.queries.pattern.sql.parse import parse_sql
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.errors import QueryRefused
from topology.queries.pattern.tree.syntax import Query, RowAggregate, RowRef, Running
from topology.queries.pattern.tree.walk import find_expressions, rewrite_events, walk

HERE: Final = Path(__file__).parent
LEAST_ACCEPTED: Final = 113
"""There are 118 that have a meaning on a stream. The others: groups of several rows without an
upper bound (3), PREV beyond the match beside rows of the match, and NEXT in DEFINE. Without a
meaning are anchors, empty matches, unmatched rows, and a skip to the first row."""

V_SHAPE = """
SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ref_time
  MEASURES FIRST(strt.price) AS top, LAST(DOWN.price) AS low, COUNT(*) AS n, SUM(DOWN.price) AS s
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (STRT DOWN+ UP+) WITHIN INTERVAL '1' MINUTE
  DEFINE DOWN AS price < PREV(price), UP AS UP.price > PREV(UP.price)
) AS T
"""


def found(text: str, prices: list[int], **options: Any) -> list[tuple[str, Any]]:
    query = parse_sql(text, **options)
    check(query, params={})
    rows = of_rows([{"price": price, "symbol": "x"} for price in prices], "")
    return shown_of_rows(query, rows, orders=4)


def test_v_shape_is_found() -> None:
    values = {"symbol": "x", "top": 9, "low": 3, "n": 5, "s": 8}
    assert found(V_SHAPE, [9, 5, 3, 4, 6, 2]) == [("STRT1 DOWN2 DOWN3 UP4 UP5", values)]


def test_interval_is_exclusive() -> None:
    assert found("MATCH_RECOGNIZE (PATTERN (A B))", [1, 2], default_within_ns=10**9) == []
    assert found("MATCH_RECOGNIZE (PATTERN (A B))", [1, 2], default_within_ns=10**9 + 1) != []


A = "PATTERN (A) WITHIN INTERVAL '1' HOUR"
AB = "PATTERN (A B) WITHIN INTERVAL '1' HOUR"


@pytest.mark.parametrize(
    ("clause", "code", "told"),
    [
        ("PATTERN (A)", "E_WINDOW", "write WITHIN"),
        (f"ORDER BY price {A}", "E_SQL", "write ORDER BY ref_time"),
        (f"MEASURES MATCH_NUMBER() AS n {A}", "E_SQL", "use the `id` of the match"),
        (f"{AB} DEFINE B AS x > PREV(x, 2) + A.x", "E_SQL", "write it as a separate condition"),
        (f"MEASURES CLASSIFIER(B) AS c {A}", "E_ALIAS_UNKNOWN", "known: `A`"),
        (f"{A} DEFINE B AS x > 1", "E_ALIAS_UNKNOWN", "known: `A`"),
        (f"MEASURES A.x AS n, A.y AS n {A}", "E_ALIAS_TWICE", "rename one"),
        (f"MEASURES LAST(A.x, -1) AS m {A}", "E_FUNCTION", "LAST(A.price, 2)"),
        (f"MEASURES FIRST(A.x, -1) AS m {A}", "E_FUNCTION", "FIRST(A.price, 2)"),
        (f"MEASURES PREV(x, -1) AS m {A}", "E_FUNCTION", "PREV(A.price, 2)"),
        (f"MEASURES COUNT(CLASSIFIER()) AS m {A}", "E_FUNCTION", "COUNT(A.price)"),
        ("PATERN (A)", "E_SYNTAX", "did you mean `PATTERN`?"),
    ],
)
def test_refusal_has_its_reason(clause: str, code: str, told: str) -> None:
    with pytest.raises(QueryRefused, match=re.escape(told)) as refused:
        parse_sql(f"MATCH_RECOGNIZE ({clause})")
    assert [error.code for error in refused.value.errors] == [code]
    assert refused.value.errors[0].line == 1


# -- published --------------------------------------------------------------------------------


def each(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def published() -> Iterator[dict[str, Any]]:
    for path in sorted((HERE / "cases_sql").glob("*.yaml")):
        suite = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in suite["groups"]:
            for number, case in enumerate(group["cases"], start=1):
                name = f"{suite['engine']}-{group['test'].split(',')[0]}-{number}"
                yield {**group, **case, "name": name}


def text_of(case: dict[str, Any]) -> str:
    parts = [
        "ORDER BY ref_time",
        f"MEASURES {case['measures']}" if "measures" in case else "",
        case.get("clause", ""),
        f"PATTERN ({case['pattern']}) WITHIN INTERVAL '1' HOUR",
        f"SUBSET {case['subset']}" if "subset" in case else "",
        f"DEFINE {case['define']}" if case.get("define") else "",
    ]
    return f"MATCH_RECOGNIZE ({' '.join(filter(None, parts))})"


PUBLISHED: Final = list(published())


@each(PUBLISHED)
def test_published_case_has_its_matches(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(QueryRefused) as refused:
            check(parse_sql(text_of(case)), params={})
        assert case["refused"] in {error.code for error in refused.value.errors}
    else:
        finds(parse_sql(text_of(case)), of_rows(case["rows"], "value"), case, orders=6)


def finds(query: Query, rows: list[Entry], case: dict[str, Any], orders: int) -> None:
    """Assert that the query finds the case's matches, and its values if the case has any."""
    check(query, params={})
    found = shown_of_rows(query, rows, orders)
    assert [members for members, _ in found] == case["matches"]
    if "values" in case:
        assert [values for _, values in found] == case["values"]


def test_most_published_cases_run() -> None:
    assert sum("refused" not in case for case in PUBLISHED) >= LEAST_ACCEPTED


# -- both spellings ---------------------------------------------------------------------------

SPELLED: Final = [
    {**group, **case}
    for group in yaml.safe_load((HERE / "spellings.yaml").read_text(encoding="utf-8"))
    for case in group["cases"]
]


def in_sql(case: dict[str, Any]) -> Query:
    return parse_sql(f"MATCH_RECOGNIZE ({case['sql']})")


def in_language(case: dict[str, Any]) -> Query:
    """Return the query in our language, whose options come after WITHIN, SKIP and RETURN last."""
    body, returns, columns = case["query"].partition("RETURN")
    body, skip, to = body.partition("SKIP")
    within = case.get("within", "3599999999999 ns")
    options = f"USING strict MATCHES BEST TIES BY KEY {skip} {to} {returns} {columns}"
    return parse_query(f"PATTERN {body} WITHIN {within} {options}")


@each(SPELLED)
@pytest.mark.parametrize("spelling", [in_sql, in_language])
def test_spellings_find_the_same(case: dict[str, Any], spelling: Callable[[Any], Query]) -> None:
    finds(spelling(case), of_rows(case["rows"]), case, orders=10)


def is_of_the_language(query: Query) -> bool:
    parts = (part for expr in find_expressions(query) for part in walk(expr))
    return not any(isinstance(part, Running | RowRef | RowAggregate) for part in parts)


@each([case for case in SPELLED if is_of_the_language(in_sql(case))])
def test_both_spellings_are_one_tree(case: dict[str, Any]) -> None:
    """Only SQL has labels for the names of variables, and a list of no columns."""
    query = in_sql(case)
    node = rewrite_events(query.node, lambda event: replace(event, label=""))
    said = replace(query, node=node, columns=query.columns or None)
    assert said == in_language(case) == parse_query(unparse(said))
