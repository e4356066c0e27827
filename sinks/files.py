"""Writes results to Parquet or JSON-lines files, each of which appears only when it is complete.

Results are appended to a journal (`sinks.journal`), which makes them durable. A journal that
reaches `roll_bytes`, or the age of `roll_age_s`, becomes a file `results-<when>-<token>.parquet`
(or `.jsonl`) by a rename. So a reader that lists the folder finds complete files only. Journals and
unfinished files begin with `_`. After a crash the next sink in that folder turns the abandoned
journal into a file of the same name. If the file had already been written, it is written again.

No result is deleted or rewritten, so the files contain the whole history. That is every revision
that arrived, with duplicates, in any order within and across files. **Instructions for readers**:
among the rows with one `id` take the one with the highest `revision` (duplicates are equal). If its
`op` is `retract`, the result does not exist. To read the history, keep one row for each (`id`,
`revision`). In SQL:

    select * from (select *, row_number() over (partition by id order by revision desc) as n
                   from results) where n = 1 and op <> 'retract'

Parquet has the columns of SCHEMA, in the order of arrival; `record` is the result's JSON as it
arrived. JSON-lines files contain only the records.

Bounds: a journal exceeds `roll_bytes` by at most one batch. Finishing reads `ROWS_PER_GROUP` rows
at a time. A failing disk operation is tried `ATTEMPTS` times, with a pause of `BACKOFF_S` and then
twice that. Only results on the disk are confirmed. While a journal cannot be turned into a file,
`write` fails. The folder must be on a file system with locks and atomic renames (a local disk, not
an object store). Several sinks may share it.

The marks of readers are in the folder too (`sinks.folder_marks`). If they are lost, the folder is
another one, and no journal is finished in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import parquet

from inorder.journal import sync_folder
from sinks import journal as journals
from sinks.attempts import ATTEMPTS, retry
from sinks.folder_marks import FolderMarks
from sinks.journal import Journal
from sinks.result import Malformed, Result, parse
from sinks.sink import (
    BegunAnew,
    Marks,
    Progress,
    Reader,
    Refused,
    SinkError,
    SinkUnavailable,
    SinkUnusable,
)

ROWS_PER_GROUP: Final = 10_000
PREFIX: Final = "results-"
UNFINISHED: Final = "_making-"

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("query", pa.string(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("final", pa.bool_(), nullable=False),
        pa.field("confidence", pa.string(), nullable=False),
        pa.field("start_ns", pa.int64()),
        pa.field("end_ns", pa.int64()),
        pa.field("record", pa.string(), nullable=False),
    ]
)


T = TypeVar("T")

_head: Final = attrgetter(*SCHEMA.names[:-1])


class Form(StrEnum):
    """The format of a finished file; its value is also the file's suffix."""

    PARQUET = "parquet"
    JSON_LINES = "jsonl"


@dataclass(frozen=True, slots=True)
class Rolling:
    """The size and the age at which a journal becomes a file."""

    roll_bytes: int = 128 << 20
    roll_age_s: float = 300.0

    def __post_init__(self) -> None:
        if self.roll_bytes < 1 or self.roll_age_s <= 0:
            raise ValueError(f"{self!r}: both must be above 0")


