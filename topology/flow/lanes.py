"""Describes the upstream partitions of a derived topic, by the numbers in its header `lane`."""

from __future__ import annotations

from typing import NamedTuple

Place = tuple[str, int]
"""A topic and a partition of it."""


class Lanes(NamedTuple):
    """The upstream partitions as one partition of a derived topic sees them.

    `places` has the input topic and its partition for each number in `lane`. `awaited` has the
    numbers of the upstream partitions whose streams can reach this partition. Only those send it
    progress, so only those are awaited.
    """

    places: tuple[Place, ...]
    awaited: frozenset[int]


def lanes_of(topic: str, partitions: int) -> Lanes:
    """Return the partitions of a single input topic, all of which can reach this partition."""
    return Lanes(tuple((topic, each) for each in range(partitions)), frozenset(range(partitions)))
