"""Stores a pane for each key and slice of time, and computes windows from panes.

Sliding windows share the work of adding up their slices (`Sums`), by the method of two stacks. For
each slice before a turning point, a key has the sum from that slice up to the point. For the slices
after it, the key has one sum that begins at the point. A window merges one sum of each side,
whatever the number of its slices. When windows begin after the turning point, the end of the
requested window becomes the new one. So each slide costs a key three merges on average, not one per
slice of the window.

Aggregates need only a merge, not an inverse, which min and max do not have. If a late event changes
a sum, all sums of its key are computed again. Memory: at most one row per pane. The sums are
derived from the panes, so they are not part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.queries.window.aggregates.cell import merge_cells
from topology.queries.window.cells import AggregateRow, CellsKind, Makers, RowCells, Values
from topology.queries.window.slices import Slices
from topology.queries.window.unsure.event import UNSURE_EVENT, Span, UnsureEvent, make_unsure
from topology.queries.window.unsure.measure import Measure, Measured
from topology.state.saved import FLAG, INT, ValueKind, list_of, optional, record
from topology.state.tables import Grid, NumberAndKey


@mypyc_attr(acyclic=True)
class Pane(AggregateRow):
    """The events of a key in a slice: a row of those certainly in it, and the `unsure` ones.

    Each uncertain event is in the panes of all slices that it may be in. A pane becomes `blurred`
    when it has more than `max_edge_events` uncertain events. Then those with a corrected timestamp
    in the slice are added to the row, and the others are forgotten.
    """

    __slots__ = ("blurred", "unsure")

    def __init__(
        self,
        cells: RowCells,
        events: int = 0,
        unsure: list[UnsureEvent] | None = None,
        blurred: bool = False,
    ) -> None:
        self.cells = cells
        self.events = events
        self.unsure = unsure
        self.blurred = blurred

    def add_unsure(self, event: Event, values: Values, span: Span, most: int) -> None:
        if self.blurred:
            if span[0] <= event.ref_time_ns < span[1]:
                self.add(values, event)
            return
        if self.unsure is None:
            self.unsure = []
        self.unsure.append(make_unsure(event, values))
        if len(self.unsure) > most:
            self.blur(span)

    def blur(self, span: Span) -> None:
        for event in self.unsure or ():
            if event.is_inside(span):
                self.add(event.values, event)
        self.unsure = None
        self.blurred = True


def pane_kind(makers: Makers) -> ValueKind:
    unsure = optional(list_of(UNSURE_EVENT))
    return record(Pane, cells=CellsKind(makers), events=INT, unsure=unsure, blurred=FLAG)


Held = list[tuple[int, Pane]]
"""The panes of one key in one window, each with the start of its slice, ascending."""


class Panes(Grid[Pane]):
    """A table of a query's panes by slice and key; other classes may read `by_number`."""

    def __init__(self, makers: Makers, measure: Measure, slices: Slices) -> None:
        super().__init__("pane/", pane_kind(makers))
        self._makers = makers
        self._measure = measure
        self._slices = slices
        self._sums: dict[str, Sums] = {}
        self._is_sliding = slices.size_ns != slices.every_ns
        self._held_from_ns: int | None = None
        self._held: list[int] = []
        self.count = 0

    def open(self, slice_ns: int, key: str) -> Pane:
        pane = Pane(self._makers.fresh())
        self.put((slice_ns, key), pane)
        return pane

    def put(self, key: NumberAndKey, row: Pane) -> None:
        keys = self.by_number.get(key[0])
        if keys is None:
            keys = self.by_number[key[0]] = {}
            self._held_from_ns = None
        keys[key[1]] = row
        self.count += 1

    def drop(self, slice_ns: int) -> Iterable[str]:
        """Forget the panes of a slice, and return their keys."""
        keys = self.by_number.pop(slice_ns)
        self.count -= len(keys)
        self._held_from_ns = None
        return keys

    def drop_sums(self, key: str) -> None:
        """Forget the sums of a key, because one of its panes in emitted windows has changed."""
        self._sums.pop(key, None)

    def forget_closed(self, closed_ns: int) -> None:
        """Forget the sums of windows closed long ago, which only corrections might still read."""
        time_ns = closed_ns - 2 * self._slices.size_ns
        for key in [key for key, sums in self._sums.items() if sums.start_ns < time_ns]:
            del self._sums[key]

    def keys(self, start_ns: int) -> Iterable[str]:
        """Return the keys that have a pane in the window that starts at `start_ns`."""
        found: set[str] = set()
        for slice_ns in self._within(start_ns):
            found.update(self.by_number[slice_ns])
        return found

    def _within(self, start_ns: int) -> list[int]:
        """Return the slices of the window that have panes, ascending."""
        if not self._is_sliding:
            return [start_ns] if start_ns in self.by_number else []
        if self._held_from_ns != start_ns:
            self._held = self._slices.find_held(self.by_number, start_ns)
            self._held_from_ns = start_ns
        return self._held

    def measure(self, start_ns: int, key: str) -> Measured | None:
        """Return the values of a window, or None if no event can belong to it."""
        end_ns = self._slices.end(start_ns)
        held: Held = []
        certain = 0
        is_blurred = has_unsure = False
        for slice_ns in self._within(start_ns):
            pane = self.by_number[slice_ns].get(key)
            if pane is not None:
                held.append((slice_ns, pane))
                certain += pane.events
                is_blurred = is_blurred or pane.blurred
                has_unsure = has_unsure or pane.unsure is not None
        if not held:
            return None
        unsure = find_distinct(held) if has_unsure else []
        if not certain and not self._measure.is_possible(unsure, (start_ns, end_ns)):
            return None
        row = self._row_of(key, held, start_ns, end_ns)
        if is_blurred:
            return self._measure.measure_blurred(row, self._own(held))
        if unsure:
            return self._measure.span(row, unsure, (start_ns, end_ns))
        return self._measure.plain(row)

    def _row_of(self, key: str, held: Held, start_ns: int, end_ns: int) -> AggregateRow:
        """Return the key's row in [start, end), computed from `held`, the key's panes there."""
        if not self._is_sliding:
            return held[0][1]
        sums = self._sums.get(key)
        # An old window that is emitted again is computed from its panes.
        if sums is not None and start_ns < sums.start_ns:
            together: AggregateRow = merge_cells(held[0][1], [row for _, row in held[1:]])
            return together
        if sums is None or start_ns >= sums.turn_ns:
            sums = self._sums[key] = Sums(held, start_ns, end_ns)
        return sums.window(held, start_ns, end_ns)

    def _own(self, held: Held) -> list[UnsureEvent]:
        """Return each uncertain event whose corrected timestamp is in one of the panes' slices."""
        return [
            event
            for slice_ns, pane in held
            for event in pane.unsure or ()
            if event.is_inside((slice_ns, self._slices.after(slice_ns)))
        ]


