"""Examples: entries take turns, unavailable ones are left out, and a slower tree is found."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.__main__ import bench
from benchmarks.harness import ROOT, Asked, Tables, compare_trees, make_table, run_in_turns
from benchmarks.peers.bring import PeerUnavailable
from benchmarks.tables import Table


def absent() -> int:
    raise PeerUnavailable("no such engine")


def test_entries_take_turns() -> None:
    said: list[str] = []
    entries = {name: partial(said.append, name) for name in "ab"}
    assert run_in_turns(entries, rounds=2) == {"a": [None, None], "b": [None, None]}
    assert said == ["a", "b", "a", "b"]


def test_unavailable_entry_is_left_out() -> None:
    said: list[str] = []
    assert run_in_turns({"theirs": absent, "ours": lambda: 1}, 1, said.append) == {"ours": [1]}
    assert said == ["theirs: left out: no such engine"]


def test_scores_are_relative() -> None:
    columns = {"times": lambda one, other: f"{one / other:.1f}"}
    assert make_table("t", {"a": 2, "b": 6}, columns).rows == [("a", "1.0"), ("b", "3.0")]
    assert make_table("t", {"a": 2, "b": 6}, columns, "b").rows == [("a", "0.3"), ("b", "1.0")]


def two_tables(asked: Asked) -> Tables:
    """Yield two tables, and one that is unavailable."""
    for name in ("short", "long"):
        yield name, partial(Table, f"the {name} one", ("", f"full {asked.full}"))
    yield "absent", lambda: Table("none", (str(absent()),))


def test_selected_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    command = harness.command(two_tables)
    bench(command, "--only", "long", "--full")
    out = capsys.readouterr().out
    assert "the long one" in out
    assert "full True" in out
    assert "short" not in out
    bench(command)
    assert "absent: left out: no such engine" in capsys.readouterr().out


PLANTED = """

_on_batch = Reorder.on_batch


def _slow(self, events, now_ns):
    for _ in range(20_000):
        pass
    return _on_batch(self, events, now_ns)


Reorder.on_batch = _slow
"""


def test_slower_tree_is_found(tmp_path: Path) -> None:
    """REORDER in the other tree is slowed down for each batch."""
    tree = tmp_path / "slower"
    for room in ("topology", "agents", "inorder"):
        shutil.copytree(ROOT / room, tree / room)
    operator = tree / "topology/order/reorder/operator.py"
    operator.write_text(operator.read_text() + PLANTED)
    asked = Asked(rounds=1, beside=tree)
    table = compare_trees(asked, "core", "benchmarks.core:measure", events=500, batches=(10,))
    assert table.columns == ("", "this tree", "slower", "ratio")
    ratios = {row[0]: float(row[3]) for row in table.rows}
    assert ratios["reorder, 12% delayed, batches of 10: us an event"] < 0.5
    assert ratios["a source: bytes"] == pytest.approx(1, abs=0.05)
