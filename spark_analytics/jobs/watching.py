"""Figures of the batches of running queries: one listener, no polling.

Spark calls the listener once for each batch of a query and once when it ends; asking for
`recentProgress` instead would bring the last hundred batches over to Python each time. `Watch`
keeps a `Figures` for each query by its name, and `changed` is set whenever a query has ended or
dropped a row, which is all that whoever waits for queries has to look at.

Java calls from a thread of its own; each call replaces one value, so readers need no lock. Spark
reports a batch some time after it, so a query that has ended is asked once more (`settle`).
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
"""How a batch calls the time for which it asked its source for what is new."""


@dataclass(frozen=True)
class Figures:
    """What a query did since it was started here. `dropped`: rows that the watermark had passed."""

    looks: int = 0
    """How often its source was asked for what is new. A batch that an earlier run had planned is
    done without that; where there is nothing to do, Spark says so every ten seconds."""

    rows: int = 0
    dropped: int = 0

    def after(self, progress: Any) -> Figures:
        """With one batch more, a `StreamingQueryProgress`."""
        return Figures(
            self.looks + (LOOK in progress.durationMs),
            self.rows + max(0, progress.numInputRows),
            self.dropped + _dropped(progress),
        )


class Watch(StreamingQueryListener):
    """Figures of the queries with these names."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names
        self.figures: dict[str, Figures] = {name: Figures() for name in names}
        self._of_run: dict[UUID, str] = {}
        self.changed = threading.Event()
        self.ended = False
        """One of them has."""

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
    """Rows that a query which has ended dropped in its last batches; one call for each of them,
    so it is for the end."""
    return sum(map(_dropped, query.recentProgress))


def _dropped(progress: Any) -> int:
    return sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
