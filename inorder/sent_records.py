"""Store the records that a source has sent for a while, so that it can send them again.

    path = Path("/var/lib/press-7.kept")
    sent_records = SentRecords(path, "press-7", "default", max_bytes=256 << 20)
    sent_records.add(Sent(epoch, seq, ts_ns, "stroke", "", b"..."))
    for sent in sent_records.between(epoch, 7, 9): ...

The file is an SQLite database. It belongs to one source of one stream, and to one producer at a
time, as a journal does. Its content is limited to `max_bytes`: payloads, types, and `RECORD_BYTES`
for the rest of each record. The oldest records are deleted first. The file itself may take three
times `max_bytes`.

Records are written after every `COMMIT_RECORDS` or `COMMIT_BYTES`, with the first record after
`COMMIT_S`, at `commit` and at `close`. A crash of the process loses the records added since the
last write. A power failure also loses those of the last seconds.

A file that cannot be written does not stop the publisher. The records that could not be written are
counted in `not_kept` and reported in the log (`inorder.producers`).

The file also stores up to which offset requests have been answered (`next_offset_of`), so that none
is answered again after a restart.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from inorder.failure import JournalError
from inorder.forked import abandon_at_fork
from inorder.journal import lock

FORMAT: Final = 1
COMMIT_RECORDS: Final = 500
COMMIT_BYTES: Final = 1 << 20
COMMIT_S: Final = 1.0
RECORD_BYTES: Final = 64
FREED_SHARE: Final = 0.05
"""The share of `max_bytes` that is freed in addition when the bound is reached."""

logger = logging.getLogger("inorder.producers")

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS sent (
    epoch INTEGER, seq INTEGER, ts_ns INTEGER, type TEXT, kind TEXT, payload BLOB,
    PRIMARY KEY (epoch, seq)
);
CREATE TABLE IF NOT EXISTS owner (source TEXT, stream TEXT);
CREATE TABLE IF NOT EXISTS place (part INTEGER PRIMARY KEY, next INTEGER);
"""
_SIZE: Final = f"coalesce(length(payload), 0) + length(type) + {RECORD_BYTES}"


class Sent(NamedTuple):
    """A record that was sent: the fields from which its headers and value are made."""

    epoch: int
    seq: int
    ts_ns: int
    type: str
    kind: str
    payload: bytes | None


