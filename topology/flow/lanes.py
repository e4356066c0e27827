"""The upstream partitions of a derived topic, by the numbers that its header `lane` bears."""

from __future__ import annotations

from typing import NamedTuple

Place = tuple[str, int]
"""A topic and a partition of it."""


class Lanes(NamedTuple):
    """The upstream partitions as one partition of a derived topic sees them.

    `places`: by the number of the lane, the input topic and its partition. `awaited`: the lanes
    whose streams can come by this partition. Only those send it progress, so only those are waited
    for.
    """

    places: tuple[Place, ...]
    awaited: frozenset[int]


def lanes_of(topic: str, partitions: int) -> Lanes:
    """Return the lanes of a single input topic, whose streams all come by this partition."""
    return Lanes(tuple((topic, each) for each in range(partitions)), frozenset(range(partitions)))
