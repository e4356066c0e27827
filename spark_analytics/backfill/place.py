"""The folder of the tables, and how they come into it: all at once.

What tasks write lies in a folder beside it, whose name begins with a dot. When all is written, that
folder is renamed to the one that was asked for, in one step; a run that fails or is killed leaves
nothing under the asked name, and takes its own folder away if it can. A folder that holds anything
is refused: a backfill never writes over what is there.

Tables of Iceberg and Delta cannot be renamed, as they know where they lie: what is staged is copied
into them, a commit for each (`resuming`, `in_lake`). If that fails in a first run, all is taken
away.

A place is a path, or an address as pyarrow's file systems know it (`hdfs://…`), or Spark's spelling
of one (`s3a://…`); where folders are
renamed file by file, as on object stores, readers had better wait for the end of the run.

Proved by: tests/spark_analytics/backfill/test_place.py
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs, parquet

from spark_analytics.backfill.kinds import TABLES, schema_of
from spark_analytics.backfill.part import File

ACCOUNT: Final = "_backfill.json"
EMPTY: Final = "empty.parquet"
SPARKS: Final = {"s3a": "s3", "s3n": "s3"}
"""By the scheme that Spark has for a file system, pyarrow's. Addresses stay as they were typed, so
that Spark finds there what was written by pyarrow."""

STATE: Final = "_state"
COMING: Final = "coming.json"
"""In the state: what a run adds that is bringing its rows (`resuming`)."""


class PlaceRefused(ValueError):
    """Tables cannot be written there; the message says what to do instead."""


def file_system(address: str, option: str = "--out") -> tuple[fs.FileSystem, str]:
    """Where an address leads: the file system, and the path on it. What Spark calls `s3a://` is
    `s3://` here. PlaceRefused if it leads nowhere, by the `option` that named it."""
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
    """`staged` is the address of the folder in which tasks write. PlaceRefused if the place holds
    something (unless `adds`: it is to be added to), or cannot be written to."""

    def __init__(self, address: str, *, adds: bool = False) -> None:
        self._address = address
        self._files, self._path = file_system(address.rstrip("/"))
        self._was_there = self._files.get_file_info(self._path).type != fs.FileType.NotFound
        self._kept = False
        self.staged = _beside(address.rstrip("/") if "://" in address else self._path)
        _, self._staged = file_system(self.staged)
        if not adds:
            self._refuse_filled()
        try:
            self._files.create_dir(self._staged, recursive=True)
        except OSError as wrong:
            raise PlaceRefused(f"--out {address}: cannot be written ({wrong})") from None

    def _refuse_filled(self) -> None:
        there = self._files.get_file_info(self._path)
        if there.type == fs.FileType.NotFound:
            return
        if there.type == fs.FileType.File:
            raise PlaceRefused(f"--out {self._address}: is a file; name a folder")
        if self._files.get_file_info(fs.FileSelector(self._path)):
            coming = self._files.get_file_info(f"{self._path}/{STATE}/{COMING}")
            if coming.type != fs.FileType.NotFound:
                raise PlaceRefused(
                    f"--out {self._address}: a run was killed while its rows came in, and all that"
                    " they need is kept; add --resume, which brings it to its end"
                )
            raise PlaceRefused(
                f"--out {self._address}: holds something already, and a backfill writes over"
                " nothing; name a new folder, or remove that one"
            )

    def complete(self, files: Iterable[File]) -> None:
        """These files are the tables; a table without one is there, and empty."""
        wanted: dict[str, set[str]] = {table: set() for table in TABLES}
        for file in files:
            wanted[file.table].add(file.name)
        for table, names in wanted.items():
            folder = f"{self._staged}/{table}"
            self._files.create_dir(folder, recursive=True)
            for info in self._files.get_file_info(fs.FileSelector(folder)):
                if info.base_name not in names:
                    self._files.delete_file(info.path)  # of an attempt that failed
            if not names:
                nothing = schema_of(table).empty_table()
                parquet.write_table(nothing, f"{folder}/{EMPTY}", filesystem=self._files)

    def publish(self, account: Mapping[str, Any]) -> None:
        """The folder that was asked for is there, and whole."""
        with self._files.open_output_stream(f"{self._staged}/{ACCOUNT}") as out:
            out.write(json.dumps(account).encode())
        self._refuse_filled()
        if self._files.get_file_info(self._path).type != fs.FileType.NotFound:
            self._files.delete_dir(self._path)
        self._files.move(self._staged, self._path)

    def open(self) -> None:
        """The folder is there, for tables that cannot be renamed into it."""
        self._refuse_filled()
        self._files.create_dir(self._path, recursive=True)

    def keep(self) -> None:
        """What is staged is named in the folder, and needed until it is brought in."""
        self._kept = True

    def take_away(self) -> None:
        """Nothing is left of what `open` has made, and of what came into it."""
        self._kept = False
        if self._files.get_file_info(self._path).type != fs.FileType.NotFound:
            self._files.delete_dir(self._path)

    def give_up(self) -> None:
        """Nothing is left of what was written and is not kept; nor of a folder that a catalog has
        made for tables which never came."""
        if self._kept:
            return
        if self._files.get_file_info(self._staged).type != fs.FileType.NotFound:
            self._files.delete_dir(self._staged)
        if self._was_there or self._files.get_file_info(self._path).type == fs.FileType.NotFound:
            return
        if not self._files.get_file_info(fs.FileSelector(self._path)):
            self._files.delete_dir(self._path)


def _beside(address: str) -> str:
    above, _, name = address.rpartition("/")
    return f"{above}/.{name}-{uuid.uuid4().hex[:12]}"
