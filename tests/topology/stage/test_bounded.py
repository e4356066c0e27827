"""Examples: results that are too large for any topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import inorder
from topology.base.event import NO_EPOCH
from topology.base.result import (
    EMIT,
    RETRACT,
    UPDATE,
    JoinResult,
    MatchResult,
    Member,
    Overflow,
    Partner,
    Result,
    WindowResult,
)
from topology.stage.bounded import replace_large

MOST_BYTES = 5_000
LARGE = {"v": "x" * MOST_BYTES}
MEMBER = Member("x", "s", NO_EPOCH, 3, 8)


def made(kind: type[Result], values: dict[str, Any], op: str = EMIT, revision: int = 0) -> Any:
    head = (9, "default", "q", f"{op}-{revision}", op, revision, False, "confirmed", 1, 2, values)
    if kind is MatchResult:
        return MatchResult(*head, members=[MEMBER])
    if kind is JoinResult:
        return JoinResult(*head, partners=[Partner("x", "default", *MEMBER[1:])])
    return kind(*head)


@pytest.mark.parametrize(
    ("kind", "found_by", "member"),
    [
        (WindowResult, "window", None),
        (MatchResult, "pattern", MEMBER),
        (JoinResult, "join", MEMBER),
    ],
)
def test_large_result_overflows_its_query(
    kind: type[Result], found_by: str, member: Member | None
) -> None:
    small, overflow = made(kind, {"v": 1}), Overflow(9, "default", "q", member, 0, found_by)
    assert replace_large([small], MOST_BYTES) == [small]
    assert replace_large([made(kind, LARGE), small], MOST_BYTES) == [overflow, small]
    retract, said = replace_large([made(kind, LARGE, UPDATE, 1)], MOST_BYTES)
    assert said == overflow
    assert isinstance(retract, kind)
    assert (retract.id, retract.op, retract.revision) == ("update-1", RETRACT, 1)
    assert "xxx" not in repr(retract)
    (retract,) = replace_large([made(kind, LARGE, RETRACT, 2)], MOST_BYTES)
    assert isinstance(retract, kind)
    assert (retract.op, retract.values) == (RETRACT, {})


@pytest.mark.parametrize(
    "values",
    [
        {"v": ["x" * 100] * 50},
        {"v": {"x" * MOST_BYTES: 1}},
        {"v": "\0" * 900},
        {f"v{n}": 1.5 for n in range(900)},
    ],
)
def test_size_covers_the_whole_line(values: dict[str, Any]) -> None:
    (found,) = replace_large([made(MatchResult, values)], MOST_BYTES)
    assert isinstance(found, Overflow)


def test_result_within_bound_is_kept() -> None:
    near = made(MatchResult, {"v": "x" * (MOST_BYTES - 500)})
    assert replace_large([near], MOST_BYTES) == [near]
    assert near.values


def test_replay_shows_the_overflow(tmp_path: Path) -> None:
    """Two events within the bound make a match beyond it."""
    (tmp_path / "t.yaml").write_text(
        "streams: {default: {reorder: {rule: fixed, max_wait: 1s}, clock: {sync: none}}}\n"
        "queries:\n"
        '  q: {pattern: "PATTERN SEQ(a x, b y) WITHIN 60 s RETURN x.big AS p, y.big AS q"}\n'
    )
    events = [
        {"source": "s", "seq": n, "ts": n, "arrival": n, "type": type_, "payload": {"big": big}}
        for n, (type_, big) in enumerate(
            [("a", "x" * 9_000_000), ("b", "y" * 9_000_000), ("a", "x"), ("b", "y")]
        )
    ]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    found = inorder("replay", "--topology", str(tmp_path / "t.yaml"), str(tmp_path / "e.jsonl"))
    kinds = [line["kind"] for line in found.lines if line["kind"] in ("match", "overflow")]
    assert kinds.count("overflow") >= 1
    assert kinds.count("match") >= 1
    assert max(map(len, found.out.splitlines())) < 16 << 20
