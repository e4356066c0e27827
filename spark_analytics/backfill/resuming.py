"""Let a later run add to tables: record where the last run ended, and add new rows to the old ones.

    <out>/_state/current.json     the last run, what it had read, the files of its groups' states
    <out>/_state/<run>/…          the state of each group (`state`)
    <out>/_state/coming.json      the rows that a run is adding, and the address of the staged files

A run first writes all its files into a staging folder. Then it creates `coming.json`, which names
these files, by a rename. It adds the rows to the tables, moves the states into their folder, and
replaces `current.json`.

A run that is killed before the rename has changed nothing. Every step after the rename may be
repeated. If a run is killed after the rename, the next run finishes it with the same files, even if
the inputs have changed. The tables ensure that no row is added twice (`Tables`): Parquet files are
moved, and tables of Iceberg and Delta accept each run number once. Meanwhile readers may see a part
of a run's rows.

Anybody with write access to a folder of tables may write the files of its state. The files that
they name are read, moved and deleted with the rights of the user who resumes. A state may therefore
name only single files below known folders, and one folder: the staging folder of a run. That folder
is beside the tables, and has a name that only runs use (`place.own_folder`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pyarrow import fs

from spark_analytics.backfill.kinds import TABLES, VERSION, File
from spark_analytics.backfill.place import (
    ACCOUNT,
    PENDING,
    STATE,
    Place,
    PlaceRefused,
    file_system,
    staging_path_of,
)
from spark_analytics.backfill.stretches import Beginning
from spark_analytics.executors.setting import difference
from topology.records.marked import StateUnreadable

CURRENT: Final = "current.json"
ENDED: Final = "ended"

Known = dict[str, Any]
"""The notes of a run.

If `ended` is true, the run emitted all buffered events, and the OPEN keys are absent.

- `run` is the number of the run, and `topology` has its digests.
- `begin` is a Beginning.
- `files` has, by path, the size in bytes and the time of the last write.
- `offsets` has the last offset by `topic/partition`.
- `places` has the partitions of each stream, and `sources` the same by stream and source.
- `cut` is the time up to which archives were complete (`spark_analytics.backfill.cut`); None if no
  archive was read.
- `states` has the file name by group, and `tables` is a `TableForm`.
"""

WHOLE: Final[Mapping[str, type]] = {"run": int, "topology": dict, "tables": list}
OPEN: Final[Mapping[str, type]] = {"begin": list, "files": dict, "offsets": dict, "states": dict}
"""The further keys of `Known` if the run kept events buffered, with their types in JSON."""

COMES: Final[Mapping[str, type]] = {
    "run": int, "files": list, "staged": str, "now": dict, "account": dict,
}  # fmt: skip
"""The keys of `coming.json`, which a run writes before it adds its rows, with their types in JSON.
"""


def fault_of(found: Any, *, is_current: bool) -> str:
    """Return a description of the fault in the content of a file, or an empty string."""
    if not isinstance(found, dict):
        return str(found)
    absent = _absent(found, is_current=is_current)
    if absent:
        return f"it lacks {', '.join(absent)}"
    strange = next((repr(name) for name in _names(found) if not _is_plain(name)), None)
    return f"it names {strange}, which is not a file name that a run writes" if strange else ""


def _absent(found: Known, *, is_current: bool) -> list[str]:
    """Return the required keys that are absent, or have a value of another type."""

    def lacks(said: Known, needed: Mapping[str, type]) -> list[str]:
        return [key for key, kind in needed.items() if not isinstance(said.get(key), kind)]

    if is_current and found.get(ENDED):
        return []  # `Resumed` refuses such a file anyway.
    absent = [] if is_current else lacks(found, COMES)
    now = found if is_current or absent else found["now"]
    return absent or lacks(now, WHOLE if now.get(ENDED) else {**WHOLE, **OPEN})


def _names(found: Known) -> Iterator[Any]:
    """Yield each file name in the notes; names are relative to a known folder."""
    states = found.get("now", found).get("states")
    yield from states.values() if isinstance(states, dict) else ()
    files = found["files"] if isinstance(found.get("files"), list) else ()
    for each in files:
        is_file = isinstance(each, list) and len(each) == len(File._fields)
        yield each[1] if is_file and each[0] in [*TABLES] else each


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and not {*"/\\\0"} & {*name}


PARQUET: Final = "parquet"


class TableForm(NamedTuple):
    """The values that determine the tables and their columns.

    Attributes:
        form: The format of the tables.
        catalog: The address of Iceberg's catalog.
        schema: The schema of payloads.
        version: The version of the columns (`kinds.VERSION`).
    """

    form: str = PARQUET
    catalog: str | None = None
    schema: str | None = None
    version: int = VERSION


class PendingRows(NamedTuple):
    """The rows that a run is adding to the tables.

    Attributes:
        run: The number of the run.
        staged: The address of the folder with the files.
        files: The files with the rows.
        now: The notes of the run.
        account: The summary of the run.
    """

    run: int
    staged: str
    files: Sequence[File]
    now: Known
    account: Known


class Tables(Protocol):
    def add_pending(self, pending: PendingRows) -> None:
        """Add the run's rows that are not in the tables yet; it may be called again."""


