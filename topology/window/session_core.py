"""Sessions, and the parts of them that are sure.

Two events belong together if at most `gap` lies between them, or if a chain of such events
joins them. Where times are not sure:

* A *core* is joined in every world. An event joins a core for sure if in no world it is
  farther than `gap` from what the core surely spans; two cores likewise. Joining only widens
  that span, so the cores do not depend on the order of arrival.
* A *session*, as it is emitted, is joined by reference times: that is one of the worlds, so it is
  a row of whole cores.
* An *envelope* is joined in some world. True sessions lie within envelopes and are rows of
  whole cores.

Where all three are one the session is sure. Without errors they always are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from topology.model.event import Event
from topology.model.kept import FLAG, INT, TEXT, ValueKind, record, tuple_of
from topology.window.aggregates.cell import merged
from topology.window.cells import AggregateRow, Makers, row_kind

Place = tuple[int, str, int, int]
"""Reference time, source, epoch, seq."""


@dataclass(slots=True, eq=False)
class Core:
    """A session of reference times `first`..`last`. It begins at `begins` at the latest and ends at
    `ends` at the earliest, in every world; `lower` and `upper` are the extremes over worlds.
    `head` is the first event's place in the order. `is_fresh`: it has changed since it was
    emitted."""

    head: Place
    last: int
    begins: int
    ends: int
    lower: int
    upper: int
    row: AggregateRow
    is_fresh: bool = True

    @property
    def first(self) -> int:
        return self.head[0]

    def joins(self, other: Core, gap_ns: int) -> bool:
        """In every world."""
        return other.begins - self.ends <= gap_ns and self.begins - other.ends <= gap_ns

    def take(self, other: Core) -> None:
        self.head = min(self.head, other.head)
        self.last = max(self.last, other.last)
        self.begins = min(self.begins, other.begins)
        self.ends = max(self.ends, other.ends)
        self.lower = min(self.lower, other.lower)
        self.upper = max(self.upper, other.upper)
        self.is_fresh = True
        self.row.merge(other.row)


def core_of(event: Event, error_ns: int, row: AggregateRow) -> Core:
    """Return the core of an event, which is in the row."""
    first = event.ref_time_ns
    head = first, event.source, event.epoch, event.seq
    lower, upper = first - error_ns, first + error_ns
    return Core(head, first, upper, lower, lower, upper, row)


def core_kind(makers: Makers) -> ValueKind:
    return record(
        Core,
        head=tuple_of(INT, TEXT, INT, INT),
        last=INT,
        begins=INT,
        ends=INT,
        lower=INT,
        upper=INT,
        row=row_kind(makers),
        is_fresh=FLAG,
    )


Cores = list[Core]
head_of: Final = attrgetter("head")


def sessions_of(cores: Sequence[Core], gap_ns: int) -> list[Cores]:
    """Return those joined by reference times, in their order."""
    if len(cores) == 1:
        return [[*cores]]
    rows: list[Cores] = []
    reach_ns = 0
    for core in sorted(cores, key=head_of):
        if rows and core.first <= reach_ns:
            rows[-1].append(core)
            reach_ns = max(reach_ns, core.last + gap_ns)
        else:
            rows.append([core])
            reach_ns = core.last + gap_ns
    return rows


def together(cores: Sequence[Core]) -> AggregateRow:
    row: AggregateRow = merged(cores[0].row, [core.row for core in cores[1:]])
    return row
