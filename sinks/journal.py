"""Appends results to a file so that each append is durable and every line is complete.

The file is `_open-<name>.jsonl` in a folder, with a result's JSON in each line. The kernel releases
its exclusive lock when the process dies. So the lock distinguishes another process's open journal
from an abandoned one, which `list_abandoned` takes over.

* `append` returns when its lines are on the disk (fsync). A failed append is cut off before the
  next one, and by `seal` before the file gets its name. `list_abandoned` cuts off an incomplete
  last line.
* The name is unique and never changes. So the finished file can be written again after a crash,
  under the same name.

If a link, a folder or another kind of file has the name of a journal, it is left alone and
SinkUnusable is raised.

Readers of Parquet folders skip names that begin with `_`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from inorder.journal import sync_folder
from sinks.sink import SinkUnusable

PREFIX: Final = "_open-"
SUFFIX: Final = ".jsonl"
READ_BYTES: Final = 1 << 20

LEFT_BEHIND: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
OF_ANOTHER_KIND: Final = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""The kernel's errors if the path is a link, a folder, or a socket."""


class Journal:
    """A journal, locked until `remove` or `release`; raises OSError if the disk fails."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._length = os.fstat(descriptor).st_size
        self._is_torn = False
        self._is_open = True

    @property
    def name(self) -> str:
        """Name from which the finished file's name is derived."""
        return self.path.name.removeprefix(PREFIX).removesuffix(SUFFIX)

    @property
    def length_bytes(self) -> int:
        """Length of the durable lines in bytes."""
        return self._length

    def append(self, lines: Sequence[bytes]) -> None:
        if self._is_torn:
            os.ftruncate(self._descriptor, self._length)
        self._is_torn = True
        rest = memoryview(b"".join(line + b"\n" for line in lines))
        length = self._length + len(rest)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._length, self._is_torn = length, False

    def lines(self) -> Iterator[bytes]:
        """Yield the durable lines without their line ends."""
        left = self._length
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                yield line.removesuffix(b"\n")

    def seal(self) -> None:
        """Cut off the remains of a failed append."""
        if self._is_torn:
            os.ftruncate(self._descriptor, self._length)
            os.fsync(self._descriptor)
            self._is_torn = False

    def cut(self) -> None:
        """Cut off what a crash left after the last complete line."""
        self._length = _whole_lines_length(self._descriptor, self._length)
        os.ftruncate(self._descriptor, self._length)
        os.fsync(self._descriptor)

    def remove(self) -> None:
        """Remove the file, then release the lock."""
        # The journal may already have been renamed to the finished file.
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.release()

    def release(self) -> None:
        """Release the lock; the file stays, and another sink may take it over."""
        if self._is_open:
            self._is_open = False
            os.close(self._descriptor)


def create_journal(folder: Path) -> Journal:
    """Create an empty journal with a unique name, which contains the current time in UTC."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = folder / f"{PREFIX}{moment}-{secrets.token_hex(4)}{SUFFIX}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    # Another sink that looks for abandoned journals locked it first.
    if not _take(path, descriptor):
        os.close(descriptor)
        raise BlockingIOError(f"another sink took {path} over when it was created")
    sync_folder(folder)
    return Journal(path, descriptor)


def list_abandoned(folder: Path) -> Iterator[Journal]:
    """Yield the abandoned journals, locked for the caller and cut to complete lines."""
    for path in sorted(folder.glob(f"{PREFIX}*{SUFFIX}")):
        try:
            descriptor = os.open(path, LEFT_BEHIND)
        except FileNotFoundError:
            continue  # Another sink has finished this journal in the meantime.
        except OSError as error:
            if error.errno in OF_ANOTHER_KIND:
                raise _make_error(path) from error
            raise
        is_one = os.fstat(descriptor)
        if not stat.S_ISREG(is_one.st_mode) or is_one.st_nlink > 1:
            os.close(descriptor)
            raise _make_error(path)
        if not _take(path, descriptor):
            os.close(descriptor)
            continue
        journal = Journal(path, descriptor)
        journal.cut()
        yield journal


def _take(path: Path, descriptor: int) -> bool:
    """Lock the file, and return whether that succeeded and the path still names the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path.lstat().st_ino == os.fstat(descriptor).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _make_error(path: Path) -> SinkUnusable:
    return SinkUnusable(
        f"{path} is not a sink's journal, but a link, a folder or a pipe; move it away"
    )


def _whole_lines_length(descriptor: int, length: int) -> int:
    """Return the length up to and including the last line end."""
    end = length
    while end > 0:
        begin = max(0, end - READ_BYTES)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
