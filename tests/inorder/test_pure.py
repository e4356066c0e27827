"""Examples: INORDER_PURE=1 runs the Python sources instead of the compiled modules."""

from __future__ import annotations

import shutil
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests import ROOT
from tests.kit.programs import Ended, python

RUN = "from {package}.room import thing; print(thing.__file__)"


@pytest.fixture(params=["topology", "agents"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Create a package in which a module has a source file and an invalid compiled file."""
    name: str = request.param
    room = tmp_path / name / "room"
    room.mkdir(parents=True)
    shutil.copy(ROOT / name / "__init__.py", room.parent)
    (room / "__init__.py").touch()
    (room / "thing.py").touch()
    (room / f"thing{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    shutil.copytree(ROOT / "inorder", tmp_path / "inorder")
    return name


def run(package: str, folder: Path, wanted: str) -> Ended:
    return python("-c", RUN.format(package=package), cwd=folder, env={"INORDER_PURE": wanted})


def test_pure_runs_the_source(package: str, tmp_path: Path) -> None:
    done = run(package, tmp_path, "1")
    assert done.stdout == f"{tmp_path / package / 'room' / 'thing.py'}\n", done.stderr


@pytest.mark.parametrize("wanted", ["", "0"])
def test_compiled_is_the_default(package: str, tmp_path: Path, wanted: str) -> None:
    last = run(package, tmp_path, wanted).stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"thing{EXTENSION_SUFFIXES[0]}" in last


def test_other_value_is_refused(package: str, tmp_path: Path) -> None:
    done = run(package, tmp_path, "yes")
    last = "ImportError: INORDER_PURE=yes is not valid; write 1, 0, or nothing"
    assert done.stderr.splitlines()[-1] == last


def test_command_runs_pure() -> None:
    words = ("-m", "inorder", "check", "docs/examples/press.yaml")
    done = python(*words, env={"INORDER_PURE": "1"})
    assert done.returncode == 0, done.stderr
