"""Make events from milliseconds, and copy them so that a test can use them again.

Operators change the events that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, Final

from topology.base.event import DATA, NO_EPOCH, WATERMARK, Event, copy_event
from topology.base.outcome import Malformed

MS: Final = 1_000_000
FIELDS: Final = tuple(name for name in dir(Event) if name[0] != "_")


def event(
    seq: int,
    ts: float,
    at: float | None = None,
    source: str = "s",
    *,
    stream: str = "default",
    epoch: int = 0,
    kind: str = DATA,
    type_: str = "",
    value: Any = None,
    error: float = 0,
    late: str = "",
    offset: int | None = None,
) -> Event:
    """Return an event with timestamp `ts` that arrives at `at` (by default at `ts`), all in ms.

    Its offset is its sequence number unless one is given.
    """
    ts_ns = round(ts * MS)
    at_ns = ts_ns if at is None else round(at * MS)
    offset = seq if offset is None else offset
    made = Event(
        stream, source, epoch, seq, ts_ns, at_ns, offset, kind=kind, type=type_, value=value
    )
    made.error_ns = round(error * MS)
    made.late = late
    return made


def watermark(
    to: float,
    complete: float | None = None,
    at: float | None = None,
    *,
    stream: str = "default",
    error: float = 0,
) -> Event:
    """Return a watermark at `to`, complete up to `complete`, sent at `at`, all in ms.

    `complete` and `at` are `to` by default.
    """
    at = to if at is None else at
    made = event(0, to, at, "", stream=stream, kind=WATERMARK, error=error)
    made.complete_ns = round((to if complete is None else complete) * MS)
    return made


def copies(events: Iterable[Event]) -> list[Event]:
    return [copy_event(event) for event in events]


def made_once(stream: Callable[[int], list[Event]]) -> Callable[[int], list[Event]]:
    """Cache the stream by seed; each call returns fresh copies."""
    made = lru_cache(maxsize=64)(stream)

    @wraps(stream)
    def of(seed: int) -> list[Event]:
        return copies(made(seed))

    return of


def fields(event: Any, *but: str) -> dict[str, Any]:
    """Return all fields of an event but those named."""
    assert isinstance(event, Event), event
    return {name: getattr(event, name) for name in FIELDS if name not in but}


def place_of(dead: Malformed) -> tuple[Any, ...]:
    return dead.stream, dead.source, dead.epoch, dead.seq


def place(source: str, seq: int, lost: str = "") -> tuple[Any, ...]:
    """Return stream, source, epoch and seq of a dead letter, with None for each missing value."""
    known = {"stream": "default", "source": source, "epoch": NO_EPOCH, "seq": seq}
    return tuple(None if name in lost.split() else value for name, value in known.items())
