"""Open the input of a replay, unpack it and recognize its form.

`-` is standard input. Content that begins with the gzip mark is unpacked, whatever its name. The
form follows from the name (`.jsonl .json .ndjson`, `.csv`, `.parquet .pq`, `.avro`, each also with
`.gz`). With any other name the content decides: Parquet and Avro have marks, CSV has a first line
that names columns, and everything else is JSON lines.

An input that cannot be read at all raises `InputError`, the only exception of this module.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Any, Final

STDIN: Final = "-"
GZIP_MARK: Final = b"\x1f\x8b"
PARQUET_MARK: Final = b"PAR1"
AVRO_MARK: Final = b"Obj\x01"
PEEKED_BYTES: Final = 4096
_CELLS: Final = re.compile(rb"[,;\t|]")
OUR_COLUMNS: Final = frozenset({"source", "seq"})


class InputError(Exception):
    """The error of an input that cannot be read; the message says which, why, and what to do."""


class Form(Enum):
    JSON_LINES = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"
    AVRO = "Avro"


_FORM_OF_SUFFIX: Final = {
    ".jsonl": Form.JSON_LINES,
    ".json": Form.JSON_LINES,
    ".ndjson": Form.JSON_LINES,
    ".csv": Form.CSV,
    ".parquet": Form.PARQUET,
    ".pq": Form.PARQUET,
    ".avro": Form.AVRO,
}


@contextmanager
def open_file(
    path: str, stdin: IO[bytes] | None = None, columns: frozenset[str] = OUR_COLUMNS
) -> Iterator[tuple[IO[bytes], Form]]:
    """Yield the unpacked bytes and their form; close all that was opened, but not `stdin`.

    Args:
        path: The file, or `-`.
        stdin: The stream to read in place of standard input.
        columns: Columns that the first line names if the content is CSV.
    """
    name = "standard input" if path == STDIN else path
    with ExitStack() as stack, _report_read_errors(name):
        raw = _buffer(path, stdin, stack)
        packed = raw.peek(len(GZIP_MARK)).startswith(GZIP_MARK)
        if path.endswith(".gz") and not packed:
            raise InputError(f"{path}: ends in .gz but is not gzip; rename it or compress it")
        if packed:
            raw = stack.enter_context(io.BufferedReader(gzip.GzipFile(fileobj=raw)))
        form = _form(path, raw.peek(PEEKED_BYTES)[:PEEKED_BYTES], columns)
        if form is Form.PARQUET and (packed or not raw.seekable()):
            # Parquet is read from its end, so it must be in a file.
            spool = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(raw, spool)
            spool.seek(0)
            yield spool, form
        else:
            yield raw, form


@contextmanager
def as_seekable_file(path: str, stdin: IO[bytes] | None = None) -> Iterator[str]:
    """Yield the name of a file that has the input and can be read several times.

    Input that can be read only once (standard input, a pipe) is copied into a file, which is
    deleted afterwards.
    """
    if path != STDIN and not Path(path).is_fifo():
        yield path
        return
    name = "standard input" if path == STDIN else path
    with ExitStack() as stack, _report_read_errors(name):
        suffix = "".join(Path(path).suffixes[-2:])
        copied = stack.enter_context(tempfile.NamedTemporaryFile(suffix=suffix))
        shutil.copyfileobj(_buffer(path, stdin, stack), copied)
        copied.flush()
        try:
            yield copied.name
        except InputError as wrong:
            raise InputError(str(wrong).replace(copied.name, name)) from None


def _buffer(path: str, stdin: IO[bytes] | None, stack: ExitStack) -> io.BufferedReader[Any]:
    if path != STDIN:
        return stack.enter_context(Path(path).open("rb"))
    if stdin is None and sys.stdin is None:
        raise InputError("standard input is closed; name a file")
    source: Any = stdin if stdin is not None else sys.stdin.buffer
    raw: io.BufferedReader[Any] = io.BufferedReader(source)
    stack.callback(raw.detach)  # Without this, `stdin` would be closed, too.
    return raw


@contextmanager
def _report_read_errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; name one file") from None
    except PermissionError:
        raise InputError(f"{name}: cannot be read; check its permissions") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as wrong:
        raise InputError(f"{name}: damaged gzip ({wrong}); unpack or fetch it again") from None
    except OSError as wrong:
        reason = (wrong.strerror or str(wrong)).partition("\n")[0]
        raise InputError(f"{name}: cannot be read ({reason})") from None


def form_by_name(path: str) -> Form | None:
    """Return the form that the file's name implies, or None."""
    return _FORM_OF_SUFFIX.get(Path(path.removesuffix(".gz")).suffix.lower())


def _form(path: str, head: bytes, columns: frozenset[str]) -> Form:
    named = form_by_name(path)
    if named is not None:
        return named
    if head.startswith(PARQUET_MARK):
        return Form.PARQUET
    if head.startswith(AVRO_MARK):
        return Form.AVRO
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    cells = {cell.strip().strip(b'"').decode("utf-8", "replace") for cell in _CELLS.split(first)}
    is_json = first.lstrip().startswith((b"{", b"["))
    is_csv = not is_json and (columns <= cells or "clock" in cells)
    return Form.CSV if is_csv else Form.JSON_LINES
