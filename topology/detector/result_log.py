"""The results that are events of a reader, as long as they may change: no log has them, so they
are part of its state, each written once when it comes and once when it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from topology.answer.frontier import NOT_YET
from topology.detector import result_event
from topology.detector.item import LogEntry
from topology.model.operator import Changes, Plain, State


class KeptResult(NamedTuple):
    key_text: str
    entry: LogEntry


class ResultLog:
    """By name (`result_event`)."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptResult] = {}
        self._changed: dict[str, None] = {}
        self._is_asked = False

    def get(self, name: str) -> KeptResult | None:
        return self._kept.get(name)

    def keep(self, name: str, key_text: str, entry: LogEntry) -> None:
        self._kept[name] = KeptResult(key_text, entry)
        self._note(name)

    def forget(self, name: str) -> None:
        del self._kept[name]
        self._note(name)

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

    def _note(self, name: str) -> None:
        if self._is_asked:
            self._changed[name] = None

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return {name: _dumped(kept) for name, kept in self._kept.items()}

    def changes(self) -> Changes:
        if not self._is_asked:
            self._is_asked = True
            return {**self.snapshot()}
        changes: Changes = {}
        for name in self._changed:
            kept = self._kept.get(name)
            changes[name] = None if kept is None else _dumped(kept)
        self._changed = {}
        return changes

    def load(self, name: str, plain: Plain) -> tuple[str, LogEntry]:
        self._is_asked = True
        key_text, key, seen = result_event.load(plain)
        entry = LogEntry(seen, None, key, name)
        self._kept[name] = KeptResult(key_text, entry)
        return key_text, entry


def _dumped(kept: KeptResult) -> Plain:
    return result_event.dump(kept.key_text, kept.entry.key, kept.entry.seen)
