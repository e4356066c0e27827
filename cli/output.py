"""Ensures that every byte of a command's standard output is written, or the command fails.

A full disk and a closed descriptor are reported in a sentence. If the program that reads the output
through a pipe has ended, the command ends with exit code 1 and no message.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import click

from agents.exits import Exit

UNWRITABLE: Final = frozenset(
    {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS}
)
"""Errors of a write for lack of space, or because the file is not open or not writable."""


class NotWritten(click.ClickException):
    """The error of output that was not written, or only in part (exit code 1)."""


@contextmanager
def ensure_whole_output() -> Iterator[None]:
    """Flush the output at the end, and report an error of the operating system in a sentence."""
    try:
        _buffer_stdout()
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()  # The reader of the pipe has ended and needs no more output.
        raise SystemExit(Exit.FAILED) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None and error.errno in UNWRITABLE:
            _discard_output()
            raise NotWritten(f"standard output cannot be written: {reason}") from error
        where = "" if error.filename is None else f"{error.filename}: "
        raise click.ClickException(f"{where}{reason}") from error


def _buffer_stdout() -> None:
    """Give standard output a buffer if Python runs unbuffered (`-u`, PYTHONUNBUFFERED).

    Without a buffer, a write may silently write only a part. A buffer writes the rest, and gets the
    error if that fails.
    """
    if sys.stdout is None:
        raise NotWritten("standard output is closed; redirect it, for instance by >/dev/null")
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), sys.stdout.encoding, sys.stdout.errors, line_buffering=True
        )


def _discard_output() -> None:
    """Discard further output; otherwise Python would write again at exit and report an error."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
