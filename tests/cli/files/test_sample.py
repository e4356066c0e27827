"""Examples: `inorder sample` writes what the pages' commands read, and replaces nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.invoking import inorder

NAMES = ("telemetry.csv", "telemetry.yaml", "absence.jsonl", "absence.yaml")


def test_sample_is_that_of_the_pages(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    inorder("sample", str(folder)).well("written: ")
    for name in NAMES:
        assert (folder / name).read_text() == (ROOT / "docs/examples" / name).read_text()
    inorder("sample", str(folder)).well("written: ")


@pytest.mark.parametrize(
    "folder", [(), ("a/b",), ("../a b",)], ids=["here", "below", "beside, with a blank"]
)
def test_commands_it_names_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: tuple[str, ...]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    said = inorder("sample", *folder).well().out.partition("next: ")[2]
    commands = [shlex.split(line)[1:] for line in said.splitlines()]
    assert [words[0] for words in commands] == ["audit", "replay"]
    for words in commands:
        inorder(*words).well()


@pytest.mark.parametrize("name", NAMES)
def test_other_file_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    inorder("sample", str(tmp_path)).refused(f"{name} has other contents", "another FOLDER")
    assert [(tmp_path / name).read_text()] == [each.read_text() for each in tmp_path.iterdir()]


def test_file_as_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inorder("sample", str(tmp_path / "file" / "below")).refused("Not a directory")
