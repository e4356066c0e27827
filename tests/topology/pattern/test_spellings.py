"""Examples: a query in both spellings (spellings.yaml) finds the same, in any order of arrival."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml

from tests.topology.pattern.generate import entry
from tests.topology.pattern.test_published_cases import standing
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse_query
from topology.pattern.match.compiled import Compiled
from topology.pattern.run.engine import Engine
from topology.pattern.sql.parse import parse_sql
from topology.pattern.store.entry import Entry
from topology.pattern.tree.syntax import Query

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
    query = parse_sql(f"MATCH_RECOGNIZE ({case['sql']})") if is_sql else in_language(case)
    check(query, params={})
    compiled = Compiled(query)
    stream = [entry("T", n * 10**9, n, {"v": v}) for n, v in enumerate(rows, start=1)]
    for seed in range(ORDERS):
        arrivals = stream if not seed else Random(seed).sample(stream, len(stream))
        engine = Engine([compiled])
        for at, one in enumerate(arrivals):
            engine.accept(Entry(one.event, one.payload), at)
        engine.end(0)
        found = sorted(standing(engine.findings), key=lambda each: each.start_ns)
        members = [" ".join(f"{m.alias}{m.seq}" for m in each.members) for each in found]
        assert members == case["matches"], seed
        if "values" in case:
            assert [dict(each.values) for each in found] == case["values"], seed