class ParquetTables:
    """Tables that are folders of Parquet files at an address."""

    def __init__(self, address: str) -> None:
        self._files, self._path = file_system(address.rstrip("/"))

    def add_pending(self, pending: PendingRows) -> None:
        _, staged = file_system(pending.staged)
        for file in pending.files:
            move_if_there(
                self._files,
                f"{staged}/{file.table}/{file.name}",
                f"{self._path}/{file.table}/{file.name}",
            )


class Resumed:
    """The state of the tables at an address.

    `reader` is the option with the address, for a program that only reads the tables; it is empty
    for a backfill. Such a program is refused if a run was killed while it added rows. `first` means
    that this is the first run, and there is no state yet.

    Raises:
        PlaceRefused: There is no state to continue from.
        StateUnreadable: The state is damaged.
    """

    def __init__(self, address: str, *, reader: str = "", first: bool = False) -> None:
        self._address = address
        self._who = who = reader or "--resume"
        self.account: Known = {}
        """The summary of the killed run that `finish` has completed."""
        self._files, self._path = file_system(address.rstrip("/"), reader or "--out")
        self._state = f"{self._path}/{STATE}"
        self._refuse_links()
        self._pending = self._read(PENDING)
        known = self._read(CURRENT)
        if known is None and (first or self._pending is not None):
            known = {"run": 0}
        if known is None and not is_there(self._files, self._path):
            raise PlaceRefused(
                f"{who}: {address} does not exist; name the --out of a backfill that was run with"
                " --no-to-end"
            )
        if known is None:
            raise PlaceRefused(
                f"{who}: {address} has no state of a backfill to continue from; the previous"
                " backfill must have been run with --no-to-end"
            )
        self.known: Known = known
        if self._pending is not None and reader:
            raise PlaceRefused(
                f"{who}: a run was killed while it added rows to {address}; finish it by inorder"
                " spark backfill --resume with the same options"
            )
        if self._pending is None:
            self._refuse_ended()

    @property
    def begin(self) -> Beginning:
        return Beginning(*self.known["begin"])

    @property
    def is_unfinished(self) -> bool:
        """Whether a run was killed while it added rows; `finish` must then be called first."""
        return self._pending is not None

    @property
    def table_form(self) -> TableForm:
        known = self.known if self._pending is None else self._pending["now"]
        form, catalog, schema, *version = known["tables"]
        # Older versions noted whether the tables have `line`, and the oldest noted nothing.
        is_other = not version or False in version
        return TableForm(form, catalog, schema, 1 if is_other else version[-1])

    def states(self) -> dict[int, str]:
        """Return the addresses of the groups' state files.

        They are absolute, since executors run in other folders.
        """
        address = self._address.rstrip("/") if "://" in self._address else self._path
        folder = f"{address}/{STATE}/{self.known['run']}"
        return {int(group): f"{folder}/{name}" for group, name in self.known["states"].items()}

    def find_new_queries(self, topology: Mapping[str, str], table_form: TableForm) -> None:
        """Check that the run can continue from the state, given its topology's digests.

        Another `schema` is accepted here; the tables decide whether it fits.

        Raises:
            PlaceRefused: The topology differs, and not only by removed queries. Or the tables have
                another format, catalog or version.
        """
        known = self.known if self._pending is None else self._pending["now"]
        found = difference(known["topology"], topology)
        if found:
            raise PlaceRefused(
                f"--resume: {self._address} was written with another topology"
                f" ({', '.join(found)}); resume with that one, or run the backfill again into a new"
                " folder"
            )
        if self.table_form._replace(schema=None) != table_form._replace(schema=None):
            raise PlaceRefused(
                f"--resume: {self._address} was written with"
                f" {_format_options(self.table_form)}, but this run has"
                f" {_format_options(table_form)}; resume with the settings of the folder, or run"
                " the backfill again into a new folder"
            )

    def add(self, place: Place, pending: PendingRows, tables: Tables) -> None:
        """Write the notes on the staged files, then add their rows to the tables.

        With the notes the next run can add the rows if this one is killed.
        """
        self._write(PENDING, {**pending._asdict(), "files": [list(each) for each in pending.files]})
        place.keep()
        self._add_pending(pending, tables)

    def finish(self, tables: Tables) -> bool:
        """Complete a killed run, and return whether it emitted all buffered events.

        No run can continue from the state of a run that emitted all buffered events.
        """
        assert self._pending is not None
        pending = PendingRows(**self._pending)
        self._add_pending(pending._replace(files=[File(*each) for each in pending.files]), tables)
        self.account = pending.account
        return bool(self.known.get(ENDED))

    def _add_pending(self, pending: PendingRows, tables: Tables) -> None:
        before = self.known["run"]
        _, staged = file_system(pending.staged)
        if pending.run > before:
            if not is_there(self._files, staged):
                raise StateUnreadable(
                    f"{self._who}: {pending.staged}, which contains the rows for {self._address},"
                    " does not exist; put it back beside that folder"
                )
            tables.add_pending(pending)
            keep_states(self._files, pending.staged, self._state, pending.now)
            self._write(CURRENT, pending.now)
            self.known = pending.now
        with self._files.open_output_stream(f"{self._path}/{ACCOUNT}") as out:
            out.write(json.dumps(pending.account).encode())
        for folder in (f"{self._state}/{pending.run - 1}", staged):
            if is_there(self._files, folder):
                self._files.delete_dir(folder)
        self._files.delete_file(f"{self._state}/{PENDING}")
        self._pending = None

    def _refuse_ended(self) -> None:
        if self.known.get(ENDED):
            raise PlaceRefused(
                f"{self._who}: {self._address} was flushed to its end, and emitted rows cannot be"
                " changed; run the backfill again into a new folder, and add --no-to-end while more"
                " input may arrive"
            )

    def _read(self, name: str) -> Known | None:
        if not is_there(self._files, f"{self._state}/{name}"):
            return None
        with self._files.open_input_stream(f"{self._state}/{name}") as file:
            content = file.read()
        try:
            found = json.loads(content)
        except ValueError as wrong:
            found = wrong
        fault = fault_of(found, is_current=name == CURRENT)
        if not fault and "staged" in found:
            fault = self._resolve_staging(found)
        if fault:
            raise StateUnreadable(
                f"{self._who}: {self._address.rstrip('/')}/{STATE}/{name} is damaged ({fault});"
                " restore the file as it was written, or run the backfill again into a new folder"
            )
        known: Known = found
        return known

    def _resolve_staging(self, pending: Known) -> str:
        """Replace the noted staging folder by its address; return the fault, or an empty string."""
        recorded = pending["staged"]
        address = self._address.rstrip("/") if "://" in self._address else self._path
        staged = staging_path_of(address, recorded)
        if staged is None or is_link(self._files, file_system(staged)[1]):
            return f"it names {recorded!r}, which is not a folder that a run creates here"
        pending["staged"] = staged
        return ""

    def _refuse_links(self) -> None:
        """Raise PlaceRefused if a folder of the state is a symbolic link; runs create none."""
        folders = [self._state]
        if is_there(self._files, self._state):
            folders += [
                each.path for each in self._files.get_file_info(fs.FileSelector(self._state))
            ]
        for folder in folders:
            if is_link(self._files, folder):
                raise PlaceRefused(
                    f"{self._who}: {folder} is a link, which no backfill creates; replace it by the"
                    " folder itself"
                )

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        self._files.create_dir(self._state, recursive=True)
        write(self._files, self._state, name, content)


