"""Describes the upstream partitions of a derived topic, which the header `lane` numbers.

A derived topic is one that a stage writes and another stage reads.
"""

from __future__ import annotations

from typing import NamedTuple

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


def lanes_of(topic: str, partitions: int) -> Lanes:
    """Return the partitions of a single input topic, all of which can reach this partition."""
    return Lanes(tuple((topic, each) for each in range(partitions)), frozenset(range(partitions)))
