"""Examples: a pattern of the topology file, written as MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topology.spelling.test_problem import refusal
from topology.config import parse
from topology.queries.pattern.settings import PatternQuery, pattern

SQL = "SELECT * FROM b MATCH_RECOGNIZE (PATTERN (A B) WITHIN INTERVAL '5' SECOND DEFINE A AS v = 1)"


def file(sql: str, **more: Any) -> dict[str, Any]:
    streams = {"a": {"input": "in_a"}, "b": {"input": "in_b"}}
    return {"streams": streams, "queries": {"q": {"pattern": sql, **more}}}


def test_from_names_the_stream() -> None:
    assert parse(file(SQL)).queries["q"].streams == ["b"]
    assert parse(file(SQL, stream="b")).queries["q"].streams == ["b"]
    alone = SQL.removeprefix("SELECT * FROM b ")
    assert parse(file(alone, stream="a")).queries["q"].streams == ["a"]


@pytest.mark.parametrize(
    ("document", "path", "says"),
    [
        (file(SQL, stream="a"), "queries.q.stream", "FROM of the pattern names `b`"),
        (file(SQL.replace("FROM b", "FROM c")), "queries.q.stream", "there is no stream `c`"),
        (file(SQL.replace("(A B)", "(A*)")), "queries.q.pattern", "(line 1, column 17 of the"),
        (file(SQL.replace(" WITHIN INTERVAL '5' SECOND", "")), "queries.q.pattern", "time limit"),
    ],
)
def test_problem_names_its_place(document: dict[str, Any], path: str, says: str) -> None:
    (problem,) = refusal(document)
    assert problem.path == path
    assert says in problem.message


def test_dump_keeps_the_sql() -> None:
    query = PatternQuery(pattern=pattern(SQL))
    dumped = query.model_dump(exclude_unset=True)
    assert dumped == {"pattern": SQL}
    assert PatternQuery.model_validate(dumped) == query
