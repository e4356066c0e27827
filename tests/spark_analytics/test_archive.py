"""Examples: which files an archive is read from. Without Spark, by a reader that lists what is
there (with it: tests/spark_analytics/test_writing.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_analytics import archive


class Reader:
    """A session, its reader and what that reads, as far as `archive.read` asks."""

    def __init__(self, between: Callable[[], None]) -> None:
        self.read = self
        self.paths: tuple[str, ...] = ()
        self._between = between

    def option(self, *_: str) -> Reader:
        return self

    schema = option

    def parquet(self, *paths: str) -> Reader:
        self.paths = paths
        return self

    def select(self, *_: str) -> Any:
        return sorted(f.name for path in self.paths for f in Path(path).rglob("*.parquet"))

    def inputFiles(self) -> list[str]:  # noqa: N802 - as Spark calls it
        found = [file.as_posix() for path in self.paths for file in Path(path).rglob("*.parquet")]
        self._between()
        return found


def test_a_compaction_that_runs_meanwhile_lets_no_record_come_twice(tmp_path: Path) -> None:
    hour = tmp_path / "stream=a" / "hour=2023-11-14T22"

    def written(batch: str, name: str) -> None:
        (hour / f"batch={batch}").mkdir(parents=True)
        (hour / f"batch={batch}" / f"{name}.parquet").touch()

    written("0", "first")
    written("1", "second")
    reader: Any = Reader(lambda: written("0-1", "both"))
    found: Any = archive.read(reader, str(tmp_path))
    assert found == ["first.parquet", "second.parquet"]
    reader = Reader(lambda: None)
    found = archive.read(reader, str(tmp_path))
    assert found == ["both.parquet"]


def test_a_file_that_is_of_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").touch()
    reader: Any = Reader(lambda: None)
    with pytest.raises(FileNotFoundError, match=r"x\.parquet lies in no archive; name what"):
        archive.read(reader, str(tmp_path))
