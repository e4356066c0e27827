"""Others' truths (examples): published cases of MATCH_RECOGNIZE, as data (cases_sql/*.yaml).

Each is run in order and in orders of arrival at random; what cannot have a meaning on a stream, or
is not built, is refused with the code that the case names. With ALL ROWS PER MATCH each row is a
result. What is left out of a suite: MATCH_NUMBER, subqueries, and joins of several clauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.topology.pattern.following import of_rows, shown_of_rows
from topology.pattern.language.check import check
from topology.pattern.sql.parse import parse_sql
from topology.pattern.tree.errors import QueryRefused

CASES: Final = Path(__file__).parent / "cases_sql"
ORDERS: Final = 6
LEAST_ACCEPTED: Final = 113
"""There are 118 that have a meaning on a stream. The others: groups of several rows without an
upper bound (3), PREV beyond the match beside rows of the match, and NEXT in DEFINE. What has none:
anchors, empty matches, unmatched rows, and a skip to the first row."""


@dataclass(frozen=True)
class Case:
    name: str
    rows: tuple[int, ...]
    text: str
    refused: str | None
    matches: tuple[str, ...]
    values: tuple[dict[str, Any], ...] | None


def cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("*.yaml")):
        suite = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in suite["groups"]:
            for number, case in enumerate(group["cases"], start=1):
                define = case.get("define", group.get("define"))
                parts = [
                    "ORDER BY ref_time",
                    f"MEASURES {case['measures']}" if "measures" in case else "",
                    case.get("clause", ""),
                    f"PATTERN ({case['pattern']}) WITHIN INTERVAL '1' HOUR",
                    f"SUBSET {case['subset']}" if "subset" in case else "",
                    f"DEFINE {define}" if define else "",
                ]
                yield Case(
                    f"{suite['engine']}-{group['test'].split(',')[0]}-{number}",
                    tuple(group["rows"]),
                    f"MATCH_RECOGNIZE ({' '.join(filter(None, parts))})",
                    case.get("refused"),
                    tuple(case.get("matches", ())),
                    tuple(case["values"]) if "values" in case else None,
                )


ALL: Final = tuple(cases())


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL])
def test_a_published_case(case: Case) -> None:
    if case.refused is not None:
        with pytest.raises(QueryRefused) as refused:
            check(parse_sql(case.text), params={})
        assert case.refused in {error.code for error in refused.value.errors}
        return
    query = parse_sql(case.text)
    check(query, params={})
    found = shown_of_rows(query, of_rows(case.rows, "value"), ORDERS)
    assert [members for members, _ in found] == list(case.matches)
    if case.values is not None:
        assert [values for _, values in found] == list(case.values)


def test_most_of_a_suite_is_accepted() -> None:
    assert sum(case.refused is None for case in ALL) >= LEAST_ACCEPTED
