"""Tables that a later run adds to: where the last one stood, and how new rows come beside the old.

    <out>/_state/current.json     which run was the last, what it had read, where its groups stood
    <out>/_state/<run>/…          the state of each group (`state`)
    <out>/_state/coming.json      what a run adds that is bringing its rows, and where it lies

A run writes all its files beside the folder first. Then it notes them in `coming.json`: by that one
rename it is decided, and all that follows may be done again. The rows come into the tables, the
states into their folder, and `current.json` is replaced. So a run that is killed before has done
nothing, and one that is killed after is brought to its end by the next, with the very files that it
had written, whatever lies in the inputs by then. How rows come into tables so that none comes twice
is the tables' to know (`Tables`): files of Parquet are moved, tables of Iceberg and Delta take each
run by its number. Readers who look meanwhile may see a part of a run's rows.

Proved by: tests/spark_analytics/backfill/test_resumed.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pyarrow import fs

from spark_analytics.backfill.marked import StateUnreadable
from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import (
    ACCOUNT,
    COMING,
    STATE,
    Place,
    PlaceRefused,
    file_system,
)
from topology.wire.stretches import Beginning

CURRENT: Final = "current.json"
PARQUET: Final = "parquet"
ENDED: Final = "ended"

Known = dict[str, Any]
"""`run`, `topology` (its digest), `begin` (a Beginning), `files` (by path, its bytes and when it
was written to), `offsets` (the last by `topic/partition`), `places` (by stream, where in the topics
it lies), `sources` (the same by stream and source), `cut` (up to when archives were known, see
`spark_analytics.backfill.cut`; of earlier versions absent), `states` (name by group), `tables` (see
`Kept`; of earlier versions absent). `ended`: all was flushed, and what the others say is not
there."""


WHOLE: Final[Mapping[str, type]] = {"run": int, "topology": str}
OPEN: Final[Mapping[str, type]] = {"begin": list, "files": dict, "offsets": dict, "states": dict}
"""What is `Known` of each run, and of one that was not the last, as JSON has it."""

COMES: Final[Mapping[str, type]] = {"run": int, "files": list}
STAGED: Final[Mapping[str, type]] = {"staged": str, "now": dict, "account": dict}
"""What a run notes that brings its rows; of earlier versions without the latter."""


class Kept(NamedTuple):
    """What settles which tables the rows go to, and their columns."""

    form: str = PARQUET
    catalog: str | None = None
    schema: str | None = None


class Coming(NamedTuple):
    """What a run adds. `staged` is the address of the folder that holds it; `now`: where the run
    stood."""

    run: int
    staged: str
    files: Sequence[File]
    now: Known
    account: Known


class Tables(Protocol):
    def bring(self, coming: Coming) -> None:
        """Its rows into the tables, but those that are there; it may be called again."""


class ParquetTables:
    """Folders of files at an address."""

    def __init__(self, address: str) -> None:
        self._files, self._path = file_system(address.rstrip("/"))

    def bring(self, coming: Coming) -> None:
        _, staged = file_system(coming.staged)
        for file in coming.files:
            move_if_there(
                self._files,
                f"{staged}/{file.table}/{file.name}",
                f"{self._path}/{file.table}/{file.name}",
            )


class Resumed:
    """The state of the tables at an address. PlaceRefused if there is none to go on from,
    StateUnreadable if it is damaged. `who` asks for it, and `option` names the address; who only
    `looks` at it is refused where a run has been killed amid its rows. `first`: this is the first
    run, and nothing is there yet."""

    def __init__(
        self,
        address: str,
        *,
        who: str = "--resume",
        option: str = "--out",
        looks: bool = False,
        first: bool = False,
    ) -> None:
        self._address = address
        self._who = who
        self.account: Known = {}
        """That of the run that was brought to its end (`finish`)."""
        self._files, self._path = file_system(address.rstrip("/"), option)
        self._state = f"{self._path}/{STATE}"
        self._coming = self._read(COMING)
        known = self._read(CURRENT)
        if known is None and (first or self._coming is not None):
            known = {"run": 0}
        if known is None and not is_there(self._files, self._path):
            raise PlaceRefused(
                f"{who}: {address} is not there; name the --out of a backfill that was asked with"
                " --no-to-end"
            )
        if known is None:
            raise PlaceRefused(
                f"{who}: {address} has no state of a backfill to go on from; the run before has"
                " to be asked with --no-to-end"
            )
        self.known: Known = known
        if self._coming is not None and looks:
            raise PlaceRefused(
                f"{who}: a run was killed while its rows came into {address}; bring it to its end"
                " by inorder spark backfill --resume with what it was asked for"
            )
        if self._coming is None:
            self._refuse_ended()
        elif "staged" not in self._coming:
            self._undo()

    @property
    def begin(self) -> Beginning:
        return Beginning(*self.known["begin"])

    @property
    def is_unfinished(self) -> bool:
        """A run was killed while its rows came in: `finish` goes before anything else."""
        return self._coming is not None

    @property
    def kept(self) -> Kept:
        known = self.known if self._coming is None else self._coming["now"]
        return Kept(*known.get("tables", ()))

    def states(self) -> dict[int, str]:
        """The file of each group's state, as an address that leads there from anywhere: executors
        stand in folders of their own."""
        address = self._address.rstrip("/") if "://" in self._address else self._path
        folder = f"{address}/{STATE}/{self.known['run']}"
        return {int(group): f"{folder}/{name}" for group, name in self.known["states"].items()}

    def require(self, topology: str, kept: Kept) -> None:
        """PlaceRefused if the state is that of another topology, or of other tables."""
        known = self.known if self._coming is None else self._coming["now"]
        if known["topology"] != topology:
            raise PlaceRefused(
                f"--resume: {self._address} was written with another topology (or other functions);"
                " resume with that one, or backfill anew into a new folder"
            )
        if self.kept != kept:
            raise PlaceRefused(
                f"--resume: {self._address} was written with {_spelled(self.kept)}, and this is"
                f" {_spelled(kept)}; resume with the former, or backfill anew into a new folder"
            )

    def add(self, place: Place, coming: Coming, tables: Tables) -> None:
        """What is staged counts from here on, whatever is killed."""
        self._write(COMING, {**coming._asdict(), "files": [list(each) for each in coming.files]})
        place.keep()
        self._bring(coming, tables)

    def finish(self, tables: Tables) -> bool:
        """Bring a killed run to its end; whether that flushed all, so that nobody goes on."""
        assert self._coming is not None
        coming = Coming(**self._coming)
        self._bring(coming._replace(files=[File(*each) for each in coming.files]), tables)
        self.account = coming.account
        return bool(self.known.get(ENDED))

    def _bring(self, coming: Coming, tables: Tables) -> None:
        before = self.known["run"]
        if coming.run > before:
            tables.bring(coming)
            keep_states(self._files, coming.staged, self._state, coming.now)
            self._write(CURRENT, coming.now)
            self.known = coming.now
        with self._files.open_output_stream(f"{self._path}/{ACCOUNT}") as out:
            out.write(json.dumps(coming.account).encode())
        _, staged = file_system(coming.staged)
        for folder in (f"{self._state}/{coming.run - 1}", staged):
            if is_there(self._files, folder):
                self._files.delete_dir(folder)
        self._files.delete_file(f"{self._state}/{COMING}")
        self._coming = None

    def _refuse_ended(self) -> None:
        if self.known.get(ENDED):
            raise PlaceRefused(
                f"{self._who}: {self._address} was flushed to its end; what has left nobody can"
                " take back. Ask with --no-to-end as long as more may come, and backfill anew"
            )

    def _undo(self) -> None:
        """Take away what a run left that was killed while its files came in: earlier versions
        noted no more than their names."""
        assert self._coming is not None
        if self._coming["run"] > self.known["run"]:
            for name in self._coming["files"]:
                if is_there(self._files, f"{self._path}/{name}"):
                    self._files.delete_file(f"{self._path}/{name}")
        self._files.delete_file(f"{self._state}/{COMING}")
        self._coming = None
        self._refuse_ended()

    def _read(self, name: str) -> Known | None:
        if not is_there(self._files, f"{self._state}/{name}"):
            return None
        with self._files.open_input_stream(f"{self._state}/{name}") as file:
            content = file.read()
        try:
            found = json.loads(content)
        except ValueError as wrong:
            found = wrong
        if isinstance(found, dict):
            absent = _absent(found, name)
            found = found if not absent else f"it says nothing of {', '.join(absent)}"
        if not isinstance(found, dict):
            raise StateUnreadable(
                f"{self._who}: {self._address.rstrip('/')}/{STATE}/{name} is damaged ({found});"
                " give back the file as it was written, or backfill anew into a new folder"
            )
        return found

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        self._files.create_dir(self._state, recursive=True)
        write(self._files, self._state, name, content)


def begun(place: Place, now: Known) -> None:
    """The state of a first run, into what is staged."""
    files, staged = file_system(place.staged)
    folder = f"{staged}/{STATE}"
    keep_states(files, place.staged, folder, now)
    write(files, folder, CURRENT, now)


def keep_states(files: fs.FileSystem, staged: str, folder: str, now: Known) -> None:
    """The states that tasks have staged at that address, into the folder of their run."""
    if now.get(ENDED):
        return
    _, source = file_system(staged)
    files.create_dir(f"{folder}/{now['run']}", recursive=True)
    for name in now["states"].values():
        move_if_there(files, f"{source}/{name}", f"{folder}/{now['run']}/{name}")


def write(files: fs.FileSystem, folder: str, name: str, content: Mapping[str, Any]) -> None:
    """By one rename."""
    with files.open_output_stream(f"{folder}/{name}.new") as out:
        out.write(json.dumps(content).encode())
    files.move(f"{folder}/{name}.new", f"{folder}/{name}")


def _absent(found: Known, name: str) -> list[str]:
    """What one of these files has to say, and does not."""

    def lacks(said: Known, needed: Mapping[str, type]) -> list[str]:
        return [key for key, kind in needed.items() if not isinstance(said.get(key), kind)]

    if name == COMING and "staged" not in found:
        return lacks(found, COMES)
    if name == CURRENT and found.get(ENDED):
        return []  # it is refused, whatever else it says
    absent = lacks(found, {**COMES, **STAGED}) if name == COMING else []
    now = found if name == CURRENT or absent else found["now"]
    return absent or lacks(now, WHOLE if now.get(ENDED) else {**WHOLE, **OPEN})


def is_there(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def move_if_there(files: fs.FileSystem, source: str, target: str) -> None:
    """What an attempt before this one has moved is at its place."""
    if is_there(files, source):
        files.move(source, target)


def _spelled(kept: Kept) -> str:
    words = [f"--format {kept.form}"]
    if kept.catalog is not None:
        words.append(f"--catalog {kept.catalog}")
    if kept.schema is not None:
        words.append(f"--schema '{kept.schema}'")
    return " ".join(words)
