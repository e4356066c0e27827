"""Defines the order of the items that a detector reads: events, and timers between them.

Items are in the order of their *keys*, `(time_ns, kind, source, epoch, seq)`, which are unique. A
timer comes after all events of its own instant. The order of arrival is not part of the key, so no
result depends on it.

A *position* is a key between items. `before(t)` is before all items of the instant t. `behind(t)`
is after the events of that instant and before its timer.
"""

from __future__ import annotations

from typing import Any, Final

from topology.base.event import Event
from topology.base.operator import NEVER
from topology.state.saved import BIG, INT, TEXT, tuple_of

Key = tuple[int, int, str, int, int]

KEY: Final = tuple_of(BIG, INT, TEXT, INT, INT)

EVENT: Final = 0
TIMER: Final = 1

FIRST: Final[Key] = (-NEVER, EVENT, "", -1, -1)
"""The position before all items."""
LAST: Final[Key] = (NEVER, TIMER, "", 0, 0)
"""The key of the end of the input."""
BEHIND_ALL: Final[Key] = (NEVER + 1, TIMER, "", 0, 0)


def key_of(event: Event) -> Key:
    return (event.ref_time_ns, EVENT, event.source, event.epoch, event.seq)


def key_after(event: Event) -> Key:
    """Return the position directly after the event."""
    return (event.ref_time_ns, EVENT, event.source, event.epoch, event.seq + 1)


def timer_key(time_ns: int) -> Key:
    return (time_ns, TIMER, "", 0, 0)


def key_before_all_at(time_ns: int) -> Key:
    return (time_ns, EVENT, "", -1, -1)


def behind(time_ns: int) -> Key:
    return (time_ns, TIMER, "", -1, -1)


UNREAD: Final = -2 * NEVER
"""The `high_ns` of an event that has not been read; it is earlier than any time."""


class Seen:
    """An event as a detector sees it, without its arrival time.

    All detectors that read the event share its payload, so none may change it. `unsure` is true if
    the event was made from an uncertain result.
    """

    __slots__ = ("epoch", "error_ns", "payload", "seq", "source", "time_ns", "type", "unsure")

    def __init__(
        self,
        type: str,
        time_ns: int,
        payload: Any,
        source: str = "",
        epoch: int = 0,
        seq: int = 0,
        error_ns: int = 0,
        unsure: bool = False,
    ) -> None:
        self.unsure = unsure
        self.type = type
        self.time_ns = time_ns
        self.payload = payload
        self.source = source
        self.epoch = epoch
        self.seq = seq
        self.error_ns = error_ns

    @property
    def key(self) -> Key:
        return (self.time_ns, EVENT, self.source, self.epoch, self.seq)

    def __repr__(self) -> str:
        return f"<Seen {self.type} {self.source}/{self.epoch:d}/{self.seq:d} at {self.time_ns}>"


def seen_of(event: Event, payload: Any) -> Seen:
    return Seen(
        event.type,
        event.ref_time_ns,
        payload,
        event.source,
        event.epoch,
        event.seq,
        event.error_ns,
    )


class LogEntry:
    """An event in the log of a key.

    Attributes:
        after: The copy of the state after the event, or ABSENT without a savepoint. A savepoint
            consists of this copy and `high_ns`.
        high_ns: The cursor's `high_ns` after the event, or UNREAD before it is read.
        name: The name of the result that the event was made from (`result_event`), or "". The key
            of an event made from a result has another form.
    """

    __slots__ = ("after", "event", "high_ns", "key", "name", "seen")

    def __init__(
        self, seen: Seen, event: Event | None = None, key: Key | None = None, name: str = ""
    ) -> None:
        self.key: Key = seen.key if key is None else key
        self.name = name
        self.seen = seen
        self.event = event
        self.after: Any = ABSENT
        self.high_ns: int = UNREAD


ABSENT: Final = object()
"""The value of `LogEntry.after` without a savepoint."""


def entry_key(entry: LogEntry) -> Key:
    return entry.key
