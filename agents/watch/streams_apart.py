"""Notices a stream that is said to be keyed by stream and comes in several partitions.

With `keyed_by: stream` reorder and merge are one stage, and each partition is put in order by
itself. Where a producer keys its records otherwise, a stream's parts come out as several orders,
and nothing else would tell. One process sees the partitions that it owns: parts that lie with two
processes are not noticed by either. Each stream is told once.

Cost: O(partitions x streams) for each look; memory the same.

Proved by: tests/agents/watch/test_streams_apart.py
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""Topic and partition."""


class StreamsApart:
    """`streams`: those of which the topology file says `keyed_by: stream`."""

    def __init__(self, streams: Collection[str]) -> None:
        self._untold = set(streams)

    def look(self, spoken: Mapping[Place, Collection[str]]) -> None:
        """`spoken`: the streams whose events have come, by partition."""
        if len(spoken) < 2 or not self._untold:
            return
        homes: dict[str, list[Place]] = {}
        for place in sorted(spoken):
            for stream in self._untold.intersection(spoken[place]):
                homes.setdefault(stream, []).append(place)
        for stream, places in homes.items():
            if len(places) > 1:
                self._untold.remove(stream)
                self._tell(stream, places)

    def _tell(self, stream: str, places: Collection[Place]) -> None:
        log.warning(
            "stream %s comes in several partitions (%s), and the topology file says `keyed_by:"
            " stream`: each part is put in order by itself, so the stream's output is in no one"
            " order; key its records by stream, or write `keyed_by: source` and name a new"
            " application",
            stream,
            ", ".join(f"{topic}/{number}" for topic, number in places),
        )
