"""The results that are events of a reader, as long as they may change: no log has them, so they
are part of its state, each written once when it comes and once when it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from topology.answer.frontier import NOT_YET
from topology.detector import result_event
from topology.detector.item import LogEntry
from topology.model.journal import StateInParts
from topology.model.operator import Plain


class KeptResult(NamedTuple):
    key_text: str
    entry: LogEntry


class ResultLog(StateInParts[str]):
    """By name (`result_event`)."""

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        self._kept: dict[str, KeptResult] = {}

    def get(self, name: str) -> KeptResult | None:
        return self._kept.get(name)

    def keep(self, name: str, key_text: str, entry: LogEntry) -> None:
        self._kept[name] = KeptResult(key_text, entry)
        self.note(name)

    def forget(self, name: str) -> None:
        del self._kept[name]
        self.note(name)

    def let_go(self, entries: Iterable[LogEntry]) -> None:
        """These are held no more; others among them are no results, or were replaced since."""
        for entry in entries:
            if entry.name:
                kept = self._kept.get(entry.name)
                if kept is not None and kept.entry is entry:
                    self.forget(entry.name)

    @property
    def newest_ns(self) -> int:
        return max((kept.entry.key[0] for kept in self._kept.values()), default=NOT_YET)

    # -- state -------------------------------------------------------------------------------------

    def parts(self) -> Iterable[str]:
        return self._kept

    def peek(self, part: str) -> Plain:
        kept = self._kept.get(part)
        if kept is None:
            return None
        return result_event.dump(kept.key_text, kept.entry.key, kept.entry.seen)

    def load(self, name: str, plain: Plain) -> tuple[str, LogEntry]:
        key_text, key, seen = result_event.load(plain)
        entry = LogEntry(seen, None, key, name)
        self._kept[name] = KeptResult(key_text, entry)
        return key_text, entry
