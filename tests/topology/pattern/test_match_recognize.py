"""MATCH_RECOGNIZE: what it finds, in any order of arrival, and what it refuses (examples)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topology.pattern.following import of_rows, shown_of_rows
from topology.pattern.language.check import check
from topology.pattern.sql.parse import parse_sql
from topology.pattern.tree.errors import QueryRefused

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


def test_a_v_shape() -> None:
    values = {"symbol": "x", "top": 9, "low": 3, "n": 5, "s": 8}
    assert found(V_SHAPE, [9, 5, 3, 4, 6, 2]) == [("STRT1 DOWN2 DOWN3 UP4 UP5", values)]


def test_the_interval_is_exclusive() -> None:
    assert found("MATCH_RECOGNIZE (PATTERN (A B))", [1, 2], default_within_ns=10**9) == []
    assert found("MATCH_RECOGNIZE (PATTERN (A B))", [1, 2], default_within_ns=10**9 + 1) != []


@pytest.mark.parametrize(
    ("clause", "code"),
    [
        ("PATTERN (A)", "E_WINDOW"),
        ("ORDER BY price PATTERN (A) WITHIN INTERVAL '1' HOUR", "E_SQL"),
        ("PATTERN (^ A) WITHIN INTERVAL '1' HOUR", "E_SQL"),
        ("PATTERN (A*) WITHIN INTERVAL '1' HOUR", "E_ALL_OPTIONAL"),
        ("PATTERN ((A B)+) WITHIN INTERVAL '1' HOUR", "E_QUANT"),
        ("MEASURES MATCH_NUMBER() AS n PATTERN (A) WITHIN INTERVAL '1' HOUR", "E_SQL"),
        ("PATTERN (A B) WITHIN INTERVAL '1' HOUR DEFINE B AS x > PREV(x, 2) + A.x", "E_SQL"),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A) WITHIN INTERVAL '1' HOUR", "E_SQL"),
        ("MEASURES CLASSIFIER(B) AS c PATTERN (A) WITHIN INTERVAL '1' HOUR", "E_ALIAS_UNKNOWN"),
        ("PATTERN (A) WITHIN INTERVAL '1' HOUR DEFINE B AS x > 1", "E_ALIAS_UNKNOWN"),
        ("PATERN (A)", "E_SYNTAX"),
    ],
)
def test_what_is_refused_has_its_reason(clause: str, code: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_sql(f"MATCH_RECOGNIZE ({clause})")
    assert [error.code for error in refused.value.errors] == [code]
    assert refused.value.errors[0].line == 1
