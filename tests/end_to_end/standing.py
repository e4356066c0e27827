"""Reduce a results topic to its current results: the newest record of each id."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from typing import Any, ClassVar, Self

from tests.end_to_end.records import Reader
from tests.end_to_end.setting import Setting
from tests.waiting import Patience

TOPICS = {"window": "windows", "match": "matches", "join": "joins"}


class StandingResults:
    """Current results; `lines` are by id, without retracted ones.

    Each revision must follow the one before.
    """

    kind: ClassVar[str]

    def __init__(self, setting: Setting) -> None:
        topic = getattr(setting.topology.topics, TOPICS[self.kind])
        self._reader = Reader(setting.bootstrap, topic)
        self._taken = 0
        self._revisions: dict[str, int] = {}
        self.lines: dict[str, dict[str, Any]] = {}
        self.corrections = 0
        self.retracts = 0

    def read(self) -> None:
        """Read the records that have arrived since the last call."""
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
        """Wait until the condition holds for the records read."""
        patience = Patience()
        while not true():
            patience.look(self._taken, what)
            self.read()

    def await_same(
        self,
        found: Callable[[], Set[Any]],
        must: Set[Any],
        may: Set[Any] = frozenset(),
    ) -> None:
        """Wait until all of `must` is found, and nothing that is in neither `must` nor `may`."""

        def faults() -> list[tuple[str, Any]]:
            there = found()
            lacks = [("lacks", each) for each in must - there]
            return lacks + [("has", each) for each in there - must - may]

        self.wait_until(
            lambda: not faults(),
            lambda: f"{len(must)} results, with {len(faults())} faults like {faults()[:4]}",
        )

    def check(self, line: dict[str, Any]) -> None:
        """Assert what holds for every line of this kind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
