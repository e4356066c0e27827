"""The results that are events of a reader, as long as they may change: no log has them, so they
are part of its state, each written once when it comes and once when it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from topology.answer.frontier import NOT_YET
from topology.detector import result_event
from topology.detector.item import LogEntry
from topology.model.kept import Table, ValueKind, Written
from topology.model.operator import Plain


class KeptResult(NamedTuple):
    key_text: str
    entry: LogEntry


class SavedResult(ValueKind):
    """The kind of such results."""

    def dump(self, value: KeptResult) -> Plain:
        return result_event.dump(value.key_text, value.entry.key, value.entry.seen)

    def load(self, plain: Plain, written: Written | None, owner: Any, field: str) -> KeptResult:
        key_text, key, seen = result_event.load(plain)
        return KeptResult(key_text, LogEntry(seen, None, key, field))


class ResultLog(Table[str, KeptResult]):
    """By name (`result_event`)."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix, SavedResult("result", is_plain=False))

    def keep(self, name: str, key_text: str, entry: LogEntry) -> None:
        self.put(name, KeptResult(key_text, entry))
        self.note(name)

    def let_go(self, entries: Iterable[LogEntry]) -> None:
        """These are held no more; others among them are no results, or were replaced since."""
        for entry in entries:
            if entry.name:
                kept = self.find(entry.name)
                if kept is not None and kept.entry is entry:
                    self.forget(entry.name)

    @property
    def newest_ns(self) -> int:
        return max((kept.entry.key[0] for kept in self.rows.values()), default=NOT_YET)
