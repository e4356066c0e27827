"""What is known of one key in one slice of time."""

from __future__ import annotations

from topology.model.event import Event
from topology.model.operator import Plain
from topology.window.aggregates.cell import Placed
from topology.window.cells import Makers
from topology.window.reading import Columns, Values
from topology.window.row import AggregateRow
from topology.window.unsure.event import UnsureEvent, loaded, unsure_of


class Pane:
    """`row` holds what is certainly in the slice, `n` events, and `unsure` what may be: each
    such event is in the panes of all slices that it may be in. Once more than `max_edge_events`
    were unsure the pane is `blurred`: those inside by reference time are in the row, the others
    forgotten."""

    __slots__ = ("blurred", "n", "row", "unsure")

    def __init__(self, row: AggregateRow) -> None:
        self.row = row
        self.unsure: list[UnsureEvent] | None = None
        self.blurred = False
        self.n = 0

    @property
    def is_plain(self) -> bool:
        """Nothing of it is unsure."""
        return self.unsure is None and not self.blurred

    def add(self, event: Placed, values: Values) -> None:
        self.row.add(values, event)
        self.n += 1

    def take(self, columns: Columns) -> None:
        """As `add`, of many; its row is a tally."""
        self.row.take(columns.n, columns.values)
        self.n += columns.n

    def add_unsure(self, event: Event, values: Values, span_ns: tuple[int, int], most: int) -> None:
        if self.blurred:
            if span_ns[0] <= event.ref_time_ns < span_ns[1]:
                self.add(event, values)
            return
        if self.unsure is None:
            self.unsure = []
        self.unsure.append(unsure_of(event, values))
        if len(self.unsure) > most:
            self.blur(span_ns)

    def blur(self, span_ns: tuple[int, int]) -> None:
        for event in self.unsure or ():
            if event.is_inside(*span_ns):
                self.add(event, event.values)
        self.unsure = None
        self.blurred = True

    def dump(self) -> Plain:
        unsure = [event.dump() for event in self.unsure or ()]
        return [self.n, self.row.dump(), unsure, self.blurred]


def restored(state: Plain, makers: Makers) -> Pane:
    n, row, unsure, blurred = state
    pane = Pane(makers.load(row))
    pane.n = n
    pane.unsure = [loaded(event) for event in unsure] or None
    pane.blurred = blurred
    return pane