class FileSink:
    """A sink (`sinks.sink`) that writes files into a folder; `now_s` is a monotonic clock."""

    def __init__(
        self,
        folder: Path,
        form: Form = Form.PARQUET,
        rolling: Rolling | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._form = form
        self._rolling = rolling or Rolling()
        self._now_s = now_s
        self._marks = FolderMarks(folder)
        self._is_marked = False
        self._journal: Journal | None = None
        self._opened_s = 0.0
        self._is_recovered = False
        self._closed = False

    def write(
        self, results: Sequence[Result], progress: Progress | None = None
    ) -> Sequence[Refused]:
        self._check_open()
        lines = [result.record for result in results]
        try:
            self._retry(self._roll_if_due)
            if progress is not None and progress.steps:
                self._retry(lambda: self._marks.require(progress))
            if lines:
                self._retry(lambda: self._append(lines))
            if progress is not None and progress.steps:
                positions = {each: step.next for each, step in progress.steps.items()}
                self._retry(lambda: self._marks.move(progress.reader, positions))
        except BegunAnew:
            self._leave_journal()
            raise
        return ()

    def marks(self, reader: Reader) -> Marks:
        self._check_open()
        return self._retry(lambda: self._read_marks(reader))

    def mark(self, reader: Reader, positions: Mapping[int, int]) -> None:
        self._check_open()
        self._retry(lambda: self._marks.raise_to(reader, positions))

    def close(self) -> None:
        """Finish the journal; if the disk fails, the next sink in the folder finishes it."""
        if self._closed:
            return
        self._closed = True
        journal, self._journal = self._journal, None
        if journal is not None:
            try:
                self._retry(lambda: self._finish(journal))
            finally:
                journal.release()

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError(f"the sink of {self._folder} is closed")

    def _read_marks(self, reader: Reader) -> Marks:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._marks.exist():
            names = (f"{PREFIX}*", f"{journals.PREFIX}*")
            self._marks.begin(any(any(self._folder.glob(name)) for name in names))
        self._is_marked = True
        return self._marks.read(reader)

    def _leave_journal(self) -> None:
        """Leave the journal; if it is still in the folder, it is finished like an abandoned one."""
        journal, self._journal = self._journal, None
        self._is_recovered = False
        if journal is not None:
            journal.release()

    def _roll_if_due(self) -> None:
        if not self._is_recovered:
            self._recover()
        journal = self._journal
        if journal is None:
            return
        is_old = self._now_s() - self._opened_s >= self._rolling.roll_age_s
        if is_old or journal.length_bytes >= self._rolling.roll_bytes:
            self._finish(journal)
            self._journal = None

    def _recover(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for journal in journals.list_abandoned(self._folder):
            try:
                self._finish(journal)
            finally:
                journal.release()
        self._is_recovered = True

    def _append(self, lines: Sequence[bytes]) -> None:
        if self._journal is None:
            self._journal = journals.create_journal(self._folder)
            self._opened_s = self._now_s()
        self._journal.append(lines)

    def _finish(self, journal: Journal) -> None:
        """Turn a journal into a file; a call may be repeated after any failure.

        Raises BegunAnew in a folder without marks, because results there would be taken as older.
        """
        if self._is_marked and not self._marks.exist():
            raise BegunAnew(f"folder {self._folder}: its marks (_marks-…) are absent")
        if journal.length_bytes == 0:
            journal.remove()
            return
        journal.seal()
        name = f"{PREFIX}{journal.name}.{self._form}"
        if self._form is Form.JSON_LINES:
            if journal.path.exists():  # Otherwise the file already has its final name.
                journal.path.rename(self._folder / name)
        else:
            made = self._folder / f"{UNFINISHED}{name}"
            _write_parquet(journal, made)
            made.rename(self._folder / name)
        sync_folder(self._folder)
        journal.remove()

    def _retry(self, step: Callable[[], T]) -> T:
        return retry(step, OSError, self._make_error)

    def _make_error(self, error: Exception) -> SinkUnavailable:
        return SinkUnavailable(
            f"results in {self._folder}: failed after {ATTEMPTS} attempt(s): {error};"
            " check that the disk has space, and that the folder is writable"
        )


def _write_parquet(journal: Journal, path: Path) -> None:
    """Write the journal as Parquet, in place of any old file; return when it is on the disk."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        with parquet.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
            for rows in _groups(journal):
                columns = [list(column) for column in zip(*rows, strict=True)]
                writer.write_table(pa.table(columns, schema=SCHEMA))
        file.flush()
        os.fsync(file.fileno())


def _groups(journal: Journal) -> Iterator[list[tuple[Any, ...]]]:
    rows = (_row(journal, number, line) for number, line in enumerate(journal.lines(), 1))
    while group := list(islice(rows, ROWS_PER_GROUP)):
        yield group


def _row(journal: Journal, number: int, line: bytes) -> tuple[Any, ...]:
    result = parse(line)
    if not isinstance(result, Result):
        what = result.detail if isinstance(result, Malformed) else "a control record"
        raise SinkUnusable(
            f"{journal.path}, line {number} is damaged ({what}); repair the"
            " line or move the file away, then start again"
        )
    return (*_head(result), result.record.decode())
