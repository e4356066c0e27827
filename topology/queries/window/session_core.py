"""Defines sessions and their cores, which are the certain parts of sessions.

Two events belong to one session if they are at most `gap` apart, or if a chain of such events
connects them. A possible world is one choice of event times within their errors. If times are
uncertain, these differ:

* A *core* is a set of events that are in one session in every world. An event certainly joins a
  core if no world puts it farther than `gap` from the span that the core certainly covers. Two
  cores are merged by the same rule. Merging only widens that span, so cores do not depend on the
  order of arrival.
* A *session*, as it is emitted, is connected by corrected timestamps. That is one of the worlds, so
  a session consists of whole cores.
* An *envelope* is connected in some world. The true sessions are parts of envelopes, and consist of
  whole cores.

If all three are the same, the session is certain. Without time errors they always are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.queries.window.aggregates.cell import merge_cells
from topology.queries.window.cells import AggregateRow, Makers, row_kind
from topology.state.saved import FLAG, INT, TEXT, ValueKind, record, tuple_of

Place = tuple[int, str, int, int]
"""The sort key of an event: corrected timestamp, source, epoch and sequence number."""


@mypyc_attr(acyclic=True)
@dataclass(slots=True, eq=False)
class Core:
    """A set of events that are in one session in every possible world.

    Attributes:
        head: The sort key of the first event.
        last: The latest corrected timestamp.
        begins: The latest time at which the core begins in any world.
        ends: The earliest time at which the core ends in any world.
        lower: The earliest possible time of the events.
        upper: The latest possible time of the events.
        row: The row with the values of the events.
        is_fresh: Whether it is new, or has changed since its last emission in a closed session.
    """

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
        """Return whether the two cores are in one session in every world."""
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
    """Return a core of one event; `row` has the values of the event."""
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
    """Return the sessions by corrected timestamps, in order, each as a list of its cores."""
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


def merge_rows(cores: Sequence[Core]) -> AggregateRow:
    row: AggregateRow = merge_cells(cores[0].row, [core.row for core in cores[1:]])
    return row
