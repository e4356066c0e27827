"""Represents the progress of one source in MERGE.

This is its queue, its newest event, its missing numbers, its delays and its usual silence.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import NEVER
from topology.state.histogram import HISTOGRAM, Histogram
from topology.state.saved import FLAG, INT, Shape, list_of, optional, record
from topology.state.sources import KnownSource

NO_REF: Final = -(1 << 63)
"""A timestamp before all others, for a source that has sent nothing yet."""


WARM_DELAYS: Final = 64
"""The number of samples that a source, or the pool, needs before its delays are used."""

FEW_DELAYS: Final = 8
"""The number of samples that a source needs before MERGE waits for it while it is silent."""

POOL_EVERY: Final = 8
"""One in this many delays of a warm source is a sample of the pool."""

KEYED: Final = 0
"""The source is live, and its newest time is its bound."""
LED: Final = 1
"""The source is live and overdue. Its bound is the clock minus a wait, given by its own delays."""
COLD: Final = 2
"""Like `LED`, but the wait is given by the pool's delays, because its own are too few."""
AWAITED: Final = 3
"""The source was live before a pause of the whole log and has not caught up.

Its newest time is its bound, however overdue it is.
"""
OUT: Final = 4
"""The source is idle or sent its end-of-stream marker, and MERGE does not wait for it."""
BEHIND: Final = 5
"""The source is catching up: its last event was late.

MERGE does not wait for it until one of its events is in time.
"""
DOZING: Final = 6
"""The source has been silent for `idle_after`, but not yet for twice its usual silence.

It is not live, but its bound stays, so that its next event is in time.
"""

NOTHING_QUEUED: Final[deque[Event]] = deque()
"""The shared queue of sources without buffered events; an empty queue of their own takes 760 bytes.
"""

NOT_LED: Final = -1
"""The `led_wait_ns` of a source that is not led."""

LONGEST_SILENCE_NS: Final = 86_400_000_000_000
"""The longest usual silence; longer silences count as this long."""
SILENCES: Final = 2
"""A source is expected until it has been silent for this many times its usual silence."""
FORGETS: Final = 4
"""After a shorter silence, the usual one falls by the difference divided by this number."""


MAX_MISSING: Final = 1_000
"""The maximum number of ranges of missing numbers per source.

Beyond that, the newest two are joined. C may then be lower than necessary, but never too high.
"""


@mypyc_attr(acyclic=True)
@dataclass(slots=True, eq=False)
class Missing:
    """A range of missing numbers of one epoch, from `first` to `last`.

    The events before and after the range have the times `before_ns` and `after_ns`.
    """

    epoch: int
    first: int
    last: int
    before_ns: int
    after_ns: int

    def contains(self, event: Event) -> bool:
        """Return whether the number of the event is in the range."""
        return self.epoch == event.epoch and self.first <= event.seq <= self.last

    def fits_time(self, ref_time_ns: int) -> bool:
        """Return whether the time is between those of the events around the range."""
        return self.before_ns <= ref_time_ns <= self.after_ns

    def without(self, number: int, ref_time_ns: int) -> list[Missing]:
        """Return the ranges that remain missing after `number` has arrived.

        If its time fits into the range, it becomes a limit of their times.
        """
        epoch, before_ns, after_ns = self.epoch, self.before_ns, self.after_ns
        below = Missing(epoch, self.first, number - 1, before_ns, after_ns)
        above = Missing(epoch, number + 1, self.last, before_ns, after_ns)
        if self.fits_time(ref_time_ns):
            below.after_ns = above.before_ns = ref_time_ns
        return [each for each in (below, above) if each.first <= each.last]


RANGE: Final = record(Missing, epoch=INT, first=INT, last=INT, before_ns=INT, after_ns=INT)
MISSING: Final = list_of(RANGE)
UNKNOWN_LAST: Final = (1 << 63) - 1
"""The `last` of a range whose last number is unknown."""
SOURCE: Final = Shape(
    "merge.source",
    1,
    lasting_state=INT,
    _missing=optional(MISSING),
    delays=HISTOGRAM,
    newest_ns=INT,
    error_ns=INT,
    last_arrival_ns=INT,
    blocked=FLAG,
    said_bye=FLAG,
    late=INT,
    duplicate=INT,
    received=INT,
    epoch=INT,
    seq=INT,
    woke_ns=INT,
    silence_ns=INT,
    set_back_ns=INT,
    _tail=optional(RANGE),
    tail_until_ns=INT,
)