def find_distinct(held: Held) -> list[UnsureEvent]:
    """Return the uncertain events of the panes, each once, even if several panes contain it."""
    found = {event.number: event for _, pane in held for event in pane.unsure or ()}
    return list(found.values())


@mypyc_attr(acyclic=True)
class Sums:
    """The running sums of one key.

    `front` has the sums from each slice to `turn_ns`, in descending order of slices. `back` is the
    sum from `turn_ns` to `end_ns`.
    """

    __slots__ = ("back", "end_ns", "front", "start_ns", "turn_ns")

    def __init__(self, slices: Held, start_ns: int, end_ns: int) -> None:
        self.front: list[tuple[int, AggregateRow]] = []
        self.back: AggregateRow | None = None
        self.start_ns = start_ns
        self.turn_ns = self.end_ns = end_ns
        for slice_ns, row in reversed(slices):
            grown = row.copy()
            if self.front:
                grown.merge(self.front[-1][1])
            self.front.append((slice_ns, grown))

    def window(self, slices: Held, start_ns: int, end_ns: int) -> AggregateRow:
        """Return the key's row in [start, end); neither bound may be less than in earlier calls.

        The caller must not change the row.
        """
        self.start_ns = start_ns
        for slice_ns, row in slices:
            if slice_ns >= self.end_ns:
                if self.back is None:
                    self.back = row.copy()
                else:
                    self.back.merge(row)
        self.end_ns = end_ns
        while self.front and self.front[-1][0] < start_ns:
            self.front.pop()
        if not self.front:
            return self.back or slices[0][1]
        if self.back is None:
            return self.front[-1][1]
        together = self.front[-1][1].copy()
        together.merge(self.back)
        return together
