"""Decides how often a worker polls for records: often during traffic, seldom while idle.

A fetch returns at once if records are available, whatever its wait time at the broker. A short wait
is needed only for ticks (batches without records). An empty answer gives a partition at its end a
tick, and an operator may wait for that. So there are two paces.

* **Brisk**: answers wait at most `FETCH_WAIT_MS` at the broker. They also wait that long under low
  traffic. A thousand events a second, each fetched separately, would cost twenty times as much as
  in twenty fetches. `FETCH_MIN_BYTES` ends the wait, so a stream that fills a fetch sooner never
  waits.
* **Quiet**: the handler is idle. No event has come for a while, and no buffered event needs a tick.
  An answer then comes after `QUIET_WAIT_MS`, or with the first record, and there is one tick in
  `QUIET_TICK_NS`. After an answer with records the next poll is brisk. If the handler takes the
  time from records alone, it needs no ticks, and an answer may wait at the broker for
  `SILENT_WAIT_MS`. It is then only a sign of life, and comes before the watchdog's limit.

So a stream that resumes has no extra delay. While no events arrive, the effects of time alone are
delayed by at most `QUIET_TICK_NS`: watermarks, and the windows that they close.

The embedded broker delays an answer for the whole wait, even if records come. So its requests are
always brisk, and it answers with the first byte.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

FETCH_WAIT_MS: Final = 50
"""Maximum delay of a tick while anything waits for it."""

FETCH_MIN_BYTES: Final = 64 << 10
TICK_NS: Final = 50_000_000
"""Minimum time between two ticks of a partition at its end."""

QUIET_WAIT_MS: Final = 1_000
QUIET_TICK_NS: Final = 2_000_000_000
SILENT_WAIT_MS: Final = 2_000


class Pace(NamedTuple):
    """The waiting times of one pace.

    `poll_s` is how long a poll waits for records. `fetch_wait_ms` is how long the broker waits for
    `fetch_min_bytes`. `tick_ns` is the time between two ticks of a partition. `look_s` is how long
    the client sleeps before it checks for something to fetch; an answer wakes it earlier.
    """

    poll_s: float
    fetch_wait_ms: int
    fetch_min_bytes: int
    tick_ns: int
    look_s: float


LOOK_S: Final = 0.2
"""The client's own default for the pause between its checks for something to fetch."""

BRISK: Final = Pace(FETCH_WAIT_MS / 1e3, FETCH_WAIT_MS, FETCH_MIN_BYTES, TICK_NS, LOOK_S)
QUIET: Final = Pace(QUIET_WAIT_MS / 1e3, QUIET_WAIT_MS, 1, QUIET_TICK_NS, QUIET_WAIT_MS / 1e3)
SILENT: Final = Pace(SILENT_WAIT_MS / 1e3, SILENT_WAIT_MS, 1, QUIET_TICK_NS, SILENT_WAIT_MS / 1e3)
ALWAYS: Final = Pace(FETCH_WAIT_MS / 1e3, FETCH_WAIT_MS, 1, TICK_NS, LOOK_S)
"""The pace for the embedded broker."""


class Pacing:
    """Controls the pace of one consumer by changing the settings of its `fetcher`.

    Use it in the consumer's thread only. With `is_fixed`, the pace is always `ALWAYS`, as the
    embedded broker needs. `wants_ticks` says whether the handler needs ticks when no records
    arrive.
    """

    def __init__(self, fetcher: Any, *, is_fixed: bool, wants_ticks: bool) -> None:
        self._fetcher = fetcher
        self._brisk = ALWAYS if is_fixed else BRISK
        self._quiet = ALWAYS if is_fixed else QUIET if wants_ticks else SILENT
        self._has_received = False
        self._set(self._brisk)

    def quicken(self) -> None:
        """Switch to the brisk pace; the idle handler may not have seen the new records yet."""
        self._has_received = True
        self._set(self._brisk)

    def choose_pace(self, *, rests: bool) -> Pace:
        """Set and return the pace of the next poll; `rests` says whether the handler is idle."""
        pace = self._quiet if rests and not self._has_received else self._brisk
        self._has_received = False
        self._set(pace)
        return pace

    def _set(self, pace: Pace) -> None:
        self._fetcher._fetch_max_wait_ms = pace.fetch_wait_ms
        self._fetcher._fetch_min_bytes = pace.fetch_min_bytes
        self._fetcher._fetcher_timeout = pace.look_s
