"""Examples: the user's own aggregates and functions, loaded by the topology file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.invoking import Answer, inorder

FORMULAS = """\
from inorder.engine import Function

def spread():
    def add(state, value):
        low, high = state or (value, value)
        return [min(low, value), max(high, value)]
    def combine(a, b):
        return b if a is None else a if b is None else [min(a[0], b[0]), max(a[1], b[1])]
    return Function(lambda: None, add, combine, lambda s: None if s is None else s[1] - s[0])

def broken(state, value):
    raise ValueError(value)

aggregates = {"spread": spread(), "broken": Function(lambda: 0, broken, max)}
functions = {"distance": lambda a, b: abs(a - b), "fails": lambda a: 1 // 0}
"""
TOPOLOGY = """\
streams: {default: {clock: {unsynced: trust}}}
functions: formulas.py
queries:
  spread: {window: tumbling 1s, aggregate: {s: spread(payload.v), b: broken(payload.v)}}
  far: {pattern: "PATTERN SEQ(A a, A b) WHERE distance(a.v, b.v) >= 5 WITHIN 1 s"}
  never: {pattern: "PATTERN A a WHERE fails(a.v) > 0 WITHIN 1 s"}
"""
VALUES = (3, 4, 9, 2)


def replayed(tmp_path: Path, topology: str = TOPOLOGY, formulas: str | None = FORMULAS) -> Answer:
    """Replay the events in a folder that is not the current one."""
    (tmp_path / "t.yaml").write_text(topology)
    if formulas is not None:
        (tmp_path / "formulas.py").write_text(formulas)
    events = tmp_path / "events.jsonl"
    rows = [
        {"source": "s", "seq": at, "ts": at * 10**8, "type": "A", "payload": {"v": v}}
        for at, v in enumerate(VALUES)
    ]
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    topology_path = tmp_path / "t.yaml"
    return inorder("replay", "--topology", topology_path, "--show", "window,match", events)


def test_functions_are_called(tmp_path: Path) -> None:
    lines = replayed(tmp_path).lines
    windows = [line["values"] for line in lines if line["kind"] == "window"]
    assert windows == [{"s": 7, "b": 0}]
    found = [line["events"] for line in lines if line["kind"] == "match"]
    matches = [[event["seq"] for event in events] for events in found]
    assert matches == [[0, 2], [1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("formulas", "words"),
    [
        (None, "there is no Python file"),
        ("1 / 0", "fails with ZeroDivisionError: division by zero"),
        ("functions = []", "`functions` is not a mapping"),
        ("", "defines neither `aggregates` nor `functions`"),
        ("aggregates = {'x': max}", "is not an inorder.engine.Function"),
        ("raise SystemExit(3)", "fails with SystemExit: 3"),
        ("functions = {'distance': max}", "`spread` is not an aggregate"),
    ],
)
def test_invalid_file_is_refused(tmp_path: Path, formulas: str | None, words: str) -> None:
    ran = replayed(tmp_path, formulas=formulas)
    assert ran.code == 2
    assert words in ran.err


def test_documented_example_works(tmp_path: Path) -> None:
    text = (ROOT / "docs/guides/windows.md").read_text()
    (formulas,) = re.findall(r"## Functions of your own.*?```python\n(.*?)```", text, re.DOTALL)
    query = "  spread: {window: tumbling 1s, aggregate: {s: spread(payload.v)}}\n"
    topology = re.sub(r"  spread:.*\n|  never:.*\n", "", TOPOLOGY) + query
    lines = replayed(tmp_path, topology, formulas).lines
    assert [line["values"] for line in lines if line["kind"] == "window"] == [{"s": 7}]
    assert len([line for line in lines if line["kind"] == "match"]) == 3