@mypyc_attr(acyclic=True)
class SourceProgress(KnownSource):
    """The progress of one source in MERGE.

    Attributes:
        newest_ns: The newest corrected timestamp in sequence.
        error_ns: The largest time error of the buffered events and of the last one.
        epoch: The epoch of the newest number.
        seq: The newest number.
        set_back_ns: How far the time of an event in sequence was below the newest one, at most.
            Falls by more than `correct_for` do not count.
        tail_until_ns: The instant until which the end of the epoch before may arrive, or NEVER.
        _tail: The numbers of that end, which limit C, too.
        _missing: The ranges of smaller numbers that have not arrived, which limit C.
    """

    SHAPE = SOURCE
    __slots__ = (
        "_missing",
        "_tail",
        "blocked",
        "delays",
        "duplicate",
        "epoch",
        "error_ns",
        "held_late",
        "in_keyed",
        "input_partition",
        "late",
        "led_wait_ns",
        "newest_ns",
        "queue",
        "recorded_error_ns",
        "released",
        "said_bye",
        "seq",
        "set_back_ns",
        "silence_ns",
        "state",
        "tail_until_ns",
        "warm",
        "woke_ns",
    )

    def __init__(self, source: str, miss_ppm: int) -> None:
        super().__init__(source, 0)
        self.state = OUT
        self.newest_ns = NO_REF
        self.error_ns = 0
        # The error of its newest entry in `topology.order.merge.errors`; at least `error_ns`.
        self.recorded_error_ns = 0
        self.queue = NOTHING_QUEUED
        self.delays = Histogram(miss_ppm)
        self.warm = False
        self.led_wait_ns = NOT_LED
        self.blocked = False
        # Whether it has an entry in the heap of `topology.order.merge.bounds`.
        self.in_keyed = False
        self.said_bye = False
        # Its newest time when a heartbeat, or a report of REORDER, last ended its being idle.
        self.woke_ns = NEVER
        self.silence_ns = 0  # Its usual silence, or 0 if it was never silent for `idle_after`.
        self.input_partition = -1  # The upstream partition of its last event.
        self.released = 0
        self.late = 0
        # The number of late events that are buffered until the open instant is over.
        self.held_late = 0
        self.duplicate = 0
        self.epoch = -1
        self.seq = -1
        self.set_back_ns = 0
        self.tail_until_ns = NEVER
        self._tail: Missing | None = None
        self._missing: list[Missing] | None = None

    @property
    def lasting_state(self) -> int:
        """The state that a checkpoint saves: a live source is saved as `KEYED`, unless awaited."""
        return self.state if self.state >= AWAITED else KEYED

    @lasting_state.setter
    def lasting_state(self, state: int) -> None:
        self.state = state

    @property
    def received(self) -> int:
        """The number of events that MERGE has received from the source.

        The state contains this sum, so that the emission of an event does not change the state.
        """
        return self.released + self.late + self.duplicate + len(self.queue)

    @received.setter
    def received(self, received: int) -> None:
        """Restore `released` from the number of events received.

        `late` and `duplicate` must be restored before this; the buffered events are restored after
        it.
        """
        self.released = received - self.late - self.duplicate

    def derive(self) -> None:
        self.warm = self.delays.trials >= WARM_DELAYS

    def busy(self) -> bool:
        """Return whether MERGE or REORDER buffers events of the source, which must then be kept."""
        return bool(self.queue) or self.blocked or self.held_late > 0

    @property
    def is_keyed(self) -> bool:
        """Whether the newest time of the source is its bound."""
        state = self.state
        return state in (KEYED, AWAITED) or (state == DOZING and self.led_wait_ns == NOT_LED)

    def ensure_queue(self) -> deque[Event]:
        """Return the source's own queue, to which events may be added; create it if needed."""
        if self.queue is NOTHING_QUEUED:
            self.queue = deque()
        return self.queue

    def release_queue(self) -> None:
        """Release the source's own queue if it is empty, because no event is likely soon."""
        if not self.queue:
            self.queue = NOTHING_QUEUED

    # -- Delays and silences -----------------------------------------------------------------------

    def sample(self, delay_ns: int, pool: Histogram) -> None:
        """Add a delay to the source's samples, and perhaps to the pool's.

        The pool stands in for sources with too few delays. It takes all delays of such a source,
        and every eighth of a warm one.
        """
        self.delays.add(delay_ns)
        if not self.warm or self.delays.since_halved % POOL_EVERY == 0:
            self.add_pool_delay(delay_ns, pool)

    def add_pool_delay(self, delay_ns: int, pool: Histogram) -> None:
        self.warm = self.warm or self.delays.trials >= WARM_DELAYS
        pool.add(delay_ns)

    def update_silence(self, silent_ns: int) -> None:
        """Update the usual silence after a silence of more than `idle_after` has ended."""
        if silent_ns >= self.silence_ns:
            self.silence_ns = min(silent_ns, LONGEST_SILENCE_NS)
        else:
            self.silence_ns -= (self.silence_ns - silent_ns) // FORGETS

    def is_expected(self, now_ns: int) -> bool:
        """Return whether MERGE should wait for the silent source.

        It should if the silence is expected to end after `now_ns`, and enough delays were measured.
        """
        return self.expected_until_ns > now_ns and self.delays.trials >= FEW_DELAYS

    @property
    def expected_until_ns(self) -> int:
        """The time until which the source is expected to send, judging by its earlier silences."""
        return self.last_arrival_ns + SILENCES * self.silence_ns

    # -- The sequence ------------------------------------------------------------------------------

    def is_duplicate(self, event: Event) -> bool:
        """Return whether the event is a duplicate.

        REORDER emits each source in sequence, so no new event has a number at or below the newest.
        The time is compared, too, because REORDER may have forgotten the source.
        """
        return event.ref_time_ns <= self.newest_ns and (event.epoch, event.seq) <= (
            self.epoch,
            self.seq,
        )

    def await_tail(self, until_ns: int, ref_time_ns: int) -> None:
        """Let the numbers after the newest one be missing until `until_ns`.

        Call this before the first event of the next epoch, whose time is `ref_time_ns`.
        """
        after_ns = max(self.newest_ns, ref_time_ns)
        self._tail = Missing(self.epoch, self.seq + 1, UNKNOWN_LAST, self.newest_ns, after_ns)
        self.tail_until_ns = until_ns

    def end_tail(self) -> None:
        """Expect the end of the epoch before no longer."""
        self.tail_until_ns = NEVER
        self._tail = None

    def record_number(self, event: Event, ref_time_ns: int, start: int, since_ns: int) -> None:
        """Record the event's number, and any missing numbers between it and the last one.

        `start` is the first number of each epoch, or -1 if it is unknown. The numbers missing from
        the source's very first epoch have times from `since_ns` on. Call this before the event
        raises `newest_ns`.
        """
        if event.epoch == self.epoch:
            first = self.seq + 1
        else:
            first = start if start >= 0 else event.seq
        if event.seq > first:
            if self._missing is None:
                self._missing = []
            before_ns = self.newest_ns if self.newest_ns != NO_REF else since_ns
            after_ns = max(before_ns, ref_time_ns)
            self._missing.append(Missing(event.epoch, first, event.seq - 1, before_ns, after_ns))
            if len(self._missing) > MAX_MISSING:
                last, joined = self._missing.pop(), self._missing[-1]
                joined.after_ns = last.after_ns
                if last.epoch == joined.epoch:
                    joined.last = last.last
        self.epoch = event.epoch
        self.seq = event.seq

    def fill_missing(self, event: Event) -> bool:
        """Record that a missing number has arrived, and return whether the event's time fits.

        The time fits if it is between those of its neighbours by number. Then the order by time
        agrees with the order by number. In a source that sets back, any time fits. The result is
        also False if the number was not missing.
        """
        ranges = self._missing or []
        for i, missing in enumerate(ranges):
            if missing.contains(event):
                ranges[i : i + 1] = missing.without(event.seq, event.ref_time_ns)
                return missing.fits_time(event.ref_time_ns) or self.set_back_ns > 0
        tail = self._tail
        return tail is not None and tail.contains(event) and tail.fits_time(event.ref_time_ns)

    def find_missing_around(self, number: int) -> list[int] | None:
        """Return the first and last number of the missing range around `number`, or None.

        None means that no range of the current epoch contains the number.
        """
        for missing in self._missing or ():
            if missing.epoch == self.epoch and missing.first <= number <= missing.last:
                return [missing.first, missing.last]
        return None

    @property
    def lost_ns(self) -> int:
        """The time of the event after the oldest missing range, or NEVER without such a range."""
        return self._missing[0].after_ns if self._missing else NEVER

    def drop_missing_before(self, before_ns: int) -> None:
        left = [missing for missing in self._missing or () if missing.after_ns >= before_ns]
        self._missing = left or None

    @property
    def has_missing(self) -> bool:
        return bool(self._missing) or self._tail is not None

    @property
    def complete_ns(self) -> int:
        """The time up to which no event of the source is missing."""
        before_ns = self._tail.before_ns if self._tail is not None else self.newest_ns
        return min(self._missing[0].before_ns, before_ns) if self._missing else before_ns
