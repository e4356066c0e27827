"""JOURNAL: what of a state has changed since the last checkpoint.

A source of REORDER, CLOCK and MERGE knows itself whether it is noted already, so a mark costs one
comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from topology.model.sources import KnownSource

T = TypeVar("T", bound=KnownSource)


class Journal(Generic[T]):
    """`table`: the sources by name."""

    __slots__ = ("_changed", "_removed", "_table")

    def __init__(self, table: dict[str, T]) -> None:
        self._table = table
        self._changed: list[T] = []
        self._removed: list[str] = []

    def mark(self, one: T) -> None:
        if not one.dirty:
            one.dirty = True
            self._changed.append(one)

    def forget(self, keys: Iterable[str]) -> None:
        """These keys of the state are no more."""
        self._removed += keys

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def take_removed(self) -> dict[str, None]:
        removed = dict.fromkeys(self._removed)
        self._removed.clear()
        return removed

    def take_changed(self) -> list[T]:
        """Those that are still in the table."""
        changed = []
        for one in self._changed:
            one.dirty = False
            if self._table.get(one.source) is one:
                changed.append(one)
        self._changed.clear()
        return changed
