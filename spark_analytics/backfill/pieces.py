"""Cut the input files of a backfill into pieces that tasks read in parallel.

Uncompressed JSON lines are cut at line ends, about every `PIECE_BYTES`. Compressed files, CSV
(where a line end may be within quotes) and Parquet are one piece each. A folder is replaced by the
files in it, in the order of their names. Names that begin with `_` or `.` are skipped, as Spark
does. Files are read in the order in which they were named. Line numbers continue from one file to
the next, as if the files were one.

Every executor must be able to read the files: all are on one machine, or share a volume.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from recordings.file import GZIP_MARK, STDIN, Form, InputError, open_file
from recordings.rows import NEEDED, NEEDED_BY_TIME, LineSource, json_rows, rows_in
from topology.config import Topology
from topology.records.line_reader import Row

PIECE_BYTES: Final = 16 * 2**20
PART_BYTES: Final = 2**20
WHOLE: Final = -1
HIDDEN: Final = ("_", ".")


class Piece(NamedTuple):
    """A part of a file: complete lines of JSON in the bytes from `begin` until `end`.

    An `end` of WHOLE means the whole file, in any format.
    """

    path: str
    begin: int = 0
    end: int = WHOLE


def pieces_of(paths: Sequence[str], piece_bytes: int | None = None) -> list[Piece]:
    """Return the pieces of the files, in the order in which their lines are numbered.

    Raises:
        InputError: A file is absent, or cannot be read.
    """
    return [piece for path in files_of(paths) for piece in _cut(path, piece_bytes or PIECE_BYTES)]


def files_of(paths: Sequence[str]) -> list[str]:
    """Return the paths, with folders replaced by their files.

    Raises:
        InputError: A folder is empty.
    """
    found: list[str] = []
    for path in paths:
        if path == STDIN:
            raise InputError("-: standard input cannot be read by several tasks; name a file")
        place = Path(path)
        if not place.is_dir():
            found.append(path)
            continue
        inside = sorted(str(each) for each in place.rglob("*") if _is_visible(each, place))
        if not inside:
            raise InputError(f"{path}: the folder contains no files; name files, or another one")
        found += inside
    return found


def _is_visible(file: Path, folder: Path) -> bool:
    parts = file.relative_to(folder).parts
    return file.is_file() and not any(part.startswith(HIDDEN) for part in parts)


def _cut(path: str, piece_bytes: int) -> Iterator[Piece]:
    # The task that reads the file may have another working folder.
    path = str(Path(path).absolute())
    with open_file(path) as (raw, form):
        if form is not Form.JSON_LINES or _is_compressed(path):
            yield Piece(path)
            return
        size = Path(path).stat().st_size
        begin = 0
        while begin < size:
            raw.seek(min(begin + piece_bytes, size) - 1)
            # Read up to the end of the line at the cut; the line may be as long as the file.
            while (line := raw.readline(PART_BYTES)) and not line.endswith(b"\n"):
                pass
            end = raw.tell()
            yield Piece(path, begin, end)
            begin = end
        if not size:
            yield Piece(path)


def _is_compressed(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(len(GZIP_MARK)) == GZIP_MARK


NOTHING: Final = Piece("", 0, 0)
"""A piece without lines, used if there is nothing to read."""


class PieceRows:
    """An iterable of the rows of a piece; afterwards `lines` is the number of its lines."""

    def __init__(self, piece: Piece, topology: Topology) -> None:
        reading = topology.reading()
        self._piece = piece
        self._needed = NEEDED_BY_TIME if reading.by_time or reading.mixed else NEEDED
        self.lines = 0

    def __iter__(self) -> Iterator[Row]:
        path, begin, end = self._piece
        if begin == end:
            return
        if end != WHOLE:
            with Path(path).open("rb") as file:
                file.seek(begin)
                yield from self._read_json(io.BytesIO(file.read(end - begin)), begins=begin == 0)
            return
        with open_file(path) as (raw, form):
            if form is Form.JSON_LINES:
                yield from self._read_json(raw, begins=True)
                return
            for row in rows_in(raw, form, path, self._needed):
                self.lines = row.number
                yield row

    def _read_json(self, raw: LineSource, *, begins: bool) -> Iterator[Row]:
        counted = _Counted(raw)
        yield from json_rows(counted, begins=begins)
        self.lines = counted.lines


class _Counted:
    """A source of lines that counts the lines read."""

    def __init__(self, raw: LineSource) -> None:
        self._raw = raw
        self._within = False
        self.lines = 0

    def readline(self, limit: int, /) -> bytes:
        line = self._raw.readline(limit)
        if line:
            self.lines += not self._within
            self._within = not line.endswith(b"\n")
        return line
