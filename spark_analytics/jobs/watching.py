"""Collect figures of the batches of running queries by one listener, without polling.

Spark calls the listener once for each batch of a query and once when the query ends. (Polling
`recentProgress` would transfer the last hundred batches to Python each time.) `Watch` has a
`Figures` for each query by its name. It sets `changed` whenever a query has ended or dropped a row,
so waiting code need not look at anything else.

Java calls the listener from a separate thread. Each call replaces one value, so other threads
need no lock. Spark reports a batch some time after its end, so the last batches of an ended query
are requested once more (`settle`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

LOOK: Final = "latestOffset"
"""The key of the time that a batch spent asking its source for new records."""


@dataclass(frozen=True)
class Figures:
    """Counts of a query's work since it was started in this process.

    `dropped` counts the rows that Spark dropped because the watermark had passed them.
    """

    looks: int = 0
    """The number of times that Spark asked the query's source for new records.

    A batch that an earlier run planned does not ask. While there are no records, Spark reports
    every ten seconds that it asked.
    """

    rows: int = 0
    dropped: int = 0

    def after(self, progress: Any) -> Figures:
        """Return the figures after one more batch, given its `StreamingQueryProgress`."""
        return Figures(
            self.looks + (LOOK in progress.durationMs),
            self.rows + max(0, progress.numInputRows),
            self.dropped + _count_dropped(progress),
        )


class Watch(StreamingQueryListener):
    """A listener that keeps the figures of the queries with these names."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names
        self.figures: dict[str, Figures] = {name: Figures() for name in names}
        self._of_run: dict[UUID, str] = {}
        self.changed = threading.Event()
        self.ended = False
        """Whether one of the queries has ended."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        if event.name in self._names:
            self._of_run[event.runId] = event.name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        name = event.progress.name
        if name not in self._names:
            return
        found = self.figures[name] = self.figures[name].after(event.progress)
        if found.dropped:
            self.changed.set()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        name = self._of_run.get(event.runId)
        if name is not None:
            self.figures[name] = replace(self.figures[name], looks=self.figures[name].looks + 1)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self.ended = True
        self.changed.set()


def settle(query: StreamingQuery) -> int:
    """Return the number of rows that an ended query dropped in its last batches.

    It calls Java once for each of these batches, so it is used only at the end.
    """
    return sum(map(_count_dropped, query.recentProgress))


def _count_dropped(progress: Any) -> int:
    return sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
