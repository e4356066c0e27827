"""JOURNAL: what of a state has changed since the last checkpoint.

Windows, joins and detectors have a `StateInParts`: they list their parts, say what each is, and
note each that changes. The whole state and its changes follow from that.

The sources of REORDER, CLOCK and MERGE are `Tracked` in a `Journal`: a source knows itself whether
it is noted already, so a mark costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from topology.model.kept import Tracked
from topology.model.native import mypyc_attr
from topology.model.operator import Changes, Plain, State

Part = tuple[str, int, str]
"""Kind, number and key."""
P = TypeVar("P", bound=Part | str)


@mypyc_attr(allow_interpreted_subclasses=True)
class StateInParts(Generic[P]):
    """A state in parts, each saved under a name of its own.

    `note` each part that was added, changed or removed. Nothing is kept of that before the first
    question for changes, which is answered with everything; so a run that never asks pays nothing.
    """

    def __init__(self, prefix: str = "") -> None:
        """`prefix`: of the names."""
        self._prefix = prefix
        self.is_asked = False
        self._changed: dict[P, None] = {}

    def parts(self) -> Iterable[P]:
        raise NotImplementedError

    def peek(self, part: P) -> Plain:
        """What is saved of it; None if there is no such part."""
        raise NotImplementedError

    def note(self, part: P) -> None:
        if self.is_asked:
            self._changed[part] = None

    def snapshot(self) -> State:
        return {self._prefix + name_of(part): self.peek(part) for part in self.parts()}

    def changes(self) -> Changes:
        """In the order in which they were first noted."""
        if not self.is_asked:
            self.is_asked = True
            return {**self.snapshot()}
        changed, self._changed = self._changed, {}
        return {self._prefix + name_of(part): self.peek(part) for part in changed}

    def restored(self) -> None:
        """All parts are there again as they were saved."""
        self.is_asked = True
        self._changed = {}


def name_of(part: Part | str) -> str:
    return part if isinstance(part, str) else f"{part[0]}/{part[1]}/{part[2]}"


def part_of(name: str) -> Part:
    kind, number, key = name.split("/", 2)
    return kind, int(number), key


T = TypeVar("T", bound=Tracked)


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
