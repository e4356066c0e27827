"""One source inside MERGE: its queue, how far it has been heard, how late it comes."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from topology.event import Event
from topology.histogram import Histogram
from topology.timeout import Smoothed

NO_REF: Final = -(1 << 63)
"""A reference time before all others: a source not heard yet."""

NEVER: Final = 1 << 62

KEYED: Final = 0
"""Live, bounded by its newest key."""
LED: Final = 1
"""Live and overdue, bounded by time at the distance of its own delays."""
COLD: Final = 2
"""As LED, by the delays of the pool, for want of its own."""
OUT: Final = 3
"""Idle or gone: holds nobody back."""
BEHIND: Final = 4
"""Catching up, its last event was late: holds nobody back until one is in time."""


class Feed:
    """`newest_ns` is the newest reference time heard in order; C needs `_missing`:
    how many numbers below the newest never came."""

    __slots__ = (
        "_epoch",
        "_gap_ns",
        "_missing",
        "_pace",
        "_seq",
        "_spoke_ns",
        "_whole_ns",
        "blocked",
        "delays",
        "dirty",
        "duplicate",
        "empty_since_ns",
        "in_keyed",
        "last_arrival_ns",
        "late",
        "led_wait_ns",
        "newest_ns",
        "queue",
        "received",
        "released",
        "said_bye",
        "source",
        "state",
        "watched",
    )

    def __init__(self, source: str, miss_ppm: int) -> None:
        self.source = source
        self.state = OUT
        self.newest_ns = NO_REF
        self.last_arrival_ns = 0
        self.queue: deque[Event] = deque()
        self.delays = Histogram(miss_ppm)
        self.led_wait_ns = 0
        self.blocked = False
        self.in_keyed = False
        self.watched = False
        self.said_bye = False
        self.dirty = False
        self.received = 0
        self.released = 0
        self.late = 0
        self.duplicate = 0
        self.empty_since_ns = NEVER
        self._pace: Smoothed | None = None
        self._spoke_ns = -1
        self._epoch = -1
        self._seq = -1
        self._missing = 0
        self._gap_ns = 0
        self._whole_ns = NO_REF

    def busy(self) -> bool:
        """It holds events, so it must not be forgotten."""
        return bool(self.queue) or self.blocked

    # -- the sequence ------------------------------------------------------------------------------

    def has_heard(self, event: Event) -> bool:
        """A copy: each source comes in sequence, so nothing new lies at or below the newest."""
        return event.ref_time_ns <= self.newest_ns and (event.epoch, event.seq) <= (
            self._epoch,
            self._seq,
        )

    def follow(self, event: Event) -> None:
        """A number in order: were there some between it and the last?"""
        if event.epoch == self._epoch and event.seq > self._seq + 1:
            self._missing += event.seq - self._seq - 1
            self._gap_ns = event.ref_time_ns
        self._epoch = event.epoch
        self._seq = event.seq
        if not self._missing:
            self._whole_ns = event.ref_time_ns

    def fill(self) -> None:
        """A lost number came after all."""
        if self._missing:
            self._missing -= 1
            if not self._missing:
                self._whole_ns = self.newest_ns

    def expired(self, before_ns: int) -> bool:
        """Numbers are missing, all lost before that time: past correcting."""
        return self._missing > 0 and self._gap_ns < before_ns

    def write_off(self) -> None:
        self._missing = 0
        self._whole_ns = self.newest_ns

    @property
    def complete_ns(self) -> int:
        """Heard without a hole up to here."""
        return self._whole_ns

    # -- the thesis's rule -------------------------------------------------------------------------

    def pace(self, at_ns: int) -> None:
        """(3.2), (3.3): how often the source speaks."""
        self.empty_since_ns = NEVER
        if self._pace is None:
            self._pace = Smoothed(600_000, against_new=True)
        if self._spoke_ns >= 0:
            self._pace.add(at_ns - self._spoke_ns)
        self._spoke_ns = at_ns

    def given_up_ns(self, max_wait_ns: int) -> int:
        """When the wait for the empty source ends; NEVER while it is not waited for."""
        if self.empty_since_ns == NEVER:
            return NEVER
        pace = self._pace
        wait_ns = max_wait_ns
        if pace is not None and pace.samples > 1:
            wait_ns = min(max_wait_ns, pace.average_ns + 2 * pace.deviation_ns)
        return self.empty_since_ns + wait_ns

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        return [
            self.state if self.state >= OUT else KEYED,
            self.newest_ns,
            self.last_arrival_ns,
            self.blocked,
            self.said_bye,
            [self.received, self.released, self.late, self.duplicate],
            [self._epoch, self._seq, self._missing, self._gap_ns, self._whole_ns],
            self.delays.snapshot(),
            self.empty_since_ns,
            self._spoke_ns,
            self._pace.snapshot() if self._pace is not None else None,
        ]

    def restore(self, state: Any) -> None:
        (
            self.state,
            self.newest_ns,
            self.last_arrival_ns,
            self.blocked,
            self.said_bye,
            counts,
            whole,
            delays,
            self.empty_since_ns,
            self._spoke_ns,
            pace,
        ) = state
        self.received, self.released, self.late, self.duplicate = counts
        self._epoch, self._seq, self._missing, self._gap_ns, self._whole_ns = whole
        self.delays.restore(delays)
        if pace is not None:
            self._pace = Smoothed(600_000, against_new=True)
            self._pace.restore(pace)
