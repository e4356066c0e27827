"""Decides when time may advance without records on the embedded broker.

The embedded broker sets no arrival times. A recording that `inorder produce --as-now` publishes
has its own, in the records' timestamps (`inorder.playback`). Every wait and every
clock is measured by arrivals, so only with these does a worker come to the answers of a replay.
So two things hold on this broker:

* Before the first record of a process, no partition's time advances. A worker that was ready for
  a minute would otherwise be ahead of the whole recording.
* During a recording, time advances with its records alone. At its end, or `GRACE_MS` after a record
  is overdue, time advances to the present.

A recording that follows other records arrives in their present, as time never goes back. Brokers
with append times (LogAppendTime) need none of this: their records arrive when they are appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from inorder.playback import OVER, PLAYBACK, decode

MOST_AHEAD_MS: Final = 86_400_000
"""The longest time for which a record may hold time: a day. A later one is not believed."""


class Playback:
    """The recordings that the partitions of one process read, by topic.

    Memory: a number for each input topic.
    """

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}
        self._has_begun = False

    def note_records(self, topic: str, records: Sequence[Any]) -> bool:
        """Note the records of a topic, and return whether their timestamps are arrival times."""
        self._has_begun = True
        found = [
            decode(value)
            for record in records
            for name, value in record.headers
            if name == PLAYBACK
        ]
        if found:
            self._until_ms[topic] = found[-1]
        return bool(found)

    def let_time_advance(self) -> None:
        """Let time advance: records were read before this process began."""
        self._has_begun = True

    def is_holding_time(self, now_ms: int) -> bool:
        """Return whether time must not advance without records."""
        return not self._has_begun or any(
            until_ms != OVER and now_ms < until_ms <= now_ms + MOST_AHEAD_MS
            for until_ms in self._until_ms.values()
        )
