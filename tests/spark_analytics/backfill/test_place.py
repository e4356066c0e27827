"""Examples: the tables appear all at once and never replace files; failed runs leave nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs, parquet
from pyarrow.fs import LocalFileSystem

from spark_analytics.backfill.in_lake import LakeTables
from spark_analytics.backfill.kinds import TABLES, File, Part
from spark_analytics.backfill.place import PENDING, STATE, Place, PlaceRefused, file_system
from spark_analytics.backfill.resuming import Resumed
from spark_analytics.tables.catalog import TablesRefused
from topology.config import parse

GAP = {"kind": "gap", "stream": "s", "source": "a", "epoch": 0, "first": 1, "last": 2, "at": 5}


def written(place: Place, name: str) -> list[File]:
    files, folder = file_system(place.staged)
    part = Part(files, folder, name)
    part.take([GAP], {})
    return part.close()


def test_publish_leaves_only_whole_tables(tmp_path: Path) -> None:
    """An output folder can exist if it is empty."""
    out = tmp_path / "out"
    out.mkdir()
    place = Place(str(out))
    written(place, "failed")
    place.complete(written(place, "whole"))
    place.publish({"in": 1})
    assert {each.name for each in out.iterdir()} == {*TABLES, "_backfill.json"}
    assert [each.name for each in (out / "gaps").iterdir()] == ["whole-gaps.parquet"]
    gaps = parquet.read_table(out / "gaps").to_pylist()
    assert [(gap["position"], gap["stream"], gap["at_ns"]) for gap in gaps] == [(0, "s", 5)]
    assert parquet.read_table(out / "windows").num_rows == 0
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_next_run_removes_killed_runs_files(tmp_path: Path) -> None:
    killed = (
        "import os, signal, sys\n"
        "from spark_analytics.backfill.place import Place\n"
        "Place(sys.argv[1])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "out")], check=False)
    (left,) = tmp_path.iterdir()
    living = Place(str(tmp_path / "out"))
    other = Place(str(tmp_path / "other"))
    (tmp_path / ".out-mine").mkdir()
    second = Place(str(tmp_path / "out"))
    assert not left.exists()
    assert all(Path(each.staged).exists() for each in (living, other, second))
    assert (tmp_path / ".out-mine").exists()


def test_pending_rows_are_kept(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "out"))
    place.keep()
    place.discard()
    coming = tmp_path / "out" / STATE / PENDING
    coming.parent.mkdir(parents=True)
    coming.write_text("{}")
    Place(str(tmp_path / "out"), adds=True)
    assert Path(place.staged).exists()


@pytest.mark.parametrize("there", ["file", "filled"])
def test_existing_files_are_kept(there: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if there == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(PlaceRefused, match="name a"):
        Place(str(out))
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["a[1]", "a*", "what?", "{a,b}", "a\\b"])
def test_lake_named_as_glob_is_refused(name: str) -> None:
    """No session is needed to refuse the name."""
    lake: Any = SimpleNamespace(place=f"/tables/{name}")
    with pytest.raises(TablesRefused, match=r"^--out /tables/.*part of a pattern.*; name a folder"):
        LakeTables(lake, parse("streams: {default: {}}\n")).require(made=False)


def test_files_added_meanwhile_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    place = Place(str(out))
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(PlaceRefused):
        place.publish({})
    place.discard()
    assert [each.name for each in out.iterdir()] == ["mine"]


def test_killed_run_must_be_resumed(tmp_path: Path) -> None:
    """A killed run leaves half of its files, so the message asks for `--resume` and not for their
    removal.
    """
    (tmp_path / "_state").mkdir()
    (tmp_path / "_state" / "coming.json").write_text("{}")
    with pytest.raises(PlaceRefused, match=r"was killed while it added its rows.*add --resume"):
        Place(str(tmp_path))


def test_failed_run_leaves_kept_files_only(tmp_path: Path) -> None:
    out = tmp_path / "out"
    place = Place(str(out))
    written(place, "half")
    out.mkdir()  # A catalog creates the folder.
    place.discard()
    place.discard()
    assert list(tmp_path.iterdir()) == []
    place = Place(str(out))
    place.open()
    (out / "events").write_text("half")
    place.keep()
    place.remove_created()
    place.discard()
    assert list(tmp_path.iterdir()) == []
    place = Place(str(out))
    place.keep()
    place.discard()
    assert [str(each) for each in tmp_path.iterdir()] == [place.staged]


def test_staged_path_keeps_the_scheme(tmp_path: Path) -> None:
    """Writers know the place only by its address."""
    assert_published(f"{tmp_path.as_uri()}/out/", f"{tmp_path.as_uri()}/.out-", tmp_path)


def assert_published(address: str, staged: str, folder: Path) -> None:
    """Assert that tables staged below that address end up in the folder's `out`."""
    place = Place(address)
    assert place.staged.startswith(staged)
    place.complete(written(place, "whole"))
    place.publish({})
    assert parquet.read_table(folder / "out" / "gaps").num_rows == 1


def test_spark_address_keeps_its_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow gets its own spelling; the staged path keeps Spark's, since Spark reads it."""
    asked: list[str] = []

    class Files:
        @staticmethod
        def from_uri(address: str) -> tuple[LocalFileSystem, str]:
            asked.append(address)
            return LocalFileSystem(), f"{tmp_path}/{address.partition('://')[2]}"

    known = {**vars(fs), "FileSystem": Files}
    monkeypatch.setattr("spark_analytics.backfill.place.fs", SimpleNamespace(**known))
    assert_published("s3a://bucket/out", "s3a://bucket/.out-", tmp_path / "bucket")
    assert {address.partition("bucket")[0] for address in asked} == {"s3://"}


def test_unusable_address_is_refused(tmp_path: Path) -> None:
    for opened in (Place, Resumed):
        with pytest.raises(PlaceRefused, match=r"^--out nowhere://x/y: .*; name a folder$"):
            opened("nowhere://x/y")
    with pytest.raises(PlaceRefused, match=r"^--resume: .*/out does not exist; "):
        Resumed(str(tmp_path / "out"))
    with pytest.raises(PlaceRefused, match=r"has no state of a backfill.*--no-to-end"):
        Resumed(str(tmp_path))
