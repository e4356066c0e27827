"""The arrival clock of one input partition: the only clock the operators know.

Arrival is the broker's append time, taken as the running maximum, since the clock of a
new leader may step back. It is part of the checkpoint, so catching up after a stop
behaves as it would have live, and a replay of the log gives the same answer.

Where no record arrives, time moves on only while the partition is caught up, to the
moment at which the fetch that showed this was asked for, less `tick_lag`: never to the
wall clock, since a worker that wakes from a pause would pass records it has not read. A
record overtaken all the same counts as arriving at the tick, and is counted.

A topic without append times (CreateTime) gives no such clock: arrival is then the time of
reading, and two runs over one log may differ. The embedded broker stamps nothing either, but all
who send to it are on this machine and under one clock: there the stamp that a producer's client
gives a record as it is sent stands for arrival, as long as it can be one, not ahead and not older
than `OLDEST_STAMP_NS`.

Proved by: tests/agents/stage/test_arrival.py
"""

from __future__ import annotations

from typing import Final

LOG_APPEND_TIME: Final = 1
NS_PER_MS: Final = 1_000_000
OLDEST_STAMP_NS: Final = 60_000_000_000
"""Before the reading; what is older was hardly given when the record was sent."""


class ArrivalClock:
    """`now_ns` never goes back. `overtaken` counts records that a tick had passed. `embedded`:
    the log is the embedded broker's."""

    __slots__ = (
        "_embedded", "_tick_lag_ns", "_ticked_ns", "now_ns", "overtaken", "without_append_time"
    )  # fmt: skip

    def __init__(self, tick_lag_ns: int, *, embedded: bool = False) -> None:
        self._tick_lag_ns = tick_lag_ns
        self._embedded = embedded
        self._ticked_ns = 0
        self.now_ns = 0
        self.overtaken = 0
        self.without_append_time = False

    def arrive(
        self, timestamp_ms: int, timestamp_type: int | None, read_at_ns: int, records: int = 1
    ) -> int:
        """Arrival of the next record of the log, or of so many that bear the same stamp;
        `read_at_ns` is the wall clock."""
        if timestamp_type == LOG_APPEND_TIME:
            arrival_ns = timestamp_ms * NS_PER_MS
        else:
            self.without_append_time = True
            stamp_ns = timestamp_ms * NS_PER_MS
            is_of_sending = self._embedded and 0 <= read_at_ns - stamp_ns <= OLDEST_STAMP_NS
            arrival_ns = stamp_ns if is_of_sending else read_at_ns
        if arrival_ns <= self._ticked_ns:  # a tick fires what is due at its very instant
            self.overtaken += records
        if arrival_ns > self.now_ns:
            self.now_ns = arrival_ns
        return self.now_ns

    def tick(self, caught_up_at_ns: int) -> bool:
        """The partition held nothing more at that time; True if time moved."""
        tick_ns = caught_up_at_ns - self._tick_lag_ns
        if tick_ns <= self.now_ns:
            return False
        self.now_ns = self._ticked_ns = tick_ns
        return True

    def snapshot(self) -> list[int]:
        return [self.now_ns, self._ticked_ns, self.overtaken]

    def restore(self, state: list[int]) -> None:
        self.now_ns, self._ticked_ns, self.overtaken = state
