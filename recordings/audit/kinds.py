"""Find the sources that number only some of their records, such as all but their status messages.

A source is of the kind of most of its records: with numbers, or without. It has numbers if both
kinds are as many. A record of the other kind is unreadable alone, wherever it is.

Under `without_seq: by_time` the first record of a source decides, so a status message that comes
first would cost all numbers after it. That rule is proposed only if this happens to no source.

Memory: four numbers for each source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from recordings.audit.row import AuditRow
from topology.base.outcome import Malformed

ALONE: Final = (
    "only some records of its source have a number; number all of them, or name a field as source"
    " that tells both kinds apart: fields: {source: payload.NAME}"
)


@dataclass(slots=True)
class _Kind:
    """The records of one kind of one source; `first` is the offset of the first one."""

    first: int = 0
    count: int = 0


@dataclass(slots=True)
class Kinds:
    """The records of each source with a number (True) and without (False), the first kind first."""

    _of: dict[str, dict[bool, _Kind]] = field(default_factory=dict)

    def count(self, rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
        """Yield the rows, and count them."""
        for row in rows:
            kinds = self._of.setdefault(row.source, {})
            kinds.setdefault(row.seq is not None, _Kind(row.offset)).count += 1
            yield row

    def put(self, source: str, is_numbered: bool, first: int, count: int) -> None:
        """Put the number of records of a kind, and the offset of the first one."""
        self._of.setdefault(source, {})[is_numbered] = _Kind(first, count)

    def select(self, rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
        """Yield the rows that are of their source's kind."""
        return (row for row in rows if (row.seq is not None) == self.is_numbered(row.source))

    def find_faults(self) -> Iterator[Malformed]:
        """Yield a fault for each row that is not of its source's kind."""
        for source, kinds in self._of.items():
            if len(kinds) > 1:
                rare = kinds[not self.is_numbered(source)]
                fault = Malformed(0, rare.first, "seq_mixed", ALONE, source=source)
                yield from [fault] * rare.count

    def is_numbered(self, source: str) -> bool:
        """Return whether a source is of the kind with numbers."""
        counts = {is_numbered: kind.count for is_numbered, kind in self._of[source].items()}
        return counts.get(True, 0) >= counts.get(False, 0)

    @property
    def by_time(self) -> bool:
        """Whether every source with numbers keeps them under `without_seq: by_time`.

        The first record of a source decides there: if it has no number, the source keeps none.
        """
        return all(
            next(iter(kinds)) or not self.is_numbered(source) for source, kinds in self._of.items()
        )
