"""Warns of a stream with `keyed_by: stream` whose events are in several partitions.

With `keyed_by: stream`, REORDER and MERGE are one stage, and each partition is put in order
separately. If a producer keys its records otherwise, the parts of a stream are emitted in separate
orders, and no other check would show it. A process sees only the partitions that it owns, so parts
in two processes are not noticed. Each stream is reported once.

Cost: O(partitions x streams) for each check; memory the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""Topic and partition."""


class StreamsApart:
    """A check of the `streams` for which the topology file says `keyed_by: stream`."""

    def __init__(self, streams: Collection[str]) -> None:
        self._unreported = set(streams)

    def check(self, streams_seen: Mapping[Place, Collection[str]]) -> None:
        """Warn of streams whose events have been read in several partitions.

        `streams_seen` has, for each partition, the streams of the events that were read.
        """
        if len(streams_seen) < 2 or not self._unreported:
            return
        homes: dict[str, list[str]] = {}
        for place in sorted(streams_seen):
            for stream in self._unreported.intersection(streams_seen[place]):
                homes.setdefault(stream, []).append(f"{place[0]}/{place[1]}")
        for stream, places in homes.items():
            if len(places) > 1:
                self._unreported.remove(stream)
                log.warning(
                    "stream %s is in several partitions (%s), but the topology file says"
                    " `keyed_by: stream`: each part is put in order separately, so the stream's"
                    " output as a whole is not in order; key its records by stream, or start a new"
                    " application with `keyed_by: source`, a new input topic and new output topics",
                    *(stream, ", ".join(places)),
                )
