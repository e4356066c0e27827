"""Examples: files appear when they are full or old, and survive a crash and a full disk."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import sinks.files as kind
from sinks import attempts
from sinks import journal as journals
from sinks.files import FileSink, Form, Rolling
from sinks.sink import (
    BegunAnew,
    MarkStep,
    Progress,
    Reader,
    SinkError,
    SinkUnavailable,
    SinkUnusable,
)
from tests.kit.clock import Clock
from tests.sinks.results import current_of, record, result, rows_in

FORMS = (Form.PARQUET, Form.JSON_LINES)


def sweep(folder: Path, form: Form = Form.PARQUET) -> None:
    """Run another sink on the folder, which handles the files that were left."""
    with closing(FileSink(folder, form)) as sink:
        sink.write([])


def names(folder: Path) -> list[str]:
    """Return the suffixes of finished files, and the first word of unfinished ones."""
    return sorted(
        path.suffix if path.name.startswith("results-") else path.name.split("-")[0]
        for path in folder.iterdir()
    )


@pytest.mark.parametrize("form", FORMS)
def test_large_or_old_file_is_closed(tmp_path: Path, form: Form) -> None:
    clock = Clock()
    sink = FileSink(tmp_path, form, Rolling(roll_bytes=1_000, roll_age_s=10), clock)
    sink.write([result("a", 0)])
    sink.write([])
    assert names(tmp_path) == ["_open"]
    sink.write([result("a", revision) for revision in range(1, 6)])
    sink.write([result("b", 0)])
    assert names(tmp_path) == [f".{form}", "_open"]
    clock.now_s += 9.9
    sink.write([])
    assert names(tmp_path) == [f".{form}", "_open"]
    clock.now_s += 0.1
    sink.write([])
    assert names(tmp_path) == [f".{form}", f".{form}"]
    clock.now_s += 20
    sink.write([])  # Without results there is no file.
    sink.close()
    assert names(tmp_path) == [f".{form}", f".{form}"]
    found = sorted((each.id, each.revision) for each in rows_in(tmp_path))
    assert found == [*(("a", revision) for revision in range(6)), ("b", 0)]


@pytest.mark.parametrize("form", FORMS)
def test_close_finishes_the_file(tmp_path: Path, form: Form) -> None:
    sink = FileSink(tmp_path, form)
    sink.write([result("ü", 0, "retract", start=None)])
    sink.close()
    sink.close()
    assert rows_in(tmp_path) == [result("ü", 0, "retract", start=None)]
    with pytest.raises(SinkError, match="closed"):
        sink.write([])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("torn", [b"", b'{"id": "a", "revi', b"x" * (3 << 20)])
def test_crashed_journal_is_finished(tmp_path: Path, form: Form, torn: bytes) -> None:
    journal = journals.create_journal(tmp_path)
    journal.append([record("a", 0), record("a", 1)])
    journal.release()
    with journal.path.open("ab") as file:
        file.write(torn)
    sweep(tmp_path, form)
    assert names(tmp_path) == [f".{form}"]
    assert rows_in(tmp_path) == [result("a", 0), result("a", 1)]


@pytest.mark.parametrize("torn", [b"", b"half a li"])
def test_empty_journal_becomes_no_file(tmp_path: Path, torn: bytes) -> None:
    journal = journals.create_journal(tmp_path)
    journal.release()
    journal.path.write_bytes(torn)
    sweep(tmp_path)
    assert names(tmp_path) == []


def test_crash_does_not_duplicate_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = FileSink(tmp_path)
    sink.write([result("a", 0)])
    monkeypatch.setattr(journals.Journal, "remove", journals.Journal.release)
    sink.close()
    monkeypatch.undo()
    assert names(tmp_path) == [".parquet", "_open"]
    sweep(tmp_path)
    assert names(tmp_path) == [".parquet"]
    assert rows_in(tmp_path) == [result("a", 0)]


def test_journal_of_open_sink_stays(tmp_path: Path) -> None:
    one, other = FileSink(tmp_path), FileSink(tmp_path)
    one.write([result("a", 0)])
    other.write([result("b", 0)])
    assert names(tmp_path) == ["_open", "_open"]
    one.write([result("a", 1)])
    one.close()
    other.close()
    assert current_of(rows_in(tmp_path)) == {"a": record("a", 1), "b": record("b", 0)}


class FullDisk:
    """A disk that takes some bytes of each write and then has no room, while `is_full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = True
        self.writes = 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, content: Any) -> int:
        if not self.is_full:
            return self._write(descriptor, content)
        self.writes += 1
        if self.writes % 2 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(descriptor, content[:10])


def test_full_disk_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = FileSink(tmp_path)
    sink.write([result("a", 0)])
    disk = FullDisk(monkeypatch)
    with pytest.raises(SinkUnavailable, match="No space left"):
        sink.write([result("a", 1)])
    assert disk.writes == 2 * attempts.ATTEMPTS
    disk.is_full = False
    sink.write([result("a", 2)])
    sink.close()
    assert rows_in(tmp_path) == [result("a", 0), result("a", 2)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", ["close", "age"])
def test_failed_append_is_dropped(
    tmp_path: Path, form: Form, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    sink = FileSink(tmp_path, form, Rolling(), clock)
    disk = FullDisk(monkeypatch)
    disk.is_full = False
    sink.write([result("a", 0)])
    disk.is_full = True
    with pytest.raises(SinkUnavailable, match="No space left"):
        sink.write([result("a", 1)])
    if ends == "age":
        clock.now_s += 1_000
        sink.write([])
        assert names(tmp_path) == [f".{form}"]
    sink.close()  # A rename needs no space.
    assert "_open" not in names(tmp_path)
    assert rows_in(tmp_path) == [result("a", 0)]


@pytest.mark.parametrize("form", FORMS)
def test_unfinished_file_is_left(
    tmp_path: Path, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(tmp_path, form, Rolling(roll_bytes=1))
    sink.write([result("a", 0)])

    no_room = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(kind, "sync_folder", Mock(side_effect=no_room))
    with pytest.raises(SinkUnavailable, match="No space left"):
        sink.write([result("a", 1)])
    monkeypatch.undo()
    sink.write([result("a", 1)])
    sink.close()
    assert sorted(each.revision for each in rows_in(tmp_path)) == [0, 1]
    assert names(tmp_path) == [f".{form}", f".{form}"]


def test_bad_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        closing(FileSink(tmp_path / "file" / "folder")) as sink,
        pytest.raises(SinkUnavailable, match="check that the disk has space"),
    ):
        sink.write([result()])


def test_foreign_line_is_reported(tmp_path: Path) -> None:
    journal = journals.create_journal(tmp_path)
    journal.append([record("a", 0), b"not a result"])
    journal.release()
    with closing(FileSink(tmp_path)) as sink, pytest.raises(SinkUnusable, match="line 2"):
        sink.write([])
    assert journal.path.exists()


def test_journal_lost_at_lock_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sink removes the new journal just before it is locked."""
    taken = journals._take

    def taken_over(path: Path, descriptor: int) -> bool:
        monkeypatch.setattr(journals, "_take", taken)
        path.unlink()
        return taken(path, descriptor)

    monkeypatch.setattr(journals, "_take", taken_over)
    with closing(FileSink(tmp_path)) as sink:
        sink.write([result("a", 0)])
    assert rows_in(tmp_path) == [result("a", 0)]


@pytest.mark.parametrize("rolling", [{"roll_bytes": 0}, {"roll_age_s": 0.0}])
def test_zero_bounds_are_refused(rolling: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Rolling(**rolling)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to, folder, pipe])
def test_false_journal_is_reported(make: Any, tmp_path: Path) -> None:
    """The file is not changed, although a partial last line in a journal would be cut off."""
    victim, results = tmp_path / "victim", tmp_path / "results"
    victim.write_text("a key without a line end")
    results.mkdir()
    make(results / "_open-20200101T000000Z-00000000.jsonl", victim)
    with pytest.raises(SinkUnusable, match="is not a sink's journal"):
        FileSink(results).write([result()])
    assert victim.read_text() == "a key without a line end"


def test_link_is_not_followed(tmp_path: Path) -> None:
    victim, results = tmp_path / "victim", tmp_path / "results"
    victim.write_text("precious")
    results.mkdir()
    (results / "_open-20200101T000000Z-00000000.jsonl").write_bytes(record("x") + b"\n")
    (results / "_making-results-20200101T000000Z-00000000.parquet").symlink_to(victim)
    sweep(results)
    assert victim.read_text() == "precious"
    assert rows_in(results) == [result("x")]


READER = Reader("group", "results")


def sink_with_mark(folder: Path, clock: Clock) -> FileSink:
    """Return a sink with a mark of 10 at partition 0, and one result in the journal."""
    sink = FileSink(folder, Form.JSON_LINES, Rolling(roll_age_s=10), clock)
    sink.marks(READER)
    sink.mark(READER, {0: 0})
    sink.write([result("a", 0)], Progress(READER, {0: MarkStep(0, 10)}))
    return sink


def test_new_folder_gets_no_old_file(tmp_path: Path) -> None:
    """Otherwise the old sink's file would look like results from before there were marks."""
    folder, clock = tmp_path / "out", Clock()
    sink = sink_with_mark(folder, clock)
    shutil.rmtree(folder)
    folder.mkdir()
    clock.now_s += 10
    with pytest.raises(BegunAnew, match="absent"):
        sink.write([], Progress(READER, {0: MarkStep(10, 11)}))
    assert list(folder.iterdir()) == []
    marks = sink.marks(READER)
    assert (marks.positions, marks.is_older) == ({}, False)
    sink.mark(READER, {0: 0})
    sink.write([result("b", 0)], Progress(READER, {0: MarkStep(0, 1)}))
    sink.close()
    assert rows_in(folder) == [result("b", 0)]


def test_mark_follows_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_with_mark(tmp_path, Clock())
    full = Mock(side_effect=OSError(errno.ENOSPC, "disk full"))
    with monkeypatch.context() as patched:
        patched.setattr(sink, "_append", full)
        with pytest.raises(SinkUnavailable, match="disk full"):
            sink.write([result("b", 0)], Progress(READER, {0: MarkStep(10, 20)}))
    assert sink.marks(READER).positions == {0: 10}
    sink.write([result("b", 0)], Progress(READER, {0: MarkStep(10, 20)}))
    assert sink.marks(READER).positions == {0: 20}
    sink.close()
    assert rows_in(tmp_path) == [result("a", 0), result("b", 0)]


def test_damaged_marks_file_is_named(tmp_path: Path) -> None:
    with closing(sink_with_mark(tmp_path, Clock())) as sink:
        path = next(each for each in tmp_path.glob("_marks-*") if each.stat().st_size)
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(SinkUnusable, match="is damaged.*--refill") as fault:
            sink.marks(READER)
    assert str(path) in str(fault.value)
