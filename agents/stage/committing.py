"""The commits of one partition: how long they take, how they fail, and what became of one whose end
was not answered.

Such a transaction was whole, and its end was asked for once; then the connection broke, or nothing
came. Another producer takes the place of the one that asked: its start decides the transaction, and
whatever is still on its way of it is refused from then on. The changelog, which is in the
transaction, shows how it was decided:

| the changelog since the last checkpoint holds | so | then |
| --- | --- | --- |
| the changes of this one | it is committed | the state in memory is right, and work goes on |
| anything else, as a rule nothing | it is aborted, or another owner was at work | `CommitFailed` |

The first costs what a producer's start and one read cost, some 50 ms on one machine; the second a
restore. All changes are compared, so half of a transaction does not pass for one.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from agents.stage.cutting import CutSize
from agents.stage.delivery import Checkpoint, CommitFailed, Delivery, EndUnanswered
from agents.stage.restoring import Restoring
from agents.watch.metrics.partition import PartitionMetrics

log = logging.getLogger(__name__)

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
MARKER: Final = 1
"""Offsets that the end of a transaction takes."""


@dataclass(eq=False)
class Committing:
    """`log_end`: where the changelog ended when the last checkpoint had come through."""

    delivery: Delivery
    restoring: Restoring
    cutting: CutSize
    metrics: PartitionMetrics
    log_end: int = 0

    async def commit(self, checkpoint: Checkpoint, records: int, payload_bytes: int) -> None:
        """One after so many records, with so much in its outputs. CommitFailed where it has not
        come through, StateRefused where the changelog is not what it was."""
        started_s = time.monotonic()
        try:
            end = await self._end_of(checkpoint)
        except CommitFailed:
            self.metrics.aborted()
            self.cutting.failed()
            raise
        self.restoring.accept_end(self.log_end, end)
        self.log_end = end
        took_s = time.monotonic() - started_s
        self.metrics.committed(took_s)
        self.cutting.committed(took_s, records, payload_bytes)

    async def is_current(self) -> bool:
        """Whether nobody else has committed to the changelog."""
        return await self.restoring.changelog_end() - self.log_end <= MARKER

    async def _end_of(self, checkpoint: Checkpoint) -> int:
        """The changelog offset after its changes."""
        try:
            return await self.delivery.commit(checkpoint)
        except EndUnanswered as unanswered:
            return await self._found(checkpoint, unanswered)

    async def _found(self, checkpoint: Checkpoint, unanswered: EndUnanswered) -> int:
        try:
            await self.delivery.renew()
            found = await self.restoring.changes_since(self.log_end)
        except Exception as failed:
            raise CommitFailed(f"{type(failed).__name__}: {failed}") from failed
        is_there = found.changes == checkpoint.changes
        self.metrics.unanswered(COMMITTED if is_there else ABORTED)
        if not is_there:
            raise CommitFailed(
                f"the brokers did not answer whether a transaction was committed ({unanswered}),"
                " and it was not"
            ) from unanswered
        log.warning(
            "%s/%d: the brokers did not answer whether a transaction was committed (%s); it was,"
            " and work goes on with a new producer",
            checkpoint.source.topic,
            checkpoint.source.partition,
            unanswered,
        )
        return found.end
