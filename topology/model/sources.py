"""SOURCES: keeps the sources that an operator knows in a bounded table.

A source is forgotten, and would start again, for one of two reasons. It has been silent for
`forget_after_ns` when a new one comes, or it has been silent longest when the table is full. A busy
source holds events and stays, so a table of busy sources grows past its bound. The operator that
holds the events bounds them.

Cost: a known source costs one look-up, and one comparison to record that it has changed. To forget
a source costs O(log sources), amortised. Before the first is forgotten, the table keeps one name a
source for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from topology.model.idle import LongestIdle
from topology.model.kept import Kept, ValueKind
from topology.model.native import mypyc_attr
from topology.model.operator import NEVER, Changes
from topology.model.tables import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class KnownSource(Kept):
    """A source that an operator knows. Each operator has a subclass with more fields.

    Attributes:
        source: Its name, and the key of its row.
        last_arrival_ns: When it was last heard.
        dirty: Whether it is recorded as changed. Only its table sets this.
    """

    __slots__ = ("dirty", "last_arrival_ns", "source")

    def __init__(self, source: str, last_arrival_ns: int) -> None:
        self.source = source
        self.last_arrival_ns = last_arrival_ns
        self.dirty = False

    def busy(self) -> bool:
        """Return whether it holds events, so that it may not be forgotten."""
        return False


S = TypeVar("S", bound=KnownSource)


@mypyc_attr(allow_interpreted_subclasses=True)
class SourceTable(Table[str, S]):
    """A table of sources by name.

    An owner reads `rows` directly. It adds a source by `add(row)`, and calls `mark(row)` after each
    change of a field, so that the next checkpoint writes the row. The shape of the rows has
    `last_arrival_ns`, but not the name, which is the key of the row. `Sources` of
    `topology.waiting.sources` is a short example.
    """

    def __init__(
        self,
        prefix: str,
        kind: ValueKind,
        make: Callable[[str], S],
        max_sources: int,
        forget_after_ns: int = NEVER,
        rows: dict[str, S] | None = None,
    ) -> None:
        """Make an empty table. `make` makes the row of a source about which nothing is known."""
        super().__init__(prefix, kind, rows)
        self._make = make
        self.forgotten = 0
        self._max_sources = max_sources
        self._forget_after_ns = forget_after_ns
        self._longest_idle = LongestIdle()

    def fresh(self, key: str) -> S:
        return self._make(key)

    def first_heard(self, source: str, at_ns: int) -> S:
        """Return a row for a source that is not in the table, to be added."""
        row = self._make(source)
        row.last_arrival_ns = at_ns
        return row

    def add(self, row: S) -> list[S]:
        """Add and mark a source that was not known, and return the sources that are forgotten."""
        self.put(row.source, row)
        silent_since_ns = row.last_arrival_ns - self._forget_after_ns
        forgotten: list[S] = []
        while True:
            before_ns = NEVER if len(self.rows) > self._max_sources else silent_since_ns
            longest = self._longest_idle.longest(self.rows, row.source, before_ns)
            if longest is None:
                self.forgotten += len(forgotten)
                self.mark(row)
                return forgotten
            forgotten.append(self.rows[longest])
            self.forget(longest)

    def put(self, key: str, row: S) -> None:
        """Add a source that a state names."""
        self.rows[key] = row
        self._longest_idle.note(key, row.last_arrival_ns)

    @property
    def has_changes(self) -> bool:
        """Whether a source has changed since the last checkpoint."""
        return bool(self._changed)

    def mark(self, row: S) -> None:
        """Record that a source has changed."""
        if not row.dirty:
            row.dirty = True
            self.note(row.source)

    def changes(self) -> Changes:
        """Return what has changed since the last call; all rows the first time."""
        for key in self._changed if self.is_followed else self.rows:
            row = self.rows.get(key)
            if row is not None:
                row.dirty = False
        return super().changes()
