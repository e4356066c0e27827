"""How far one source has come inside MERGE: its queue, what it has sent, how late it comes."""

from __future__ import annotations

from collections import deque
from typing import Final

from topology.model.event import Event
from topology.model.histogram import HISTOGRAM, Histogram
from topology.model.kept import FLAG, INT, Shape, list_of, optional, record
from topology.model.operator import NEVER
from topology.model.sources import KnownSource

NO_REF: Final = -(1 << 63)
"""A reference time before all others: a source that has sent nothing yet."""


WARM_DELAYS: Final = 64
"""Samples a source, or the pool, needs before its delays are believed."""

FEW_DELAYS: Final = 8
"""Samples that a source needs before it is waited for while it is silent."""

POOL_EVERY: Final = 8
"""So many delays of a warm source make one sample of the pool."""

KEYED: Final = 0
"""Live, bounded by its newest key."""
LED: Final = 1
"""Live and overdue, bounded by time at the distance of its own delays."""
COLD: Final = 2
"""As LED, by the delays of the pool, for want of its own."""
AWAITED: Final = 3
"""Live before a pause of the whole log, not caught up since: bounded by its newest key, however
overdue."""
OUT: Final = 4
"""Idle, or has said bye: holds nobody back."""
BEHIND: Final = 5
"""Catching up, its last event was late: holds nobody back until one is in time."""
DOZING: Final = 6
"""Silent for `idle_after`, and no longer than it is wont to be: not live, but bounded as it was, so
that what it sends next is in time."""

NOTHING_QUEUED: Final[deque[Event]] = deque()
"""The queue of a source until something waits in it, and when it has fallen silent: an empty one of
its own takes 760 bytes."""

NOT_LED: Final = -1
"""In place of the distance at which time bounds a source."""

LONGEST_SILENCE_NS: Final = 86_400_000_000_000
"""More is not learned."""
SILENCES: Final = 2
"""A source is still expected after so many times its longest silence."""
FORGETS: Final = 4
"""A shorter silence takes so much, one part in so many, of the difference away."""


MAX_MISSING: Final = 1_000
"""Ranges of missing numbers remembered per source; at the bound the newest are joined, so C
may stand still for longer than it must, and never says too much."""


class Missing:
    """Numbers `first` to `last` of an epoch, between events of these reference times."""

    __slots__ = ("after_ns", "before_ns", "epoch", "first", "last")

    def __init__(self, epoch: int, first: int, last: int, before_ns: int, after_ns: int) -> None:
        self.epoch = epoch
        self.first = first
        self.last = last
        self.before_ns = before_ns
        self.after_ns = after_ns

    def holds(self, ref_time_ns: int) -> bool:
        """An event of that time has the place that its number gives it."""
        return self.before_ns <= ref_time_ns <= self.after_ns

    def without(self, number: int, ref_time_ns: int) -> list[Missing]:
        """What is left of it when `number` has come; one whose time fits bounds the others."""
        epoch, before_ns, after_ns = self.epoch, self.before_ns, self.after_ns
        fits = self.holds(ref_time_ns)
        left = []
        if self.first < number:
            until_ns = ref_time_ns if fits else after_ns
            left.append(Missing(epoch, self.first, number - 1, before_ns, until_ns))
        if number < self.last:
            from_ns = ref_time_ns if fits else before_ns
            left.append(Missing(epoch, number + 1, self.last, from_ns, after_ns))
        return left


MISSING: Final = list_of(
    record(Missing, epoch=INT, first=INT, last=INT, before_ns=INT, after_ns=INT)
)
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
)