def begin_run(place: Place, now: Known) -> None:
    """Write the state of a first run into the staged folder."""
    files, staged = file_system(place.staged)
    folder = f"{staged}/{STATE}"
    keep_states(files, place.staged, folder, now)
    write(files, folder, CURRENT, now)


def keep_states(files: fs.FileSystem, staged: str, folder: str, now: Known) -> None:
    """Move the state files from the staging folder at `staged` into the folder of their run."""
    if now.get(ENDED):
        return
    _, source = file_system(staged)
    files.create_dir(f"{folder}/{now['run']}", recursive=True)
    for name in now["states"].values():
        move_if_there(files, f"{source}/{name}", f"{folder}/{now['run']}/{name}")


def write(files: fs.FileSystem, folder: str, name: str, content: Mapping[str, Any]) -> None:
    """Write a file in one step: under another name first, then by a rename."""
    with files.open_output_stream(f"{folder}/{name}.new") as out:
        out.write(json.dumps(content).encode())
    files.move(f"{folder}/{name}.new", f"{folder}/{name}")


def is_there(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def is_link(files: fs.FileSystem, path: str) -> bool:
    return bool(files.type_name == "local") and Path(path).is_symlink()


def move_if_there(files: fs.FileSystem, source: str, target: str) -> None:
    """Move a file, unless an earlier attempt has moved it."""
    if is_there(files, source):
        files.move(source, target)


def _format_options(table_form: TableForm) -> str:
    words = [f"--format {table_form.form}"]
    if table_form.catalog is not None:
        words.append(f"--catalog {table_form.catalog}")
    if table_form.schema is not None:
        words.append(f"--schema '{table_form.schema}'")
    if table_form.version != VERSION:
        words.append(f"columns of version {table_form.version}")
    return " ".join(words)
