"""Tables that a later run adds to: where the last one stood, and how new files come beside the old.

    <out>/_state/current.json     which run was the last, what it had read, where its groups stood
    <out>/_state/<run>/…          the state of each group (`state`)
    <out>/_state/coming.json      what the run that is just adding its files adds

A run writes all its files beside the folder first. Then it notes their names in `coming.json`,
moves them in, and replaces `current.json` by one rename: with that they count. A run that is killed
before is undone by the next one, which takes away what `coming.json` names; readers who look while
files come in may see a part of a run's rows.

Proved by: tests/spark_analytics/backfill/test_resumed.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyarrow import fs

from spark_analytics.backfill.part import File
from spark_analytics.backfill.place import ACCOUNT, Place, PlaceRefused, file_system
from topology.wire.stretches import Beginning

STATE: Final = "_state"
CURRENT: Final = "current.json"
COMING: Final = "coming.json"

Known = dict[str, Any]
"""`run`, `topology` (its digest), `begin` (a Beginning), `files` (by path, its bytes and when it
was written to), `offsets` (the last by `topic/partition`), `places` (by stream, where in the topics
it lies), `sources` (the same by stream and source), `states` (name by group)."""


class Resumed:
    """The state of the tables at an address. PlaceRefused if there is none to go on from. `who`
    asks for it, and `option` names the address; one who only looks undoes nothing."""

    def __init__(
        self,
        address: str,
        *,
        who: str = "--resume",
        option: str = "--out",
        undoes: bool = True,
    ) -> None:
        self._address = address
        self._files, self._path = file_system(address.rstrip("/"), option)
        self._state = f"{self._path}/{STATE}"
        known = self._read(CURRENT)
        if known is None and not self._is_there(self._path):
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
        if known.get("ended"):
            raise PlaceRefused(
                f"{who}: {address} was flushed to its end; what has left nobody can take back. Ask"
                " with --no-to-end as long as more may come, and backfill anew"
            )
        if undoes:
            self._undo()

    @property
    def begin(self) -> Beginning:
        return Beginning(*self.known["begin"])

    def states(self) -> dict[int, str]:
        """The file of each group's state, as an address."""
        folder = f"{self._address.rstrip('/')}/{STATE}/{self.known['run']}"
        return {int(group): f"{folder}/{name}" for group, name in self.known["states"].items()}

    def require(self, topology: str) -> None:
        """PlaceRefused if the state is that of another topology."""
        if self.known["topology"] != topology:
            raise PlaceRefused(
                f"--resume: {self._address} was written with another topology (or other functions);"
                " resume with that one, or backfill anew into a new folder"
            )

    def add(self, place: Place, files: Iterable[File], now: Known | None, account: Known) -> None:
        """What is staged counts from here on. `now`: where this run stood; None: it flushed all,
        and nobody goes on."""
        coming = [f"{file.table}/{file.name}" for file in files]
        self._write(COMING, {"run": self.known["run"] + 1, "files": coming})
        for name in coming:
            self._files.move(f"{place.staged}/{name}", f"{self._path}/{name}")
        if now is not None:
            keep_states(self._files, place.staged, self._state, now)
        before = self.known["run"]
        self._write(CURRENT, now or {"run": before + 1, "ended": True})
        self._files.delete_file(f"{self._state}/{COMING}")
        self._files.delete_dir(f"{self._state}/{before}")
        with self._files.open_output_stream(f"{self._path}/{ACCOUNT}") as out:
            out.write(json.dumps(account).encode())

    def _undo(self) -> None:
        """Take away what a run left that was killed while its files came in."""
        coming = self._read(COMING)
        if coming is None:
            return
        if coming["run"] > self.known["run"]:
            for name in coming["files"]:
                if self._is_there(f"{self._path}/{name}"):
                    self._files.delete_file(f"{self._path}/{name}")
        self._files.delete_file(f"{self._state}/{COMING}")

    def _is_there(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type != fs.FileType.NotFound)

    def _read(self, name: str) -> Known | None:
        if not self._is_there(f"{self._state}/{name}"):
            return None
        with self._files.open_input_stream(f"{self._state}/{name}") as file:
            found: Known = json.loads(file.read())
        return found

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        write(self._files, self._state, name, content)


def begun(place: Place, now: Known) -> None:
    """The state of a first run, into what is staged."""
    files, staged = file_system(place.staged)
    folder = f"{staged}/{STATE}"
    keep_states(files, staged, folder, now)
    write(files, folder, CURRENT, now)


def keep_states(files: fs.FileSystem, staged: str, folder: str, now: Known) -> None:
    """The states that tasks have staged, into the folder of their run."""
    files.create_dir(f"{folder}/{now['run']}", recursive=True)
    for name in now["states"].values():
        files.move(f"{staged}/{name}", f"{folder}/{now['run']}/{name}")


def write(files: fs.FileSystem, folder: str, name: str, content: Mapping[str, Any]) -> None:
    """By one rename."""
    with files.open_output_stream(f"{folder}/{name}.new") as out:
        out.write(json.dumps(content).encode())
    files.move(f"{folder}/{name}.new", f"{folder}/{name}")
