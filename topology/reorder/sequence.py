"""The numbers of one source in one epoch: what came, what is missing, what waits.

Pure bookkeeping; `topology.reorder.source` decides and lets events go. Invariants, once
started: `next` is the smallest number neither released nor given up; every number in
[next, hi] is either in `held` or in exactly one hole; `holes` rises. Before the start
the same holds over [low, hi], and `next` is -1.

Proved by: tests/topology/reorder/test_operator.py, tests/laws/test_order.py
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final

from topology.model.event import DEAD, Event
from topology.model.outcome import TIMEOUT
from topology.reorder.lost import LostRanges

UNSTARTED: Final = -1
NO_STAMP: Final = -(1 << 63)


class Hole:
    """Numbers `first`..`last` are awaited until `deadline_ns`, since `known_at_ns`."""

    __slots__ = ("deadline_ns", "first", "known_at_ns", "last", "reason")

    def __init__(
        self, first: int, last: int, known_at_ns: int, deadline_ns: int, reason: str
    ) -> None:
        self.first = first
        self.last = last
        self.known_at_ns = known_at_ns
        self.deadline_ns = deadline_ns
        self.reason = reason


def first_of(hole: Hole) -> int:
    return hole.first


class Sequence:
    """One (source, epoch). `active`: the epochs before it are done with.

    `held` is in order of arrival (a dict keeps it), so its first value is the
    oldest. `last_ts_ns` is the stamp of the last event released in order, NO_STAMP if
    there is none.
    """

    __slots__ = (
        "active",
        "epoch",
        "held",
        "hi",
        "holes",
        "last_ts_ns",
        "lost",
        "low",
        "next",
        "start",
        "start_deadline_ns",
        "suspects",
    )

    def __init__(self, epoch: int, active: bool, lost: LostRanges) -> None:
        self.epoch = epoch
        self.active = active
        self.lost = lost
        self.next = UNSTARTED
        self.start = 0
        self.start_deadline_ns = 0
        self.low = 0
        self.hi = -1
        self.last_ts_ns = NO_STAMP
        self.holes: list[Hole] = []
        self.held: dict[int, Event] = {}
        self.suspects: list[Event] = []

    def begin(self, number: int) -> None:
        """The sequence starts at `number`; smaller ones are before the start."""
        self.next = number
        self.start = number
        self.lost.floor = number

    def raise_by(self, amount: int) -> None:
        """Before the start: what was seen so far goes by numbers that much higher."""
        self.low += amount
        self.hi += amount
        for hole in self.holes:
            hole.first += amount
            hole.last += amount
        for event in self.held.values():
            event.seq += amount
        self.held = {event.seq: event for event in self.held.values()}

    def close(self, number: int) -> int:
        """Take `number` out of its hole; returns since when the hole was known."""
        holes = self.holes
        i = bisect_right(holes, number, key=first_of) - 1
        hole = holes[i]
        if hole.first == hole.last:
            del holes[i]
        elif number == hole.first:
            hole.first += 1
        elif number == hole.last:
            hole.last -= 1
        else:
            upper = Hole(number + 1, hole.last, hole.known_at_ns, hole.deadline_ns, hole.reason)
            hole.last = number - 1
            holes.insert(i + 1, upper)
        return hole.known_at_ns

    def in_hole(self, number: int) -> bool:
        i = bisect_right(self.holes, number, key=first_of) - 1
        return i >= 0 and number <= self.holes[i].last

    def awaits(self, number: int) -> bool:
        """The numbers say that an event of this number is held, and there is none yet."""
        low = self.low if self.next == UNSTARTED else self.next
        return low <= number <= self.hi and number not in self.held and not self.in_hole(number)

    def mend(self, now_ns: int) -> None:
        """After a restore: numbers whose events are gone are holes that are due at once."""
        low = self.low if self.next == UNSTARTED else self.next
        missing = sum(hole.last - hole.first + 1 for hole in self.holes)
        if self.hi < 0 or len(self.held) + missing == self.hi - low + 1:
            return
        numbers = sorted(self.held)
        if self.next == UNSTARTED:
            low = self.low = numbers[0] if numbers else 0
            self.hi = -1
        self.hi = numbers[-1] if numbers else low - 1
        known = self.holes
        self.holes = []
        for number in numbers:
            if low < number:
                due_ns = [h.deadline_ns for h in known if h.first < number and h.last >= low]
                since_ns = [h.known_at_ns for h in known if h.first < number and h.last >= low]
                self.holes.append(
                    Hole(
                        low,
                        number - 1,
                        min(since_ns, default=now_ns),
                        min(due_ns, default=now_ns),
                        TIMEOUT,
                    )
                )
            low = number + 1

    def refuted_by(self, number: int, ts_ns: int, margin_ns: int) -> int | None:
        """A late number has an older stamp than its followers, so one that is behind and
        yet too new contradicts one clock and one counter: the source has restarted. The
        answer is up to which stamp events are of before; None if nothing is refuted."""
        last_ns = self.last_ts_ns
        if last_ns == NO_STAMP or number >= self.next or ts_ns <= last_ns + margin_ns:
            return None
        older = [e.ts_ns for e in self.held.values() if e.kind != DEAD and e.ts_ns < ts_ns]
        return max([last_ns + margin_ns, *older])

    def written_pages(self) -> list[tuple[int, int]]:
        """(epoch, page) of its ledger's pages that must go when it goes."""
        return [(self.epoch, page) for page in sorted(self.lost.written_pages())]

    def snapshot(self, list_held: bool) -> Any:
        """`list_held`: name the held events by offset, where the numbers do not tell."""
        return [
            self.epoch,
            self.active,
            self.next,
            self.start,
            self.start_deadline_ns,
            self.low,
            self.hi,
            self.last_ts_ns,
            [[h.first, h.last, h.known_at_ns, h.deadline_ns, h.reason] for h in self.holes],
            self.lost.floor,
            [[event.offset, number] for number, event in self.held.items()] if list_held else None,
            [[event.offset, event.seq, event.at_ns] for event in self.suspects],
        ]

    def restore(self, state: Any) -> None:
        """All but the events and the lost ranges; see `topology.reorder.source_state`."""
        (
            self.epoch,
            self.active,
            self.next,
            self.start,
            self.start_deadline_ns,
            self.low,
            self.hi,
            self.last_ts_ns,
            holes,
            self.lost.floor,
            _,
            _,
        ) = state
        self.holes = [Hole(first, last, known, due, why) for first, last, known, due, why in holes]
