"""Examples: `inorder match --sql` takes MATCH_RECOGNIZE where `--query` takes patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import inorder, json_lines, text_file

CLAUSE = (
    "MATCH_RECOGNIZE (PARTITION BY place ORDER BY ref_time MEASURES LAST(B.v) AS v"
    " PATTERN (A B+) WITHIN INTERVAL '10' SECOND DEFINE B AS B.v > A.v)"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [(0, 3, "x"), (1, 1, "y"), (2, 5, "x"), (3, 2, "y"), (4, 0, "x")]
    lines = [
        {"source": "s", "seq": n, "ts": n * 10**9, "type": "T", "payload": {"v": v, "place": place}}
        for n, v, place in rows
    ]
    return json_lines(tmp_path / "rows.jsonl", lines)


def matches(*arguments: str | Path) -> list[dict[str, Any]]:
    return inorder("match", *arguments).well().lines


@pytest.mark.parametrize("text", [CLAUSE, f"SELECT * FROM plant {CLAUSE} AS m;"])
def test_sql_can_be_text_or_a_file(text: str, file: Path, tmp_path: Path) -> None:
    written = text_file(tmp_path / "query.sql", text)
    marked = text_file(tmp_path / "marked.sql", f"\ufeff{text}")
    for given in (text, written, marked):
        found = matches("--sql", given, file)
        assert [match["values"] for match in found] == [
            {"place": "x", "v": 5},
            {"place": "y", "v": 2},
        ]
        members = [[(e["alias"], e["seq"]) for e in match["events"]] for match in found]
        assert members == [[("A", 0), ("B", 2)], [("A", 1), ("B", 3)]]


def test_no_measures_means_no_values(file: Path) -> None:
    text = 'MATCH_RECOGNIZE (PATTERN (a "b c") DEFINE a AS v = 3)'
    (match,) = matches("--sql", text, "--default-within", "5s", file)
    assert match["values"] == {}
    assert [event["alias"] for event in match["events"]] == ["a", "b c"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--sql", "MATCH_RECOGNIZE (PATTERN (A))"), "write WITHIN INTERVAL"),
        (("--sql", "absent.sql"), "absent.sql: there is no such file"),
        (("--query", "absent.txt"), "absent.txt: there is no such file"),
        (("--query", "/"), "/: is not a file"),
        (("--sql", CLAUSE.replace("ref_time", "v")), "write ORDER BY ref_time"),
        (
            ("--sql", CLAUSE, "--query", "PATTERN A a WITHIN 1 s"),
            "give the patterns by --query, or",
        ),
        ((), "give the patterns by --query, or"),
        (("--sql", CLAUSE, "--default-within", "soon"), "--default-within soon"),
        (("--sql", CLAUSE.replace("DEFINE", "DEFINED")), "line 1"),
    ],
)
def test_wrong_sql_is_refused(arguments: tuple[str, ...], says: str, file: Path) -> None:
    inorder("match", *arguments, file).refused(says)