class SourceProgress(KnownSource):
    """`newest_ns` is the newest reference time in sequence, `error_ns` the largest
    error of those that wait and of the last, `epoch` and `seq` the newest number; C needs
    `_missing`: how many numbers below it never came."""

    SHAPE = SOURCE
    __slots__ = (
        "_missing",
        "blocked",
        "delays",
        "duplicate",
        "epoch",
        "error_ns",
        "held_late",
        "in_keyed",
        "in_live",
        "in_silent",
        "input_partition",
        "late",
        "led_wait_ns",
        "newest_ns",
        "noted_error_ns",
        "queue",
        "released",
        "said_bye",
        "seq",
        "silence_ns",
        "state",
        "warm",
        "woke_ns",
    )

    def __init__(self, source: str, miss_ppm: int) -> None:
        super().__init__(source, 0)
        self.state = OUT
        self.newest_ns = NO_REF
        self.error_ns = 0
        self.noted_error_ns = 0  # topology.merge.errors has it with that, or more
        self.queue = NOTHING_QUEUED
        self.delays = Histogram(miss_ppm)
        self.warm = False
        self.led_wait_ns = NOT_LED
        self.blocked = False
        self.in_keyed = False
        self.in_live = False
        self.in_silent = False  # these three: it has an entry in the heap of that name
        self.said_bye = False
        self.woke_ns = NEVER  # its newest time when it came back after having been idle
        self.silence_ns = 0  # how long it is wont to be silent; 0: never for `idle_after`
        self.input_partition = -1  # the upstream partition it came by last
        self.released = 0
        self.late = 0
        self.held_late = 0  # of them, those that wait for the end of the open instant
        self.duplicate = 0
        self.epoch = -1
        self.seq = -1
        self._missing: list[Missing] | None = None

    @property
    def lasting_state(self) -> int:
        """The state after a restore: all that are live begin as KEYED."""
        return self.state if self.state >= AWAITED else KEYED

    @lasting_state.setter
    def lasting_state(self, state: int) -> None:
        self.state = state

    @property
    def received(self) -> int:
        """All that has come; it is state, so to release an event changes nothing."""
        return self.released + self.late + self.duplicate + len(self.queue)

    @received.setter
    def received(self, received: int) -> None:
        """Behind `late` and `duplicate`; those that wait are taken again."""
        self.released = received - self.late - self.duplicate

    def settled(self) -> None:
        self.warm = self.delays.trials >= WARM_DELAYS

    def busy(self) -> bool:
        """Return whether MERGE buffers events of it, so that it must not be forgotten."""
        return bool(self.queue) or self.blocked or self.held_late > 0

    @property
    def is_keyed(self) -> bool:
        """Its newest key bounds what may leave."""
        state = self.state
        return state in (KEYED, AWAITED) or (state == DOZING and self.led_wait_ns == NOT_LED)

    def own_queue(self) -> deque[Event]:
        """To put an event in."""
        if self.queue is NOTHING_QUEUED:
            self.queue = deque()
        return self.queue

    def fall_silent(self) -> None:
        """Nothing of it is likely to come soon."""
        if not self.queue:
            self.queue = NOTHING_QUEUED

    # -- how late it comes -------------------------------------------------------------------------

    def sample(self, delay_ns: int, pool: Histogram) -> None:
        """The pool, which speaks for sources not yet known, takes all of a new source
        and every eighth of one that is known."""
        self.delays.add(delay_ns)
        if not self.warm or self.delays.since_halved % POOL_EVERY == 0:
            self.sample_pool(delay_ns, pool)

    def sample_pool(self, delay_ns: int, pool: Histogram) -> None:
        self.warm = self.warm or self.delays.trials >= WARM_DELAYS
        pool.add(delay_ns)

    def wake(self, silent_ns: int) -> None:
        """It speaks after a silence of more than `idle_after`."""
        if silent_ns >= self.silence_ns:
            self.silence_ns = min(silent_ns, LONGEST_SILENCE_NS)
        else:
            self.silence_ns -= (self.silence_ns - silent_ns) // FORGETS

    def is_expected(self, now_ns: int) -> bool:
        """Its silences and delays are known well enough to wait for it, though it is silent."""
        return self.expected_until_ns > now_ns and self.delays.trials >= FEW_DELAYS

    @property
    def expected_until_ns(self) -> int:
        """It is still expected to speak, as its silences so far suggest."""
        return self.last_arrival_ns + SILENCES * self.silence_ns

    # -- the sequence ------------------------------------------------------------------------------

    def is_copy(self, event: Event) -> bool:
        """Each source comes in sequence, so nothing new lies at or below the newest."""
        return event.ref_time_ns <= self.newest_ns and (event.epoch, event.seq) <= (
            self.epoch,
            self.seq,
        )

    def follow(self, event: Event, ref_time_ns: int) -> None:
        """A number in sequence: were there some between it and the last? Before its
        time raises `newest_ns`."""
        if event.epoch == self.epoch and event.seq > self.seq + 1:
            if self._missing is None:
                self._missing = []
            self._missing.append(
                Missing(self.epoch, self.seq + 1, event.seq - 1, self.newest_ns, ref_time_ns)
            )
            if len(self._missing) > MAX_MISSING:
                last = self._missing.pop()
                self._missing[-1].last = last.last
                self._missing[-1].after_ns = last.after_ns
        self.epoch = event.epoch
        self.seq = event.seq

    def fill(self, event: Event) -> bool:
        """A lost number came after all. True if its time lies between those of its neighbours:
        put in order by time, it is in the order of its source too."""
        if self._missing is None:
            return False
        for i, missing in enumerate(self._missing):
            if missing.epoch == event.epoch and missing.first <= event.seq <= missing.last:
                self._missing[i : i + 1] = missing.without(event.seq, event.ref_time_ns)
                return missing.holds(event.ref_time_ns)
        return False

    def missing_around(self, number: int) -> list[int] | None:
        """The numbers of the epoch in force that never came, around this one; None: it came."""
        for missing in self._missing or ():
            if missing.epoch == self.epoch and missing.first <= number <= missing.last:
                return [missing.first, missing.last]
        return None

    @property
    def lost_ns(self) -> int:
        """When the numbers that are missing longest were lost; some are missing."""
        assert self._missing
        return self._missing[0].after_ns

    def write_off(self, before_ns: int) -> None:
        left = [missing for missing in self._missing or () if missing.after_ns >= before_ns]
        self._missing = left or None

    @property
    def lacks_numbers(self) -> bool:
        return bool(self._missing)

    @property
    def complete_ns(self) -> int:
        """Return the time up to which no event of it is missing."""
        return self._missing[0].before_ns if self._missing else self.newest_ns
