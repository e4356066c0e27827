"""How often a worker looks for records: briskly while any come, seldom while all rests.

A fetch comes back at once where records wait for it, however long it may stay with the broker. What
asks for short fetches is time: a partition at its end ticks as often as empty answers come, and
something may wait for a tick. So there are two paces.

* **Brisk**: answers stay `FETCH_WAIT_MS` at the broker at most. They also stay that long where
  little comes: a thousand events a second, each fetched by itself, would cost twenty times what
  they cost in twenty fetches. `FETCH_MIN_BYTES` ends the wait, so that a stream which fills a
  fetch sooner never waits.
* **Quiet**: the handler rests. No event has come for a while, and nothing waits that a tick would
  let go. An answer then comes after `QUIET_WAIT_MS`, or with the first record, and time is
  announced once in `QUIET_TICK_NS`. After an answer that holds records the next look is a brisk
  one. Where time comes with the records nobody waits for a tick, and an answer may stay with the
  broker for `SILENT_WAIT_MS`: it is a sign of life alone, which has to come sooner than the
  watchdog asks for.

So a stream that begins to flow again is not late. What time alone brings about while nothing flows
(watermarks, windows that they close) is, by `QUIET_TICK_NS` at most.

The embedded broker keeps an answer for all of its time, even where records come: it is always asked
briskly, and for the first byte.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

FETCH_WAIT_MS: Final = 50
"""What a tick lags behind at most, while anything waits for it."""

FETCH_MIN_BYTES: Final = 64 << 10
TICK_NS: Final = 50_000_000
"""A partition at its end ticks no more often than this."""

QUIET_WAIT_MS: Final = 1_000
QUIET_TICK_NS: Final = 2_000_000_000
SILENT_WAIT_MS: Final = 2_000


class Pace(NamedTuple):
    """`poll_s`: how long a poll waits for records. `tick_ns`: between two ticks of a partition.
    `look_s`: how long the client sleeps before it looks whether there is something to fetch, where
    nothing wakes it; an answer does."""

    poll_s: float
    fetch_wait_ms: int
    fetch_min_bytes: int
    tick_ns: int
    look_s: float


LOOK_S: Final = 0.2
"""The client's own."""

BRISK: Final = Pace(FETCH_WAIT_MS / 1e3, FETCH_WAIT_MS, FETCH_MIN_BYTES, TICK_NS, LOOK_S)
QUIET: Final = Pace(QUIET_WAIT_MS / 1e3, QUIET_WAIT_MS, 1, QUIET_TICK_NS, QUIET_WAIT_MS / 1e3)
SILENT: Final = Pace(SILENT_WAIT_MS / 1e3, SILENT_WAIT_MS, 1, QUIET_TICK_NS, SILENT_WAIT_MS / 1e3)
ALWAYS: Final = Pace(FETCH_WAIT_MS / 1e3, FETCH_WAIT_MS, 1, TICK_NS, LOOK_S)
"""The embedded broker's."""


class Pacing:
    """The pace of one consumer, whose `fetcher` follows it. For the consumer's thread alone.
    `wants_ticks`: its handler gets the time where no record comes."""

    def __init__(self, fetcher: Any, *, is_fixed: bool, wants_ticks: bool) -> None:
        self._fetcher = fetcher
        self._brisk = ALWAYS if is_fixed else BRISK
        self._quiet = ALWAYS if is_fixed else QUIET if wants_ticks else SILENT
        self._has_received = False
        self._set(self._brisk)

    def received(self) -> None:
        """Records have come; the handler that rests may not have seen them yet."""
        self._has_received = True
        self._set(self._brisk)

    def look(self, *, rests: bool) -> Pace:
        """The pace from here on."""
        pace = self._quiet if rests and not self._has_received else self._brisk
        self._has_received = False
        self._set(pace)
        return pace

    def _set(self, pace: Pace) -> None:
        self._fetcher._fetch_max_wait_ms = pace.fetch_wait_ms
        self._fetcher._fetch_min_bytes = pace.fetch_min_bytes
        self._fetcher._fetcher_timeout = pace.look_s