class SentRecords:
    """The stored records of one source, which several threads may use.

    Args:
        path: The file.
        source: The source to which the file belongs.
        stream: The stream of the source.
        max_bytes: The maximum size of the stored content.

    Attributes:
        not_kept: The number of records that could not be written.
    """

    def __init__(self, path: Path, source: str, stream: str, max_bytes: int) -> None:
        """Lock and open the file.

        Raises:
            JournalError: The file cannot be read, is of another kind, belongs to another source, or
                is in use.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._guard = threading.Lock()
        self._waiting: list[Sent] = []
        self._waiting_bytes = 0
        self._written_s = time.monotonic()
        self.not_kept = 0
        self._lock: int | None = lock(path, "the file of sent records")
        with ExitStack() as refused:
            refused.callback(self._release_lock)
            try:
                self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
                refused.callback(self._db.close)
                self._open(source, stream)
            except sqlite3.Error as error:
                raise self._make_error(error) from error
            refused.pop_all()
        abandon_at_fork(self)

    def add(self, sent: Sent) -> None:
        """Add a record, which is written to the file later; failed writes raise nothing."""
        with self._guard:
            self._waiting.append(sent)
            self._waiting_bytes += _size(sent)
            late = time.monotonic() - self._written_s > COMMIT_S
            if late or len(self._waiting) >= COMMIT_RECORDS or self._waiting_bytes >= COMMIT_BYTES:
                self._write()

    def read_range(self, epoch: int, first: int, last: int) -> Iterator[Sent]:
        """Yield the stored records of an epoch in order, from `first` to `last` inclusive.

        Raises:
            JournalError: The file cannot be read.
        """
        self.commit()
        while first <= last:
            found = self._query(
                "SELECT * FROM sent WHERE epoch = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
                (epoch, first, last, COMMIT_RECORDS),
            )
            if not found:
                return
            yield from map(Sent._make, found)
            first = found[-1][1] + 1

    def next_offset_of(self, part: int) -> int | None:
        """Return the next offset to read of a partition of requests; None if none was read."""
        found = self._query("SELECT next FROM place WHERE part = ?", (part,))
        return int(found[0][0]) if found else None

    def note_answered(self, part: int, next_offset: int) -> None:
        """Store that all requests of the partition before `next_offset` have been answered."""
        self._query("INSERT OR REPLACE INTO place VALUES (?, ?)", (part, next_offset))

    def commit(self) -> None:
        """Write the added records to the file."""
        with self._guard:
            self._write()

    def left_to_parent(self) -> None:
        """Keep the connection alive in a forked child, and release the lock.

        Otherwise SQLite would take the child's connection for the last one and clean up.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))
        self._release_lock()  # In a child, this does not release the parent's lock.

    def close(self) -> None:
        """Write the added records, close the file and release the lock."""
        with self._guard:
            self._write()
            self._db.close()
        self._release_lock()

    def _open(self, source: str, stream: str) -> None:
        (known,) = self._db.execute("PRAGMA user_version").fetchone()
        if known not in (0, FORMAT):
            raise sqlite3.DatabaseError(f"format {known} is not {FORMAT}")
        # With these settings, a crash of the machine may lose written data, but one of the process
        # does not.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_TABLES)
        owner = self._db.execute("SELECT source, stream FROM owner").fetchone()
        if owner is None:
            self._db.execute("INSERT INTO owner VALUES (?, ?)", (source, stream))
        elif owner != (source, stream):
            raise JournalError(
                f"{self._path} keeps what source {owner[0]!r} sent in stream {owner[1]!r}, not"
                f" {source!r} in {stream!r}; give each source its own file"
            )
        self._db.execute(f"PRAGMA user_version = {FORMAT}")
        (size,) = self._db.execute(f"SELECT coalesce(sum({_SIZE}), 0) FROM sent").fetchone()
        self.bytes = int(size)
        """The size of the stored content, as `max_bytes` counts it."""

    def _query(self, statement: str, values: Sequence[int]) -> list[tuple[Any, ...]]:
        with self._guard:
            try:
                return self._db.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._make_error(error) from error

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        self._written_s = time.monotonic()
        if not waiting:
            return
        before = self.bytes
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?, ?, ?)", waiting)
            self.bytes += size
            if self.bytes > self._max_bytes:
                over_bytes = self.bytes - self._max_bytes
                self._delete_oldest(over_bytes + int(FREED_SHARE * self._max_bytes))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self.bytes = before
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self.not_kept += len(waiting)
            logger.error(
                "%s; %d records cannot be sent again", self._make_error(error), len(waiting)
            )

    def _delete_oldest(self, wanted_bytes: int) -> None:
        """Delete the oldest records until at least `wanted_bytes` are free."""
        freed = 0
        oldest = self._db.execute(f"SELECT epoch, seq, {_SIZE} FROM sent ORDER BY epoch, seq")
        last: tuple[int, int] | None = None
        for epoch, seq, size in oldest:
            last = epoch, seq
            freed += size
            if freed >= wanted_bytes:
                break
        oldest.close()
        if last is not None:
            self._db.execute("DELETE FROM sent WHERE (epoch, seq) <= (?, ?)", last)
            self.bytes -= freed

    def _release_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _make_error(self, error: Exception) -> JournalError:
        return JournalError(
            f"the file of sent records {self._path}: {error}; remove the file to start again"
        )


def _size(sent: Sent) -> int:
    return len(sent.payload or b"") + len(sent.type) + RECORD_BYTES
