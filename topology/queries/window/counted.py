"""Stores the events of one key for count windows, in order, and folds old events into a row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from topology.answer.frontier import FOR_EVER, NOT_YET
from topology.queries.window.cells import AggregateRow, Makers, row_kind
from topology.queries.window.results import CURRENT, Current
from topology.queries.window.unsure.event import UNSURE_EVENT, UnsureEvent
from topology.state.saved import BIG, FLAG, INT, TEXT, Shape, dict_of, list_of, tuple_of

Place = tuple[int, str, int, int]
"""The sort key of an event: corrected timestamp, source, epoch and sequence number."""


@dataclass(slots=True, eq=False)
class Counted:
    """The events of one key in a query with count windows.

    Attributes:
        folded: The number of folded events. They precede all kept events.
        row: The folded events of the newest window that has any.
        first_ns: The corrected timestamp of the first event in `row`.
        least_ns: The earliest possible time of the events in `row`.
        latest_ns: The latest possible time of the events in `row`.
        before_ns: The latest possible time of all events in earlier windows.
        kept: The events that are not folded, in order.
        floor: The sort key of the last folded event; no kept event precedes it.
        error_ns: The largest time error of any event that was added.
        emitted: The number of windows, from the first on, that have been emitted.
        current: The results of emitted windows that are not final, by window number.
        anew_from: The number of the first window that must be computed again.
        is_touched: Whether an event was added in the open instant.
    """

    size: int
    row: AggregateRow
    folded: int = 0
    first_ns: int = NOT_YET
    least_ns: int = FOR_EVER
    latest_ns: int = NOT_YET
    before_ns: int = NOT_YET
    kept: list[UnsureEvent] = field(default_factory=list)
    floor: Place = (NOT_YET, "", 0, 0)
    error_ns: int = 0
    emitted: int = 0
    current: dict[int, Current] = field(default_factory=dict)
    anew_from: int = 0
    is_touched: bool = False

    @property
    def full(self) -> int:
        """The number of full windows."""
        return (self.folded + len(self.kept)) // self.size

    def insert(self, event: UnsureEvent) -> None:
        """Insert an event in order, and mark the windows that this changes.

        The window of the event and all later windows now have other events. Earlier windows that
        may extend beyond the event are less certain.
        """
        at = bisect_right(self.kept, place(event), key=place)
        self.kept.insert(at, event)
        self.error_ns = max(self.error_ns, event.error_ns)
        number = (self.folded + at) // self.size
        reach_ns = earliest_time_of(event) - self.error_ns
        least = (self.folded + bisect_left(self.kept, reach_ns, key=ref_time)) // self.size
        unsure = (
            each for each in range(least, number) if self.latest(each) > earliest_time_of(event)
        )
        self.anew_from = min(self.anew_from, next(unsure, number))

    def members(self, number: int) -> Sequence[UnsureEvent]:
        """Return the kept events of the window; its folded events, if any, are in `row`."""
        start = number * self.size - self.folded
        return self.kept[max(0, start) : start + self.size]

    def latest(self, number: int) -> int:
        """Return the latest possible time of the window's events."""
        found = max([latest_time_of(event) for event in self.members(number)])
        return max(found, self.latest_ns) if self.has_folded(number) else found

    def has_folded(self, number: int) -> bool:
        return number * self.size < self.folded

    def first(self, number: int) -> int:
        """Return the corrected timestamp of the window's first event."""
        return self.first_ns if self.has_folded(number) else self.members(number)[0].ref_time_ns

    def row_of(self, number: int, makers: Makers) -> AggregateRow:
        row = self.row.copy() if self.has_folded(number) else makers.row()
        for event in self.members(number):
            row.add(event.values, event)
        return row

    def is_apart(self, number: int) -> bool:
        """Return whether no earlier or later event may belong between the window's events."""
        start = number * self.size - self.folded
        least_ns = min(earliest_time_of(event) for event in self.members(number))
        before_ns = self.before_ns
        if self.has_folded(number):
            least_ns = min(least_ns, self.least_ns)
        else:
            before_ns = max(before_ns, self.latest_ns)
        latest_ns = self.latest(number)
        near_before = bisect_left(self.kept, least_ns - self.error_ns, key=ref_time)
        near_behind = bisect_right(self.kept, latest_ns + self.error_ns, key=ref_time)
        return (
            before_ns <= least_ns
            and all(
                latest_time_of(event) <= least_ns
                for event in self.kept[near_before : max(0, start)]
            )
            and all(
                latest_ns <= earliest_time_of(event)
                for event in self.kept[start + self.size : near_behind]
            )
        )

    def count_passed(self, time_ns: int) -> int:
        """Return how many kept events, from the first on, are certainly before `time_ns`."""
        later = (at for at, event in enumerate(self.kept) if latest_time_of(event) >= time_ns)
        return next(later, len(self.kept))

    def fold(self, n: int, makers: Makers) -> None:
        """Fold the first `n` kept events into the row of their window."""
        for event in self.kept[:n]:
            if self.folded % self.size == 0:
                self.before_ns = max(self.before_ns, self.latest_ns)
                self.first_ns = event.ref_time_ns
                self.least_ns, self.latest_ns = FOR_EVER, NOT_YET
                self.row = makers.row()
            self.row.add(event.values, event)
            self.least_ns = min(self.least_ns, earliest_time_of(event))
            self.latest_ns = max(self.latest_ns, latest_time_of(event))
            self.folded += 1
            self.floor = place(event)
        del self.kept[:n]


def counted_shape(makers: Makers) -> Shape:
    return Shape(
        "window.counted",
        1,
        folded=INT,
        row=row_kind(makers),
        first_ns=BIG,
        least_ns=BIG,
        latest_ns=BIG,
        before_ns=BIG,
        error_ns=INT,
        kept=list_of(UNSURE_EVENT),
        floor=tuple_of(BIG, TEXT, INT, INT),
        emitted=INT,
        current=dict_of(INT, CURRENT),
        anew_from=INT,
        is_touched=FLAG,
    )


place: Final = attrgetter("ref_time_ns", "source", "epoch", "seq")
ref_time: Final = attrgetter("ref_time_ns")


def earliest_time_of(event: UnsureEvent) -> int:
    """Return an instant before all possible times of the event, or its time if that is certain."""
    return event.ref_time_ns - event.error_ns - (event.error_ns > 0)


def latest_time_of(event: UnsureEvent) -> int:
    return event.ref_time_ns + event.error_ns + (event.error_ns > 0)
