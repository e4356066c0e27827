"""MATCH_RECOGNIZE: what it finds, in any order of arrival, and what it refuses (examples)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.topology.pattern.test_published_cases import standing
from topology.model.event import Event
from topology.pattern.language.check import check
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.sql.parse import parse_sql
from topology.pattern.store.entry import Entry
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


def found(text: str, prices: list[int], **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """The variables of each match by place, and its values; the same in any order of arrival."""
    query = parse_sql(text, **options)
    check(query, params={})
    events = [
        Event("default", "s", 0, n, n * 10**9, n * 10**9, value={"price": price, "symbol": "x"})
        for n, price in enumerate(prices)
    ]
    answers = []
    for seed in range(4):
        arrivals = list(events)
        Random(seed).shuffle(arrivals)
        engine = Engine([Compiled(query)])
        for at, event in enumerate(arrivals):
            engine.accept(Entry(event, event.value), at)
        engine.end(0)
        results = sorted(standing(engine.findings), key=lambda each: each.members[0].seq)
        answers.append(
            [
                (" ".join(f"{m.alias}{m.seq}" for m in each.members), dict(each.values))
                for each in results
            ]
        )
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def test_a_v_shape() -> None:
    values = {"symbol": "x", "top": 9, "low": 3, "n": 5, "s": 8}
    assert found(V_SHAPE, [9, 5, 3, 4, 6, 2]) == [("STRT0 DOWN1 DOWN2 UP3 UP4", values)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B?", ["A0 B1", "A2 B3", "A4"]),
        ("A B??", ["A0", "A1", "A2", "A3", "A4"]),
        ("A{2,3}?", ["A0 A1", "A2 A3"]),
        ("(A B){1,2}", ["A0 B1 A2 B3"]),
        ("A (B C)? D", ["A0 B1 C2 D3"]),
        ("C | A B", ["C0", "C1", "C2", "C3", "C4"]),
        ("PERMUTE(A, B)", ["A0 B1", "A2 B3"]),
    ],
)
def test_preference(pattern: str, expected: list[str]) -> None:
    text = f"MATCH_RECOGNIZE (PATTERN ({pattern}) WITHIN INTERVAL '1' HOUR)"
    assert [members for members, _ in found(text, [1, 2, 3, 4, 5])] == expected


def test_prev_looks_at_the_row_before_be_it_of_the_match_or_not() -> None:
    text = (
        "MATCH_RECOGNIZE (PARTITION BY symbol PATTERN (UP+) WITHIN INTERVAL '1' HOUR"
        " DEFINE UP AS UP.price > PREV(UP.price))"
    )
    assert [members for members, _ in found(text, [5, 3, 4, 6, 2, 7])] == ["UP2 UP3", "UP5"]


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
        (
            "PATTERN (A B) WITHIN INTERVAL '1' HOUR DEFINE B AS x > PREV(x, 2) + A.x",
            "E_SQL",
        ),
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
