"""Count rows as plain jobs do: per tumbling window under a watermark, for several bounds.

The watermark of a job is the largest timestamp read minus its bound, and moves at each record. A
row is dropped if the end of its window is at or below the watermark before the row. Every other
row counts, even a duplicate. The truth counts each number once, in the window of its own timestamp;
among duplicates the first one counts. A window is wrong if its count differs from the truth: if its
number of duplicates differs from its number of dropped rows.

Memory: three counts for each window and bound, for up to `MAX_WINDOWS` windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from recordings.audit.row import ONE_ORDER, OrderRule

MAX_WINDOWS: Final = 1_000_000
NEVER_NS: Final = -(1 << 63)


class TooManyWindows(Exception):
    """The error of times that span more windows than can be stored."""


class JobFigures(NamedTuple):
    """The errors of one job.

    Attributes:
        wrong: The number of wrong windows.
        rows_dropped: The number of dropped rows.
        copies_counted: The number of duplicates that counted.
        wrong_by_drops: The number of wrong windows with dropped rows. Windows may also be in
            `wrong_by_copies`.
        wrong_by_copies: The number of wrong windows with duplicates that counted.
    """

    wrong: int
    rows_dropped: int
    copies_counted: int
    wrong_by_drops: int
    wrong_by_copies: int


class PlainJobs:
    """Jobs over windows of `length_ns`, one for each of the ascending bounds."""

    def __init__(
        self, length_ns: int, bounds_ns: tuple[int, ...], order: OrderRule = ONE_ORDER
    ) -> None:
        self.length_ns = length_ns
        self.bounds_ns = bounds_ns
        self.truth: dict[int, int] = {}
        """The true count of each window, by window number (`ts_ns // length_ns`)."""
        self.copies: Counter[int] = Counter()
        self.dropped: tuple[Counter[int], ...] = tuple(Counter() for _ in bounds_ns)
        self._copies_dropped: tuple[Counter[int], ...] = tuple(Counter() for _ in bounds_ns)
        self._apart = order.apart
        self._newest_ns = dict.fromkeys(order.partitions, NEVER_NS)
        self._least_ns = NEVER_NS

    def take(self, ts_ns: int, partition: int, *, copy: bool) -> int:
        """Count a row, and return how many jobs drop it: those with the smallest bounds."""
        window = ts_ns // self.length_ns
        if copy:
            self.copies[window] += 1
        elif window in self.truth:
            self.truth[window] += 1
        else:
            if len(self.truth) >= MAX_WINDOWS:
                raise TooManyWindows
            self.truth[window] = 1
        dropping = 0
        newest_ns = self._least_ns
        if newest_ns > ts_ns:
            behind_ns = newest_ns - (window + 1) * self.length_ns
            for at, bound_ns in enumerate(self.bounds_ns):
                if bound_ns > behind_ns:
                    break
                self.dropped[at][window] += 1
                if copy:
                    self._copies_dropped[at][window] += 1
                dropping += 1
        if not self._apart:
            if ts_ns > newest_ns:
                self._least_ns = ts_ns
        elif ts_ns > self._newest_ns[partition]:
            self._newest_ns[partition] = ts_ns
            self._least_ns = min(self._newest_ns.values())
        return dropping

    def put(
        self,
        truth: dict[int, int],
        copies: Counter[int],
        dropped: Iterable[Counter[int]],
        copies_dropped: Iterable[Counter[int]],
    ) -> None:
        """Put the counts of all rows by window, and the dropped ones for each bound."""
        self.truth, self.copies = truth, copies
        self.dropped, self._copies_dropped = tuple(dropped), tuple(copies_dropped)

    @property
    def windows(self) -> int:
        """The number of windows with at least one event in the truth."""
        return len(self.truth)

    def wrong(self, at: int) -> set[int]:
        """Return the wrong windows under the bound with this index, by number."""
        dropped, copies = self.dropped[at], self.copies
        return {w for w in copies.keys() | dropped.keys() if copies[w] != dropped[w]}

    def figures(self, at: int) -> JobFigures:
        """Return the errors of the job whose bound has this index."""
        dropped = self.dropped[at]
        counted = self.copies - self._copies_dropped[at]
        wrong = self.wrong(at)
        return JobFigures(
            len(wrong),
            dropped.total(),
            counted.total(),
            sum(1 for window in wrong if dropped[window]),
            sum(1 for window in wrong if counted[window]),
        )
