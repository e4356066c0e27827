"""Examples: the output of `inorder match`, mainly on difficult input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import Answer, inorder, json_lines


def match(folder: Path, query: str, events: list[dict[str, Any]], *options: str) -> Answer:
    return inorder("match", "--query", query, *options, json_lines(folder / "events.jsonl", events))


def letters(text: str, **more: Any) -> list[dict[str, Any]]:
    """Return events for `a1 b2`, each word a type and a time."""
    return [
        {"source": "s", "seq": seq, "ts": int(word[1:]), "type": word[0].upper(), **more}
        for seq, word in enumerate(text.split())
    ]


def lines(answer: Answer) -> list[dict[str, Any]]:
    return answer.well().lines


def members(answer: Answer, query: str = "q1") -> list[list[int]]:
    return [
        [event["ref_time"] for event in line["events"]]
        for line in lines(answer)
        if line["kind"] == "match" and line["query"] == query
    ]


AB = "PATTERN SEQ(A a, B b) WITHIN 10 ns"


def test_value_outside_json_is_null(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 10 ns RETURN a.x * b.x AS y, a.x AS x"
    found = lines(match(tmp_path, query, letters("a1 b2", payload={"x": 2**62})))
    assert found[0]["values"] == {"y": None, "x": 2**62}


def test_deep_payload_is_accepted(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"d": deep}
    found = lines(match(tmp_path, AB, letters("a1 b2", payload=deep)))
    assert [line["kind"] for line in found] == ["match"]


def test_start_negation_outlasts_skip(tmp_path: Path) -> None:
    query = "PATTERN SEQ(!C n, A a, B b) WITHIN 6 ns MATCHES ALL SKIP PAST LAST"
    assert members(match(tmp_path, query, letters("c5 a10 b11 x14 b16"))) == []


def test_strict_queries_stay_independent(tmp_path: Path) -> None:
    long = "QUERY long PATTERN SEQ(A a, B+ b[], C c) WHERE [room] WITHIN 1000 ns USING strict"
    short = "QUERY short PATTERN SEQ(A a, B b) WHERE [zone] WITHIN 1 ns USING strict"
    text = "a1 " + " ".join(f"b{at}" for at in range(2, 300)) + " c300"
    events = letters(text, payload={"room": 1, "zone": 1})
    alone = members(match(tmp_path, long, events), "long")
    assert members(match(tmp_path, f"{short}; {long}", events), "long") == alone
    assert len(alone[-1]) == 300


def test_dead_event_moves_no_frontier(tmp_path: Path) -> None:
    events = letters("a1 x1000 b2")
    events[1]["error"] = 10**18
    found = lines(match(tmp_path, AB, events))
    assert [line["kind"] for line in found] == ["dead", "match"]
    assert found[0]["reason"] == "error_too_large"


def test_huge_time_is_a_dead_letter(tmp_path: Path) -> None:
    found = lines(match(tmp_path, AB, letters(f"a1 a{2**62 + 5} b2")))
    assert [(line["kind"], line.get("reason")) for line in found] == [
        ("dead", "time_huge"),
        ("match", None),
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("PATTERN SEQ(A a, B b)", "a pattern needs a window"),
        ("PATTERN SEQ(A a, B b) WHERE c.x > 1 WITHIN 1 s", "E_ALIAS_UNKNOWN"),
    ],
)
def test_wrong_query_is_refused(tmp_path: Path, query: str, words: str) -> None:
    match(tmp_path, query, []).refused(words, "line 1, column")


SETS = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 20 ns USING skip_till_any MATCHES MAXIMAL AS SETS"
LATE_B = [*letters("a1 b2 a3 b4 c6 c9"), {"source": "t", "seq": 0, "ts": 5, "type": "B"}]


def test_match_sets_are_updated(tmp_path: Path) -> None:
    found = lines(match(tmp_path, SETS, LATE_B, "--correct"))
    assert [(line["kind"], line["op"], line["count"]) for line in found] == [
        ("match_set", "emit", 2), ("match_set", "emit", 2),
        ("match_set", "update", 2), ("match_set", "update", 2),
    ]  # fmt: skip
    assert [list(line)[-5:] for line in found[1:3]] == [
        ["count", "ranges", "at", "stream", "key"], ["ranges", "joined", "at", "stream", "key"],
    ]  # fmt: skip
    assert found[2]["ranges"][1] == {
        "alias": "b",
        "count": 3,
        "first": {"source": "s", "epoch": 0, "seq": 1, "ref_time": 2},
        "last": {"source": "t", "epoch": 0, "seq": 0, "ref_time": 5},
    }
    current = lines(match(tmp_path, SETS, LATE_B, "--correct", "--final-only"))
    assert [(line["count"], line["final"]) for line in current] == [(2, True), (2, True)]


def test_limit_bounds_output_only(tmp_path: Path) -> None:
    events = letters("a1 a2 a3 b4 c5")
    kinds = [line["kind"] for line in lines(match(tmp_path, f"{SETS} LIMIT 2", events, "--expand"))]
    assert kinds == ["match", "match", "overflow"]
    (found,) = lines(match(tmp_path, f"{SETS} LIMIT 2", events))
    assert found["count"] == 3
