"""Stage the tables beside their folder, and publish all of them at once.

Tasks write into a staging folder beside the requested one; its name begins with a dot. After the
last write the staging folder is renamed to the requested name, in one step. A run that fails or is
killed leaves nothing under the requested name, and removes its staging folder if it can. The next
run on that machine removes the staging folder of a killed run. A requested folder that is not empty
is refused: a backfill never overwrites.

Tables of Iceberg and Delta cannot be renamed, because they store their location. The staged rows
are copied into them, with a commit for each table (`resuming`, `in_lake`). If that fails in a first
run, all tables are removed.

The requested folder is a path, an address of pyarrow's file systems (`hdfs://…`), or Spark's form
of one (`s3a://…`). Object stores rename folders file by file, so readers there should wait for the
end of the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from glob import escape as glob_escape
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs, parquet

from spark_analytics.backfill.kinds import TABLES, File, schema_of

ACCOUNT: Final = "_backfill.json"
EMPTY: Final = "empty.parquet"
SPARKS: Final = {"s3a": "s3", "s3n": "s3"}
"""The pyarrow scheme for each scheme of Spark.

Addresses are passed to Spark as the user wrote them, so that it finds the files that pyarrow wrote.
"""

DIGITS: Final = 12
"""The number of random hexadecimal digits in the name of a staging folder."""

STATE: Final = "_state"
PENDING: Final = "coming.json"
"""The file of the state with the notes on a run that is adding its rows (`resuming`)."""


class PlaceRefused(ValueError):
    """The error of a folder in which tables cannot be written; the message says what to do."""


def file_system(address: str, option: str = "--out") -> tuple[fs.FileSystem, str]:
    """Return the file system of an address, and the path on it; Spark's `s3a://` becomes `s3://`.

    Raises:
        PlaceRefused: There is no such file system; the message names the `option` with the address.
    """
    if "://" not in address:
        return fs.LocalFileSystem(), str(Path(address).absolute())
    try:
        scheme, _, rest = address.partition("://")
        ours = SPARKS.get(scheme, scheme)
        return fs.FileSystem.from_uri(f"{ours}://{rest}")  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError, ValueError) as wrong:
        reason = str(wrong).splitlines()[0]
        raise PlaceRefused(f"{option} {address}: {reason}; name a folder") from None


class Place:
    """The folder of the tables; tasks write into the folder at the address `staged`.

    Raises:
        PlaceRefused: The folder is not empty (unless the run `adds` to it), or not writable.
    """

    def __init__(self, address: str, *, adds: bool = False) -> None:
        self._address = address
        self._files, self._path = file_system(address.rstrip("/"))
        self._was_there = self._files.get_file_info(self._path).type != fs.FileType.NotFound
        self._kept = False
        self.staged = _staging_address(address.rstrip("/") if "://" in address else self._path)
        _, self._staged = file_system(self.staged)
        if not adds:
            self._refuse_nonempty()
        try:
            self._files.create_dir(self._staged, recursive=True)
        except OSError as wrong:
            raise PlaceRefused(f"--out {address}: cannot be written ({wrong})") from None
        self._held = self._lock_staging()

    def _lock_staging(self) -> int | None:
        """Lock the staging folder for the life of this process, and remove those of killed runs.

        A staging folder that no process has locked belongs to a killed run. If a run's rows are
        still to be added, nothing is removed. Only folders of the local file system are locked. The
        operating system closes the descriptor at the end of the process.
        """
        if self._files.type_name != "local":
            return None
        staged = Path(self._staged)
        pending = self._files.get_file_info(f"{self._path}/{STATE}/{PENDING}")
        for folder in staged.parent.glob(f".{glob_escape(Path(self._path).name)}-*"):
            is_ours = staging_path_of(self._path, folder.name) and not folder.is_symlink()
            if folder == staged or not is_ours or pending.type != fs.FileType.NotFound:
                continue
            if (held := _lock(folder)) is not None:
                self._files.delete_dir(str(folder))
                os.close(held)
        return _lock(staged)

    def _refuse_nonempty(self) -> None:
        there = self._files.get_file_info(self._path)
        if there.type == fs.FileType.NotFound:
            return
        if there.type == fs.FileType.File:
            raise PlaceRefused(f"--out {self._address}: is a file; name a folder")
        if self._files.get_file_info(fs.FileSelector(self._path)):
            pending = self._files.get_file_info(f"{self._path}/{STATE}/{PENDING}")
            if pending.type != fs.FileType.NotFound:
                raise PlaceRefused(
                    f"--out {self._address}: a run was killed while it added its rows, and its"
                    " files are kept; add --resume to finish it"
                )
            raise PlaceRefused(
                f"--out {self._address}: is not empty, and a backfill does not overwrite files;"
                " name a new folder, or remove that one"
            )

    def complete(self, files: Iterable[File]) -> None:
        """Delete all other staged files, and write an empty file for each table without files."""
        wanted: dict[str, set[str]] = {table: set() for table in TABLES}
        for file in files:
            wanted[file.table].add(file.name)
        for table, names in wanted.items():
            folder = f"{self._staged}/{table}"
            self._files.create_dir(folder, recursive=True)
            for info in self._files.get_file_info(fs.FileSelector(folder)):
                if info.base_name not in names:
                    self._files.delete_file(info.path)  # A failed attempt wrote this file.
            if not names:
                nothing = schema_of(table).empty_table()
                parquet.write_table(nothing, f"{folder}/{EMPTY}", filesystem=self._files)

    def publish(self, account: Mapping[str, Any]) -> None:
        """Write the summary `account`, and rename the staged folder to the requested one."""
        with self._files.open_output_stream(f"{self._staged}/{ACCOUNT}") as out:
            out.write(json.dumps(account).encode())
        self._refuse_nonempty()
        if self._files.get_file_info(self._path).type != fs.FileType.NotFound:
            self._files.delete_dir(self._path)
        self._files.move(self._staged, self._path)

    def open(self) -> None:
        """Create the requested folder, for tables that cannot be renamed into it."""
        self._refuse_nonempty()
        self._files.create_dir(self._path, recursive=True)

    def keep(self) -> None:
        """Make `discard` keep the staged files, which the next run needs if this one is killed."""
        self._kept = True

    def remove_created(self) -> None:
        """Remove the folder that `open` has created, with its content."""
        self._kept = False
        if self._files.get_file_info(self._path).type != fs.FileType.NotFound:
            self._files.delete_dir(self._path)

    def discard(self) -> None:
        """Remove the staged files unless they are kept, and the requested folder if it is empty.

        A catalog may have created that folder for tables that were never created.
        """
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._kept:
            return
        if self._files.get_file_info(self._staged).type != fs.FileType.NotFound:
            self._files.delete_dir(self._staged)
        if self._was_there or self._files.get_file_info(self._path).type == fs.FileType.NotFound:
            return
        if not self._files.get_file_info(fs.FileSelector(self._path)):
            self._files.delete_dir(self._path)


def _lock(folder: Path) -> int | None:
    """Lock a folder and return the descriptor of the lock, or None if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _staging_address(address: str) -> str:
    above, _, name = address.rpartition("/")
    return f"{above}/.{name}-{uuid.uuid4().hex[:DIGITS]}"


def staging_path_of(address: str, recorded: str) -> str | None:
    """Return the path of the folder `recorded` beside the address; None if no run names it so."""
    above, _, name = address.rpartition("/")
    found = recorded.rpartition("/")[2]
    is_own = re.fullmatch(rf"\.{re.escape(name)}-[0-9a-f]{{{DIGITS}}}", found)
    return f"{above}/{found}" if is_own else None
