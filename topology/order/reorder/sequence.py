"""Records the received, missing and buffered numbers of one source in one epoch.

`topology.order.reorder.source` decides about events and emits them. After the start, the
invariants are:

* `next` is the smallest number neither emitted nor given up;
* every number in [next, hi] belongs either to a buffered event or to exactly one gap;
* `gaps`, the gaps, are in ascending order.

Before the start the same is true of [low, hi], and `next` is -1.

Buffered events are kept in contiguous pieces between the gaps. The piece before the first gap is
`front`, and each other piece is the `behind` of the gap before it. So an event in order after a gap
is appended, and the events after a gap are emitted in one piece. After the start, events of an
active sequence are buffered only because of a gap, so its `front` is empty.

Cost: O(1) for the number after the highest, and O(log gaps) to find any other number. Filling a gap
also moves some of the events around it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from topology.base.event import DEAD, Event
from topology.base.native import mypyc_attr
from topology.base.ranges import first_of
from topology.order.reorder.lost import LostNumbers, LostPages
from topology.state.saved import FLAG, INT, Shape, list_of, record

UNSTARTED: Final = -1
UNKNOWN: Final = -1
NO_STAMP: Final = -(1 << 63)
SEVERAL: Final = 3
"""The smallest span of numbers before the start at which a smaller number begins a new epoch."""


@mypyc_attr(acyclic=True)
class OpenGap:
    """A gap: the numbers `first`..`last`, known since `known_at_ns`, awaited until `deadline_ns`.

    Attributes:
        behind: The buffered events from `last` + 1 up to the next gap, at least one.
        is_jump: Whether a second event has confirmed that the source skipped these numbers.
    """

    __slots__ = ("behind", "deadline_ns", "first", "is_jump", "known_at_ns", "last")

    def __init__(
        self,
        first: int,
        last: int,
        known_at_ns: int,
        deadline_ns: int,
        is_jump: bool = False,
        behind: list[Event] | None = None,
    ) -> None:
        # In a compiled module this is much faster than the function that a dataclass makes.
        self.first = first
        self.last = last
        self.known_at_ns = known_at_ns
        self.deadline_ns = deadline_ns
        self.is_jump = is_jump
        self.behind = [] if behind is None else behind


SEQUENCE: Final = Shape(
    "reorder.sequence",
    1,
    epoch=INT,
    floor=INT,
    active=FLAG,
    next=INT,
    start=INT,
    start_deadline_ns=INT,
    low=INT,
    hi=INT,
    last_ts_ns=INT,
    newest_ts_ns=INT,
    oldest_ts_ns=INT,
    gaps=list_of(
        record(OpenGap, first=INT, last=INT, known_at_ns=INT, deadline_ns=INT, is_jump=FLAG)
    ),
)


@mypyc_attr(acyclic=True)
class Sequence(LostNumbers):
    """The numbers of one source in one epoch.

    Attributes:
        active: Whether all epochs before this one are finished.
        last_ts_ns: The timestamp of the last event emitted in order, or NO_STAMP if there is none.
        newest_ts_ns: The newest timestamp of all buffered events and those emitted in order.
        oldest_ts_ns: The oldest of these and of late ones, or NO_STAMP if the epoch was written or
            its first numbers are not remembered.
    """

    SHAPE = SEQUENCE
    __slots__ = (*SEQUENCE.fields[2:], "front", "suspects")  # The first two are the ledger's.

    def __init__(self, pages: LostPages, source: str, epoch: int, active: bool) -> None:
        super().__init__(pages, source, epoch)
        self.active = active
        self.next = UNSTARTED
        self.start = 0
        self.start_deadline_ns = 0
        self.low = 0
        self.hi = -1
        self.last_ts_ns = NO_STAMP
        self.newest_ts_ns = NO_STAMP
        self.oldest_ts_ns = NO_STAMP
        self.front: list[Event] = []
        self.gaps: list[OpenGap] = []
        self.suspects: list[Event] = []

    def begin(self, number: int) -> None:
        """Set `number` as the start; smaller numbers are before the start."""
        self.next = number
        self.start = number
        self.floor = number

    def raise_numbers(self, amount: int) -> None:
        """Add `amount` to all numbers received so far. Call this only before the start."""
        self.low += amount
        self.hi += amount
        for gap in self.gaps:
            gap.first += amount
            gap.last += amount
        for event in self.waiting():
            event.seq += amount

    # -- Buffered events ---------------------------------------------------------------------------

    def has_buffered(self) -> bool:
        """Return whether any events other than suspects are buffered."""
        return bool(self.front) or bool(self.gaps)

    def waiting(self) -> Iterator[Event]:
        """Yield the buffered events in order, without the suspects."""
        yield from self.front
        for gap in self.gaps:
            yield from gap.behind

    def find_last_piece(self) -> list[Event]:
        """Return the piece to which an event with the number `hi` + 1 is appended."""
        return self.gaps[-1].behind if self.gaps else self.front

    def _index_of_gap(self, number: int) -> int:
        """Return the index of the last gap that begins at or below a number, or -1."""
        last = len(self.gaps) - 1
        if last < 0 or number >= self.gaps[last].first:
            return last  # The usual case, which needs no search.
        return bisect_right(self.gaps, number, key=first_of) - 1

    def find_buffered(self, number: int) -> Event | None:
        """Return the buffered event with this number, or None."""
        low = self.base
        if not low <= number <= self.hi:
            return None
        i = self._index_of_gap(number)
        if i < 0:
            return self.front[number - low]
        gap = self.gaps[i]
        return gap.behind[number - gap.last - 1] if number > gap.last else None

    def came(self, number: int) -> bool:
        """Return whether a number surely came: it is buffered, or was emitted in order or late."""
        if number >= self.base:
            return self.find_buffered(number) is not None
        is_known = self.next != UNSTARTED and number >= max(self.start, self.floor)
        return is_known and self.find_lost(number) is None

    def lacks(self, number: int) -> bool:
        """Return whether a number is missing, and not yet given up."""
        if self.base <= number <= self.hi:
            return self.find_buffered(number) is None
        return self.next == UNSTARTED and 0 <= number < self.low

    @property
    def base(self) -> int:
        """The smallest number from which every number up to `hi` is buffered or missing."""
        return self.low if self.next == UNSTARTED else self.next

    def fill_gap(self, event: Event) -> int:
        """Put an event into the gap of its number, and return when that gap became known.

        If the number is not missing, change nothing and return UNKNOWN.
        """
        gaps, number = self.gaps, event.seq
        i = self._index_of_gap(number)
        if i < 0:
            return UNKNOWN
        gap = gaps[i]
        if number > gap.last:
            return UNKNOWN
        before = gaps[i - 1].behind if i else self.front
        if gap.first == gap.last:
            del gaps[i]
            if len(before) < len(gap.behind):  # Move the shorter piece.
                gap.behind[0:0] = [*before, event]
                if i:
                    gaps[i - 1].behind = gap.behind
                else:
                    self.front = gap.behind
            else:
                before.append(event)
                before += gap.behind
        elif number == gap.first:
            gap.first += 1
            before.append(event)
        elif number == gap.last:
            gap.last -= 1
            gap.behind.insert(0, event)
        else:
            lower = OpenGap(
                gap.first, number - 1, gap.known_at_ns, gap.deadline_ns, gap.is_jump, [event]
            )
            gap.first = number + 1
            gaps.insert(i, lower)
        return gap.known_at_ns

    def drop_first_missing(self) -> int:
        """Take the first number out of the first gap, and return when that gap became known.

        The caller emits the event with that number at once, and may then emit the events directly
        after it.
        """
        gap = self.gaps[0]
        if gap.first == gap.last:
            del self.gaps[0]
            self.front = gap.behind
        else:
            gap.first += 1
        return gap.known_at_ns

    def give_up_first_gap(self) -> OpenGap:
        """Remove and return the first gap, so that the events directly after it may be emitted."""
        gap = self.gaps.pop(0)
        self.front = gap.behind
        self.next = gap.last + 1
        return gap

    def take_from(self, at: int) -> list[Event]:
        """Remove the gaps from index `at` on with the events after them, and return these events.

        They are returned in the order of arrival. The sequence is then as if they had not arrived.
        """
        taken = [event for gap in self.gaps[at:] for event in gap.behind]
        self.hi = self.gaps[at].first - 1
        del self.gaps[at:]
        taken.sort(key=arrival)
        return taken

    # -- Restore -----------------------------------------------------------------------------------

    def is_recorded_as_buffered(self, number: int) -> bool:
        """Return whether the saved state records a buffered event with this number."""
        if not self.base <= number <= self.hi:
            return False
        i = self._index_of_gap(number)
        return i < 0 or number > self.gaps[i].last

    def settle(self, found: dict[int, Event], now_ns: int) -> None:
        """Put the buffered events, given by number, between the gaps after a restore.

        If an event is absent, its number becomes part of a gap. A gap that replaces no saved gap is
        due at once.
        """
        gaps, self.gaps = deque(self.gaps), []
        low = self.base
        if self.next == UNSTARTED:
            low = self.low = min(found, default=0)
        for number in sorted(found):
            if low < number:
                parts = []
                while gaps and gaps[0].first < number:
                    parts.append(gaps.popleft())
                since_ns = min([gap.known_at_ns for gap in parts], default=now_ns)
                due_ns = min([gap.deadline_ns for gap in parts], default=now_ns)
                is_jump = any(gap.is_jump for gap in parts)
                self.gaps.append(OpenGap(low, number - 1, since_ns, due_ns, is_jump))
            self.find_last_piece().append(found[number])
            low = number + 1
        self.hi = low - 1

    def note_newest(self, event: Event) -> None:
        """Update the newest timestamp with an event that is emitted or buffered."""
        if event.ts_ns > self.newest_ts_ns and event.kind != DEAD:
            self.newest_ts_ns = event.ts_ns

    def note_oldest(self, event: Event) -> None:
        """Update the oldest timestamp, which is set when the epoch begins."""
        if event.ts_ns < self.oldest_ts_ns and event.kind != DEAD:
            self.oldest_ts_ns = event.ts_ns

    def is_restarted_by(self, number: int, ts_ns: int) -> bool:
        """Return whether a number begins a new epoch although it is not the highest.

        The timestamp decides. With one clock and one counter, such a number cannot have the newest
        of all timestamps, unless it is still missing or was given up. If a clock is set back a
        little, earlier events have newer timestamps, so no epoch begins.
        """
        if number > self.hi or not NO_STAMP < self.newest_ts_ns < ts_ns:
            return False
        if number >= self.base:
            return self.find_buffered(number) is not None
        # Before the start, any number below all others may be missing, too.
        if self.next == UNSTARTED:
            return self.hi - self.low >= SEVERAL
        return self.find_lost(number) is None

    def find_restart_ns(self, number: int, ts_ns: int, margin_ns: int) -> int | None:
        """Return the last timestamp before a restart, or None if the number shows no restart.

        A late event has an older timestamp than the events that follow it. A lower number with too
        new a timestamp contradicts the assumption of one clock and one counter, so the source has
        restarted.
        """
        last_ns = self.last_ts_ns
        if last_ns == NO_STAMP or number >= self.next or ts_ns <= last_ns + margin_ns:
            return None
        older = [e.ts_ns for e in self.waiting() if e.kind != DEAD and e.ts_ns < ts_ns]
        return max([last_ns + margin_ns, *older])


arrival: Final = attrgetter("at_ns", "offset")
