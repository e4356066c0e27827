"""What a command answers, on standard output: every byte of it, or the command fails.

A full disk, a closed descriptor, a reader that has gone: each is told in a sentence, and none of
them looks like success.
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

UNWRITABLE: Final = frozenset(
    {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS}
)
"""What a write ends with where there is no room, or no such place."""


class NotWritten(click.ClickException):
    """The answer, or a part of it, did not reach where it should go (exit 1)."""


@contextmanager
def told() -> Iterator[None]:
    """Errors of the operating system end a command in a sentence; the answer is out at the end."""
    try:
        _prepare()
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # whoever reads has seen enough: click ends by it in silence
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None and error.errno in UNWRITABLE:
            _forget()
            raise NotWritten(f"standard output takes no more: {reason}") from error
        where = "" if error.filename is None else f"{error.filename}: "
        raise click.ClickException(f"{where}{reason}") from error


def _prepare() -> None:
    """Where Python runs unbuffered (`-u`, PYTHONUNBUFFERED) a write takes as much as there is room
    for and says no more of it; a buffer tries the rest, and then it is an error."""
    if sys.stdout is None:
        raise NotWritten("standard output is closed; give it a place, for instance >/dev/null")
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), sys.stdout.encoding, sys.stdout.errors, line_buffering=True
        )


def _forget() -> None:
    """Nothing more goes out: else Python tries once more at exit, and complains."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
