"""SOURCES: a bounded table of the sources that an operator knows.

When a source is added, sources that have been silent for `forget_after_ns` are forgotten. If the
table is still full, the source that has been silent longest is forgotten. A forgotten source that
sends again is treated as new. A busy source holds events and is not forgotten. So a table of busy
sources grows beyond its bound. The operator that holds the events limits their number.

Cost: a known source costs one lookup, and one comparison to record that it has changed. To forget a
source costs O(log sources), amortized. For this, the table stores one name for each source until
the first source is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from topology.base.idle import LongestIdle
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER, Changes
from topology.state.saved import Saved, ValueKind
from topology.state.tables import Table


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class KnownSource(Saved):
    """A source that an operator knows. Each operator has a subclass with more fields.

    Attributes:
        source: The name of the source, which is the key of its row.
        last_arrival_ns: The arrival time of its latest input.
        dirty: Whether the row is recorded as changed. Only the table sets this.
    """

    __slots__ = ("dirty", "last_arrival_ns", "source")

    def __init__(self, source: str, last_arrival_ns: int) -> None:
        self.source = source
        self.last_arrival_ns = last_arrival_ns
        self.dirty = False

    def busy(self) -> bool:
        """Return whether the source holds events, so that it must not be forgotten."""
        return False


S = TypeVar("S", bound=KnownSource)


@mypyc_attr(allow_interpreted_subclasses=True)
class SourceTable(Table[str, S]):
    """A table of sources by name.

    An owner reads `rows` directly. It adds a source by `add(row)`, and calls `mark(row)` after each
    change of a field, so that the next checkpoint writes the row. The shape of the rows includes
    `last_arrival_ns`, but not the name, which is the key. `Sources` in
    `topology.answer.waiting.sources` is a short example.
    """

    source_at = 0

    def __init__(
        self,
        prefix: str,
        kind: ValueKind,
        make: Callable[[str], S],
        max_sources: int,
        forget_after_ns: int = NEVER,
        rows: dict[str, S] | None = None,
    ) -> None:
        """Make an empty table. `make` returns the row of a source without any history."""
        super().__init__(prefix, kind, rows)
        self._make = make
        self.forgotten = 0
        self._max_sources = max_sources
        self._forget_after_ns = forget_after_ns
        self._longest_idle = LongestIdle(self.rows)

    def fresh(self, key: str) -> S:
        return self._make(key)

    def make_source(self, source: str, at_ns: int) -> S:
        """Return a new row for a source that is not in the table; the caller adds the row."""
        row = self._make(source)
        row.last_arrival_ns = at_ns
        return row

    def add(self, row: S) -> list[S]:
        """Add a new source, record it as changed, and return the sources that are forgotten."""
        self.put(row.source, row)
        silent_since_ns = row.last_arrival_ns - self._forget_after_ns
        forgotten: list[S] = []
        while True:
            before_ns = NEVER if len(self.rows) > self._max_sources else silent_since_ns
            longest = self._longest_idle.pop_longest(row.source, before_ns)
            if longest is None:
                self.forgotten += len(forgotten)
                self.mark(row)
                return forgotten
            forgotten.append(self.rows[longest])
            self.forget(longest)

    def put(self, key: str, row: S) -> None:
        """Add a source from a restored state."""
        self.rows[key] = row
        self._longest_idle.note(key, row.last_arrival_ns)

    @property
    def has_changes(self) -> bool:
        """Whether a source has changed since the last checkpoint."""
        return bool(self._changed)

    def iter_changed(self) -> Iterator[S]:
        """Yield the sources that have changed since the last checkpoint and are still known."""
        for key in self._changed:
            row = self.rows.get(key)
            if row is not None:
                yield row

    def mark(self, row: S) -> None:
        """Record that a source's row has changed."""
        if not row.dirty:
            row.dirty = True
            self.note(row.source)

    def changes(self) -> Changes:
        """Return the rows that have changed since the last call, or all rows on the first call."""
        for key in self._changed if self.is_followed else self.rows:
            row = self.rows.get(key)
            if row is not None:
                row.dirty = False
        return super().changes()
