"""Examples: faults are planted, named and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.mutants.__main__ import ROOMS, SEED, told
from tests.mutants.live import plant, watch
from tests.mutants.plant import KINDS, drawn, mutants_of, planted

MODULE = b'''"""A module."""
LIMIT = 3

class Box:
    size: int = 4

    def put(self, key, row, most=5):
        """Put a row."""
        if key < row <= 7:
            self.note(key)
            self.note(key)
        return min(put(key, row), 1)
'''


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("comparison: < -> <=", "if key <= row <= 7:"),
        ("comparison: <= -> <", "if key < row < 7:"),
        ("bound: 7 -> 8", "if key < row <= 8:"),
        ("bound: min -> max", "return max(put(key, row), 1)"),
        ("branch: key < row <= 7 -> False", "if False:"),
        ("arguments: key, row -> row, key", "return min(put(row, key), 1)"),
        ("note: self.note(key) -> pass (2)", "self.note(key)\n            pass"),
    ],
)
def test_each_kind_is_planted(name: str, line: str) -> None:
    found = {mutant.name: mutant for mutant in mutants_of("box.py", MODULE)}
    text = planted(MODULE, found[f"box.py::Box.put {name}"]).decode()
    assert line in text
    assert text.count("\n") == MODULE.decode().count("\n")


def test_constants_get_no_fault() -> None:
    texts = [mutant.name for mutant in mutants_of("box.py", MODULE)]
    assert not [name for name in texts if "3 ->" in name or "4 ->" in name or "5 ->" in name]


def test_draw_has_each_kind() -> None:
    mutants = drawn(ROOT, ROOMS, SEED)
    kinds = [mutant.kind for mutant in mutants]
    assert {kind: kinds.count(kind) for kind in KINDS} == KINDS
    assert len({mutant.name for mutant in mutants}) == sum(KINDS.values())
    for mutant in mutants:
        compile(planted((ROOT / mutant.module).read_bytes(), mutant), mutant.module, "exec")


def test_loaded_function_gets_the_fault(tmp_path: Path) -> None:
    path = tmp_path / "box.py"
    path.write_bytes(MODULE)
    space: dict[str, Any] = {"put": lambda key, row: 10 * key + row}
    exec(compile(MODULE, path, "exec"), space)
    box = space["Box"]()
    box.note = lambda key: None
    mutants = [each for each in mutants_of("box.py", MODULE) if "Box.put" in each.name]
    reached = watch(tmp_path, mutants)
    assert box.put(2, 1) == 1
    met = {mutants[number].name.partition(" ")[2] for number in reached}
    assert "comparison: < -> <=" in met
    assert "note: self.note(key) -> pass" not in met
    (largest,) = (each for each in mutants if "min -> max" in each.name)
    assert plant(tmp_path, largest) == 1
    assert box.put(2, 1) == 21


def test_newly_uncaught_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert told({"a": False, "b": False, "c": True}, ["a", "c"]) == ["b"]
    assert "3 mutants, 2 not caught, 1 of them new" in capsys.readouterr().out
