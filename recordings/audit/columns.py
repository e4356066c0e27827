"""Define the rows of a table as columns, which `recordings.audit.by_columns` counts.

An absent value is `NONE`. A table has one partition, and its rows have no digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from recordings.audit.row import AuditRow
from recordings.audit.spool import NONE
from topology.base.outcome import Malformed

if TYPE_CHECKING:
    from recordings.audit.by_columns.grouped import Ints

MAX_ROWS: Final = 2_000_000
"""The maximum number of rows that are kept as columns; longer files are read row by row.

It is at most `numbers.MAX_GAPS`, since a row opens one gap at most.
"""


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of a table that could be read, in order.

    Attributes:
        names: The names of the sources, in the order of their first rows.
        source: The index of each row's source in `names`.
        seq: The sequence numbers, or NONE.
        epoch: The epochs, or NONE.
        ts_ns: The reported timestamps.
        arrival_ns: The arrivals, or NONE.
        offset: The numbers of the rows in the file.
        faults: The rows that could not be read, in order.
    """

    names: list[str]
    source: Ints
    seq: Ints
    epoch: Ints
    ts_ns: Ints
    arrival_ns: Ints
    offset: Ints
    faults: tuple[Malformed, ...] = ()

    def __len__(self) -> int:
        return len(self.ts_ns)

    def rows(self, most: int | None = None) -> Iterator[AuditRow]:
        """Yield the rows that could be read, or only the first `most` of them."""
        columns = self.source, self.seq, self.epoch, self.ts_ns, self.arrival_ns, self.offset
        for source, seq, epoch, ts_ns, arrival_ns, offset in zip(
            *(column[:most].tolist() for column in columns), strict=True
        ):
            sent, of, came_ns = (None if n == NONE else n for n in (seq, epoch, arrival_ns))
            yield AuditRow(self.names[source], sent, of, ts_ns, came_ns, 0, offset)

    def select_kinds(self, is_numbered: Sequence[bool]) -> Columns:
        """Return the rows with a number of the sources that are numbered, and without of others.

        They have no offsets. Each source must have such a row.
        """
        import numpy as np

        kept = np.array(is_numbered)[self.source] == (self.seq != NONE)
        source = self.source[kept]
        known, first = np.unique(source, return_index=True)
        order = known[np.argsort(first)]
        index = np.empty(len(self.names), np.int64)
        index[order] = np.arange(len(order))
        names = [self.names[each] for each in order.tolist()]
        return Columns(
            names,
            index[source],
            self.seq[kept],
            self.epoch[kept],
            self.ts_ns[kept],
            self.arrival_ns[kept],
            np.zeros(len(source), np.int64),
        )
