"""REORDER by time, by definition: slow, over plain lists, one source, a given wait.

Time goes through every tick. At the end of a tick (all its arrivals are in) the source's clock
is taken to stand at its newest time and what has passed since that arrived. Everything at or
below that clock less the wait may leave, for ever after; an event that has waited for `max_wait`
leaves with all that is before it. What leaves does so in the order (time, place in the log).

An event that comes at a time below (time, place) of the last one that left in order is late.
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
    """In the order of leaving; at one tick the late ones first."""
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
