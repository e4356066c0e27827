"""Store where a source's numbering continues after a restart, in one small file.

A reader takes each skipped number for a lost record, and the second use of a number for a
duplicate. So a source may neither skip nor reuse numbers:

* A clean close stores the exact next number. The next start continues there, in the same epoch,
  without a gap.
* While the journal is open, the file is marked "in use". A start that finds this mark cannot know
  which numbers were sent. It begins a new epoch (the old one + 1) at 0, so that readers neither
  miss nor drop an event.
* If there is no file yet, the epoch is `first_epoch`. By default, callers pass the wall clock in
  seconds, so a lost file also leads to a higher epoch.

The file is replaced as a whole (written beside, synced, renamed, folder synced). This happens twice
in the lifetime of a producer and never per record. A separate lock file keeps a second process from
using the same numbers.

A forked child releases the lock as soon as it starts, and can store nothing. The numbers are its
parent's. When the parent dies, the next start must find the lock free and the journal in use.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, get_type_hints

import orjson

from inorder.contract import epoch_fault
from inorder.failure import ForkedError, JournalError
from inorder.forked import abandon_at_fork, is_ours

FORMAT: Final = 1

T = TypeVar("T")


class _Page(NamedTuple):
    format: int
    source: str
    stream: str
    epoch: int
    next_seq: int | None  # None while the journal is in use, and after a crash.


def tuple_of(content: bytes, kind: Callable[..., T]) -> T:
    """Return the named tuple whose fields are the keys of a JSON object.

    Args:
        content: The JSON text.
        kind: The named tuple, whose fields are texts and integers.

    Raises:
        ValueError: The text is not JSON, or an object with other keys or types.
    """
    hints = get_type_hints(kind)
    found = orjson.loads(content)
    if not isinstance(found, dict) or set(found) != set(hints):
        raise ValueError(f"a JSON object with {', '.join(hints)} was expected")
    for name, hint in hints.items():
        if isinstance(found[name], bool) or not isinstance(found[name], hint):
            raise ValueError(f"{name} is not {'text' if hint is str else 'an integer'}")
    return kind(**found)


class Journal:
    """A journal file, locked from its construction to `close` or `release`.

    Attributes:
        epoch: The epoch to use.
        next_seq: The first sequence number to use in that epoch.
    """

    def __init__(self, path: Path, source: str, stream: str, first_epoch: int) -> None:
        """Lock the file, read it and mark it as in use.

        Args:
            path: The file. Its folder is created if it is missing.
            source: The source to which the numbers belong.
            stream: The stream of the source.
            first_epoch: The epoch if there is no file yet.

        Raises:
            JournalError: The file is in use by another process, is unreadable, or belongs to
                another source.
        """
        self._path = path
        self._source = source
        self._stream = stream
        self._pid = os.getpid()
        self._lock: int | None = lock(path, "journal")
        abandon_at_fork(self)
        try:
            self.epoch, self.next_seq = self._begin(first_epoch)
            self._write(None)
        except BaseException:
            self.release()
            raise

    def close(self, next_seq: int) -> None:
        """Store the next number and release the lock; the journal cannot be used again.

        Args:
            next_seq: The number with which the next start continues.

        Raises:
            ForkedError: The caller is a forked child.
            JournalError: The file cannot be written.
        """
        if not is_ours(self._pid):
            raise ForkedError(
                f"journal {self._path} belongs to process {self._pid}, which forked this one;"
                " do not use it here"
            )
        try:
            self._write(next_seq)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock without storing a number, as a crash would.

        The next start begins a new epoch.
        """
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # In a child, this does not release the parent's lock.

    left_to_parent = release

    def _begin(self, first_epoch: int) -> tuple[int, int]:
        page = self._read()
        if page is None:
            return first_epoch, 0
        if (page.source, page.stream) != (self._source, self._stream):
            raise JournalError(
                f"journal {self._path} belongs to source {page.source!r} in stream"
                f" {page.stream!r}, not to {self._source!r} in {self._stream!r}; give each"
                " source its own file"
            )
        if page.next_seq is None:
            if fault := epoch_fault(page.epoch + 1):
                raise JournalError(f"journal {self._path} needs a new epoch, but {fault}")
            return page.epoch + 1, 0
        return page.epoch, page.next_seq

    def _read(self) -> _Page | None:
        try:
            page = tuple_of(self._path.read_bytes(), _Page)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise JournalError(
                f"{self._path} cannot be read as a journal ({error}); {_REMEDY}"
            ) from error
        if page.format != FORMAT or page.epoch < 0 or (page.next_seq or 0) < 0:
            raise JournalError(f"{self._path} is not a journal of this version; {_REMEDY}")
        return page

    def _write(self, next_seq: int | None) -> None:
        page = _Page(FORMAT, self._source, self._stream, self.epoch, next_seq)
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(orjson.dumps(page._asdict(), option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            raise JournalError(f"journal {self._path} cannot be written: {error}") from error


_REMEDY: Final = "remove it and the source begins a new epoch, which must be higher than any before"


def lock(path: Path, what: str) -> int:
    """Lock a file that belongs to one producer.

    Args:
        path: The file.
        what: The kind of file, for messages.

    Returns:
        The descriptor of the lock. Closing it releases the lock.

    Raises:
        JournalError: Another producer has the lock, or the lock file cannot be created.
    """
    # The file itself is not locked, because replacing it would lose the lock.
    beside = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise JournalError(f"{what} {path} cannot be locked: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise JournalError(
            f"{what} {path} is in use by another producer; a source has one at a time"
        ) from error
    return lock


def sync_folder(folder: Path) -> None:
    """Sync the folder, so that the names of its files survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
