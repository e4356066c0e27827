"""A results topic as one who reads it to its end believes it: the newest of each id."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.end_to_end.records import Reader
from tests.end_to_end.setting import Setting
from tests.waiting import Patience


class StandingResults:
    """`lines` by id, retracted ones gone. Each revision must follow the one before."""

    kind: str

    def __init__(self, setting: Setting, topic: str) -> None:
        self._reader = Reader(setting.bootstrap, topic)
        self._taken = 0
        self._revisions: dict[str, int] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        self.corrections = 0
        self.retracts = 0

    def read(self) -> None:
        """What has come since."""
        self._reader.poll()
        for record in self._reader.records[self._taken :]:
            line = json.loads(record.value or b"")
            assert line["kind"] == self.kind
            assert (record.key or b"").decode() == line["id"]
            assert line["revision"] == self._revisions.get(line["id"], -1) + 1, line
            self.check(line)
            self._revisions[line["id"]] = line["revision"]
            self.corrections += line["op"] != "emit"
            if line["op"] == "retract":
                self.retracts += 1
                del self.lines[line["id"]]
            else:
                self.lines[line["id"]] = line
        self._taken = len(self._reader.records)

    def wait_until(self, true: Callable[[], bool], what: Callable[[], str]) -> None:
        """Until that holds of what has come."""
        patience = Patience()
        while not true():
            patience.look(self._taken, what)
            self.read()

    def check(self, line: dict[str, Any]) -> None:
        """What must hold of every line of this kind."""

    def close(self) -> None:
        self._reader.close()
