"""Examples: an archive of Java's classes is made once, and used if it exists."""

from __future__ import annotations

import os
from pathlib import Path

from cli.local import classes
from infra import archives


def write(_: Path) -> None:
    """Write the archive, as Java does when it exits."""
    (option,) = [each for each in os.environ[archives.OPTIONS].split() if "AtExit" in each]
    Path(option.partition("=")[2]).write_text("classes")


def test_archive_is_made_once(tmp_path: Path) -> None:
    before = os.environ.get(archives.OPTIONS)
    assert classes.read_options(tmp_path) == []
    archives.make(tmp_path, write)
    path = classes.archive_path(tmp_path)
    assert path.read_text() == "classes"
    archives.make(tmp_path, lambda _: path.unlink())  # This function is not called.
    assert classes.read_options(tmp_path) == [f"-XX:SharedArchiveFile={path}"]
    assert os.environ.get(archives.OPTIONS, "") == (before or "")


def test_missing_archive_is_no_fault(tmp_path: Path) -> None:
    archives.make(tmp_path, lambda _: None)
    assert classes.read_options(tmp_path) == []
