"""Oracle of REORDER by time: slow, over plain lists, one source, a given wait.

Time goes through each tick. At the end of a tick, when all its arrivals are in, the source's clock
is its newest time plus the time since that arrived. From then on, all events at or below that clock
less the wait can be emitted. An event that has waited for `max_wait` is emitted with all events
before it. Emitted events are in the order (time, place in the log). An event with (time, place)
below the last one emitted in order is late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Arrival(NamedTuple):
    at: int
    time: int
    place: int


class Left(NamedTuple):
    at: int
    place: int
    late: bool


def by_time(arrivals: Sequence[Arrival], wait: int, max_wait: int) -> list[Left]:
    """Return the emitted events in order; at one tick the late ones come first."""
    left: list[Left] = []
    held: list[Arrival] = []
    newest: Arrival | None = None
    last = (-(10**18), 0)
    frontier = -(10**18)
    until = max(one.at for one in arrivals) + max_wait
    for tick in range(min(one.at for one in arrivals), until + 1):
        for one in arrivals:
            if one.at != tick:
                continue
            if (one.time, one.place) < last:
                left.append(Left(tick, one.place, late=True))
            else:
                held.append(one)
            if newest is None or one.time > newest.time:
                newest = one
        if newest is not None:
            frontier = max(frontier, newest.time + tick - newest.at - wait)
        overdue = [(one.time, one.place) for one in held if one.at + max_wait <= tick]
        until_key = max(overdue, default=(-(10**18), 0))
        for one in sorted(held, key=lambda held_one: (held_one.time, held_one.place)):
            if one.time <= frontier or (one.time, one.place) <= until_key:
                held.remove(one)
                left.append(Left(tick, one.place, late=False))
                last = (one.time, one.place)
    assert not held
    return left
