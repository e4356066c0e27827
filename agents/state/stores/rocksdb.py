"""Keeps a partition's local copy on disk, in one RocksDB folder per partition.

The folder is `<directory>/<application>/<stage>/<topic>/<partition>`. Parts that are not plain file
names are percent-encoded. The changes of a commit and the resulting position are one write batch in
the write-ahead log. So a process that is killed at any moment leaves a whole commit. The log is not
synced. After a power failure the copy is at an earlier commit, still a whole one, and the changelog
has the rest.

A folder that RocksDB cannot understand or cannot read (an I/O error) is damaged. Every call then
raises StoreDamaged, until `set_aside` has renamed it to `<partition>.damaged-<n>`. The last
`DAMAGED_KEPT` of these are kept. `clear` renames the folder, which is atomic, and removes it
afterwards. If it is killed in between, the next open removes the rest. A folder that is locked, not
permitted or on a full disk is an error but no damage. The copy itself may be valid.

Memory per open partition is at most `WRITE_BUFFER_BYTES` * `WRITE_BUFFERS` + `CACHE_BYTES`, plus
`MAX_OPEN_FILES` and one page of `items`: 8 to 12 MiB. Cost of `apply`: O(changes).
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import rocksdict
from rocksdict import Rdict

from agents.state.stores import store
from agents.state.stores.store import Changes, StoreError, StoreName

FORMAT: Final = 2
_HEADER: Final = struct.Struct(">Bq")  # Format and position.
_HEADER_KEY: Final = b"p"
_ENTRY: Final = b"e"  # Sorts before _HEADER_KEY, so the entries are one range.
_AFTER_ENTRIES: Final = b"f"
_DISCARDED: Final = ".discarded-"
_DAMAGED: Final = ".damaged-"
DAMAGED_KEPT: Final = 2
"""Maximum number of damaged folders of one partition that are kept for inspection."""

WRITE_BUFFER_BYTES: Final = 1 << 20
WRITE_BUFFERS: Final = 2
LEVEL0_FILES: Final = 16
"""RocksDB compacts when there are this many flushed buffers.

