"""Describes the upstream partitions of a derived topic, which the header `lane` numbers.

A derived topic is one that a stage writes and another stage reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from topology.base.event import Event

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""


class Lanes(NamedTuple):
    """The upstream partitions from which one partition of a derived topic can get records.

    `places` has the input topic and its partition for each number in `lane`. `awaited` has the
    numbers of the upstream partitions whose streams can reach this partition. Only those send it
    progress, so only those are awaited.
    """

    places: tuple[Place, ...]
    awaited: frozenset[int]


OFFSET_BITS: Final = 48
"""The bits of `Event.offset` that are the record's offset; the bits above are the lane's number.

So the events of a task have different numbers, which do not depend on how many lanes there are.
"""

MOST_LANES: Final = 1 << 14
"""The largest number of lanes, so that the numbers fit into small integers of compiled code."""


def lane_of(number: int) -> int:
    """Return the lane that is part of an event's `offset` (`OFFSET_BITS`)."""
    return abs(number) >> OFFSET_BITS


def offset_in_lane(number: int) -> int:
    """Return the offset in its lane that is part of an event's `offset`."""
    offset = abs(number) & ((1 << OFFSET_BITS) - 1)
    return offset if number >= 0 else -offset


def number_of(lane: int, offset: int) -> int:
    """Return the number of an event of this lane, from its offset there, or from its number.

    The event of a history has an offset below 0, which is in no log.
    """
    begin = lane << OFFSET_BITS
    offset = offset_in_lane(offset)
    return begin + offset if offset >= 0 else offset - begin


def lanes_of(topic: str, partitions: int) -> Lanes:
    """Return the partitions of a single input topic, all of which can reach this partition."""
    return Lanes(tuple((topic, each) for each in range(partitions)), frozenset(range(partitions)))


def number_events(events: Iterable[Event], lane: int) -> None:
    """Give events that were read from a lane its number, and offsets that name the lane."""
    first = number_of(lane, 0)
    for event in events:
        event.lane = lane
        offset = event.offset
        is_plain = 0 <= offset < first
        event.offset = first + offset if is_plain else number_of(lane, offset)
