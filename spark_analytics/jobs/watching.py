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
from collections.abc import Callable
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

LAG: Final = "maxOffsetsBehindLatest"
"""How Kafka's source calls the records that the slowest partition has still to give."""


LOOK: Final = "latestOffset"
"""How a batch calls the time for which it asked its source for what is new."""


@dataclass(frozen=True)
class Figures:
    """What a query did since it was started here. `lag_records`: what its source still had when the
    last batch began, where it says so. `late` and `bad` of queries that count them."""

    batches: int = 0
    looks: int = 0
    """How often its source was asked for what is new. A batch that an earlier run had planned is
    done without that; where there is nothing to do, Spark says so every ten seconds."""

    rows: int = 0
    batch_s: float = 0.0
    """How long the last batch took, in seconds."""

    batches_s: float = 0.0
    lag_records: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    dropped: int = 0
    late: int = 0
    bad: int = 0

    def after(self, progress: Any) -> Figures:
        """With one batch more, a `StreamingQueryProgress`."""
        operators = progress.stateOperators
        took_s = progress.durationMs.get("triggerExecution", 0) / 1e3
        return replace(
            self,
            batches=self.batches + 1,
            looks=self.looks + (LOOK in progress.durationMs),
            rows=self.rows + max(0, progress.numInputRows),
            batch_s=took_s,
            batches_s=self.batches_s + took_s,
            lag_records=_lag(progress.sources),
            state_rows=sum(operator.numRowsTotal for operator in operators),
            state_bytes=sum(operator.memoryUsedBytes for operator in operators),
            dropped=self.dropped + sum(o.numRowsDroppedByWatermark for o in operators),
        )


class Watch(StreamingQueryListener):
    """Figures of the queries with these names."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names
        self.figures: dict[str, Figures] = {name: Figures() for name in names}
        self._of_run: dict[UUID, str] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self.changed = threading.Event()
        self.ended = False
        """One of them has."""

    def counting(self, name: str) -> Callable[[int, int], None]:
        """Takes a batch's late and bad rows, from the thread that writes it."""

        def count(late: int, bad: int) -> None:
            before = self._counted.get(name, (0, 0))
            self._counted[name] = (before[0] + late, before[1] + bad)

        return count

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        if event.name in self._names:
            self._of_run[event.runId] = event.name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        name = event.progress.name
        if name not in self._names:
            return
        late, bad = self._counted.get(name, (0, 0))
        found = replace(self.figures[name].after(event.progress), late=late, bad=bad)
        self.figures[name] = found
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
    return sum(
        operator.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for operator in progress.stateOperators
    )


def _lag(sources: Any) -> int | None:
    found = [source.metrics[LAG] for source in sources if LAG in (source.metrics or {})]
    return sum(int(float(each)) for each in found) if found else None