The number is four times the default, with buffers of a quarter of the size. So about as much is
rewritten (a quarter more if few keys are written often), with less memory.
"""

CACHE_BYTES: Final = 4 << 20
MAX_OPEN_FILES: Final = 64
MAX_WAL_BYTES: Final = 16 << 20
MAX_LOG_BYTES: Final = 1 << 20
LOG_FILES: Final = 2
ITEMS_PER_PAGE: Final = 1024

_WORLD_FAILURES: Final = (
    "Permission denied",
    "Read-only file system",
    "No space left",
    "File too large",
    "Too many open files",
    "Cannot allocate memory",
)
"""Texts of errors of the system, not of RocksDB; they do not mean that the copy is damaged."""


class RocksdbStore:
    """A copy in RocksDB; see `agents.state.stores.store`.

    Opening it may raise StoreLocked or StoreUnavailable.
    """

    def __init__(self, directory: Path, name: StoreName) -> None:
        self._name = name
        self._folder = folder_of(directory, name)
        self._db: Rdict | None = None
        self._damage: store.StoreDamaged | None = None
        try:
            self._db = _open(self._folder, name)
        except store.StoreDamaged as damage:
            self._damage = damage
        _remove(self._folder, _DISCARDED)

    def position(self) -> int | None:
        with _typed_errors(self._name, self._folder):
            packed = self._open_db().get(_HEADER_KEY)
        if packed is None:
            return None
        if len(packed) != _HEADER.size or packed[0] != FORMAT:
            raise store.StoreDamaged(
                f"state copy {self._name} in {self._folder} has an invalid position:"
                f" {packed!r} is not of format {FORMAT}"
            )
        position: int = _HEADER.unpack(packed)[1]
        return position

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        started_at = self.position()
        after = _ENTRY
        while page := self._read_page(after):
            for key, value in page:
                yield key[1:], value
            if self.position() != started_at:
                raise store.StaleStore(f"state copy {self._name} changed while it was read")
            after = page[-1][0] + b"\0"

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        store.check_change(changes, base, position)
        current = self.position()
        if current != base:
            raise store.StaleStore(
                f"state copy {self._name} is at {current}, but the change begins at {base}"
            )
        batch = rocksdict.WriteBatch(raw_mode=True)
        if base is None:
            batch.delete_range(_ENTRY, _AFTER_ENTRIES)
        for key, value in changes.items():
            if value is None:
                batch.delete(_ENTRY + key)
            else:
                batch.put(_ENTRY + key, value)
        batch.put(_HEADER_KEY, _HEADER.pack(FORMAT, position))
        with _typed_errors(self._name, self._folder):
            self._open_db().write(batch)

    def clear(self) -> None:
        self._open_db()
        self._begin_anew(_DISCARDED)

    def set_aside(self) -> str:
        return f"it is in {self._begin_anew(_DAMAGED, DAMAGED_KEPT)}"

    def _begin_anew(self, kind: str, kept: int = 0) -> Path:
        """Rename the folder atomically, open an empty one, and return the renamed folder's path.

        All but the `kept` newest folders of that kind are removed.
        """
        folder, before = self._folder, [-1, *map(_number_of, _find_aside(self._folder, kind))]
        aside = folder.with_name(f"{folder.name}{kind}{max(before) + 1}")
        with suppress(StoreError):
            # Closing writes data that is not yet in files; an error does not matter any more.
            self.close()
        self._damage = None
        try:
            folder.rename(aside)
            # Without a sync, a power failure could undo the rename, and a refused copy might be
            # accepted later.
            descriptor = os.open(folder.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise store.StoreUnavailable(f"{folder} cannot be renamed: {error}") from error
        finally:
            self._db = _open(folder, self._name)
        _remove(folder, kind, kept)
        return aside

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with _typed_errors(self._name, self._folder):
                db.close()

    def _read_page(self, after: bytes) -> list[tuple[bytes, bytes]]:
        """Return the next page of entries; raise StoreDamaged if a block cannot be read.

        RocksDB's `items` would stop at such a block without an error, as at the end of all entries.
        """
        page: list[tuple[bytes, bytes]] = []
        with _typed_errors(self._name, self._folder):
            rows = self._open_db().iter()
            try:
                rows.seek(after)
                while len(page) < ITEMS_PER_PAGE and rows.valid():
                    key: bytes = rows.key()  # In raw mode, keys are always bytes.
                    if key >= _AFTER_ENTRIES:
                        break
                    page.append((key, rows.value()))
                    rows.next()
                rows.status()
            finally:
                # A reference, even in a traceback, would keep RocksDB and its lock open after
                # close().
                del rows
        return page

    def _open_db(self) -> Rdict:
        if self._damage is not None:
            raise self._damage
        if self._db is None:
            raise StoreError(f"state copy {self._name} is closed")
        return self._db


def folder_of(directory: Path, name: StoreName) -> Path:
    """Return the folder of the copy `name`, below the state directory."""
    parts = (name.application, name.stage, name.topic)
    return directory.joinpath(*(_file_name(part) for part in parts), str(name.partition))


def _file_name(part: str) -> str:
    quoted = quote(part, safe="+")  # `quote` leaves letters, digits and -._~ unchanged.
    return quoted.replace(".", "%2E") if quoted.startswith(".") else quoted


def _open(folder: Path, name: StoreName) -> Rdict:
    with _typed_errors(name, folder):
        folder.mkdir(parents=True, exist_ok=True)
        return Rdict(str(folder), _options())


@contextmanager
def _typed_errors(name: StoreName, folder: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # The package rocksdict raises no narrower type.
        text = str(error)
        if isinstance(error, OSError) or any(world in text for world in _WORLD_FAILURES):
            raise store.StoreUnavailable(
                f"state copy {name} in {folder} cannot be used: {text}; check that the disk"
                " has room and that this user may write there"
            ) from error
        if "/LOCK:" in text:
            raise store.StoreLocked(
                f"state copy {name} in {folder} is open elsewhere; give each worker its own"
                f" --state-dir, or wait until the other has stopped ({text})"
            ) from error
        raise store.StoreDamaged(f"state copy {name} in {folder} is damaged: {text}") from error


def _find_aside(folder: Path, kind: str) -> Iterator[Path]:
    return folder.parent.glob(f"{folder.name}{kind}*")


def _number_of(path: Path) -> int:
    digits = path.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else -1


def _remove(folder: Path, kind: str, kept: int = 0) -> None:
    """Remove all but the `kept` newest folders of that kind; failures are retried next time."""
    found = sorted(_find_aside(folder, kind), key=_number_of)
    for old in found[: len(found) - kept]:
        shutil.rmtree(old, ignore_errors=True)


def _options() -> rocksdict.Options:
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(CACHE_BYTES))
    # Otherwise index and filter blocks grow outside the cache's bound.
    table.set_cache_index_and_filter_blocks(True)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(create_if_missing=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_level_zero_file_num_compaction_trigger(LEVEL0_FILES)
    options.set_level_zero_slowdown_writes_trigger(2 * LEVEL0_FILES)
    options.set_level_zero_stop_writes_trigger(3 * LEVEL0_FILES)
    options.set_max_open_files(MAX_OPEN_FILES)
    options.set_max_background_jobs(1)
    options.set_max_total_wal_size(MAX_WAL_BYTES)
    options.set_max_log_file_size(MAX_LOG_BYTES)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options
