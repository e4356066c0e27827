"""The events of one key as a count window sees them: in order, some already folded away."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from topology.answer.frontier import FOR_EVER, NOT_YET
from topology.model.kept import BIG, FLAG, INT, TEXT, Shape, dict_of, list_of, tuple_of
from topology.window.cells import AggregateRow, Makers, row_kind
from topology.window.results import CURRENT, Current
from topology.window.unsure.event import UNSURE_EVENT, UnsureEvent

Place = tuple[int, str, int, int]
"""Reference time, source, epoch, seq."""


@dataclass(slots=True, eq=False)
class Counted:
    """The events of one key. `folded` of them are final; those of the window that is not full yet
    are in `row`, its `first_ns` is when its first one was, `least_ns` and `latest_ns` are when they
    may have been at the earliest and latest, `before_ns` the latest of all windows before. `kept`
    are the other events, in order; none is below `floor`, and no error is larger than `error_ns`.
    All windows before `emitted` have been emitted; `current` are those results that are not final.
    `anew_from`: the first window to look at."""

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
        """So many windows are full."""
        return (self.folded + len(self.kept)) // self.size

    def insert(self, event: UnsureEvent) -> None:
        """At its place: the windows from there on are others now, and those before that may
        have been later are less sure."""
        at = bisect_right(self.kept, place(event), key=place)
        self.kept.insert(at, event)
        self.error_ns = max(self.error_ns, event.error_ns)
        number = (self.folded + at) // self.size
        reach_ns = earliest(event) - self.error_ns
        least = (self.folded + bisect_left(self.kept, reach_ns, key=ref_time)) // self.size
        unsure = (each for each in range(least, number) if self.latest(each) > earliest(event))
        self.anew_from = min(self.anew_from, next(unsure, number))

    def members(self, number: int) -> Sequence[UnsureEvent]:
        """Those kept; of the first window the folded ones come before."""
        start = number * self.size - self.folded
        return self.kept[max(0, start) : start + self.size]

    def latest(self, number: int) -> int:
        """When the last of the window's events may have been."""
        found = max([latest(event) for event in self.members(number)])
        return max(found, self.latest_ns) if self.has_folded(number) else found

    def has_folded(self, number: int) -> bool:
        return number * self.size < self.folded

    def first(self, number: int) -> int:
        """When its first event was."""
        return self.first_ns if self.has_folded(number) else self.members(number)[0].ref_time_ns

    def row_of(self, number: int, makers: Makers) -> AggregateRow:
        row = self.row.copy() if self.has_folded(number) else makers.row()
        for event in self.members(number):
            row.add(event.values, event)
        return row

    def is_apart(self, number: int) -> bool:
        """Whether its events certainly come after all before them and before all behind."""
        start = number * self.size - self.folded
        least_ns = min(earliest(event) for event in self.members(number))
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
            and all(latest(event) <= least_ns for event in self.kept[near_before : max(0, start)])
            and all(
                latest_ns <= earliest(event) for event in self.kept[start + self.size : near_behind]
            )
        )

    def passed(self, time_ns: int) -> int:
        """How many of the kept, from the first on, were certainly before."""
        later = (at for at, event in enumerate(self.kept) if latest(event) >= time_ns)
        return next(later, len(self.kept))

    def fold(self, n: int, makers: Makers) -> None:
        """The first `n` kept ones are final."""
        for event in self.kept[:n]:
            if self.folded % self.size == 0:
                self.before_ns = max(self.before_ns, self.latest_ns)
                self.first_ns = event.ref_time_ns
                self.least_ns, self.latest_ns = FOR_EVER, NOT_YET
                self.row = makers.row()
            self.row.add(event.values, event)
            self.least_ns = min(self.least_ns, earliest(event))
            self.latest_ns = max(self.latest_ns, latest(event))
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


def earliest(event: UnsureEvent) -> int:
    """Before all times it may have had; that very time where it is sure."""
    return event.ref_time_ns - event.error_ns - (event.error_ns > 0)


def latest(event: UnsureEvent) -> int:
    return event.ref_time_ns + event.error_ns + (event.error_ns > 0)
