"""The checkpoints of one partition: when one is cut, how it is committed, what a failure leads to.

* One is due `checkpoint` after the last, or when so much waits that it is full
  (agents.stage.cutting). It is cut between two batches, without an await: the encoded outputs, the
  changes of state (agents.stage.partition_state) and the next offset belong together.
* While it is on its way the next batches are worked on. Only one is on its way at a time.
* It reaches Kafka in one transaction (agents.stage.delivery). The local copy is written after the
  commit, by a thread of its own. It can only lag.
* One that fails leaves memory ahead of the log, so nothing is retried from memory. `CommitFailed`
  becomes a `PartitionReset` (agents.stage.handler), and the transport revokes the partition and
  opens it anew, mostly in this process. After `MAX_RESETS` without progress the next failure ends
  the process.

With one exception: all was sent, the end of the transaction was asked for once, and then the
connection broke, or nothing came. Another producer takes the place of the one that asked: its start
decides the transaction, and whatever is still on its way of it is refused from then on. The
changelog, which is in the transaction, shows how it was decided:

| the changelog since the last checkpoint holds | so | then |
| --- | --- | --- |
| the changes of this one | it is committed | the state in memory is right, and work goes on |
| anything else, as a rule nothing | it is aborted, or another owner was at work | `CommitFailed` |

The first costs what a producer's start and one read cost, some 50 ms on one machine; the second a
restore. All changes are compared, so half of a transaction does not pass for one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agents.stage.cutting import CutSize
from agents.stage.delivery import Checkpoint, CommitFailed, Delivery, EndUnanswered
from agents.stage.outbox import Outbox
from agents.stage.partition_state import PartitionState
from agents.stage.restoring import Restoring
from agents.state.copy_writer import CopyWriter
from agents.watch.metrics.partition import PartitionMetrics

log = logging.getLogger(__name__)

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
MARKER: Final = 1
"""Offsets that the end of a transaction takes."""


@dataclass(eq=False)
class PartitionCheckpoints:
    """The checkpoints of one partition, `every_s` apart.

    Attributes:
        log_end: Where the changelog ended when the last one had come through.
        taken: Records worked on since the last one was cut.
        commits: How many came through since the partition was opened.
        next_offset: The input offset of the last of them, or of the state that was found.
        needed_from: The first offset that a restore from it reads again, where others ask for it.
        at_s: When it came through (monotonic); None before the first.
    """

    state: PartitionState
    outbox: Outbox
    delivery: Delivery
    restoring: Restoring
    copying: CopyWriter
    cutting: CutSize
    metrics: PartitionMetrics
    every_s: float
    log_end: int = field(default=0, init=False)
    taken: int = field(default=0, init=False)
    commits: int = field(default=0, init=False)
    next_offset: int = field(default=0, init=False)
    needed_from: int | None = field(default=None, init=False)
    at_s: float | None = field(default=None, init=False)
    _cut_s: float = field(default=0.0, init=False)
    _on_its_way: asyncio.Task[None] | None = field(default=None, init=False)

    # -- when ------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether no more may wait for the next one."""
        return self.taken >= self.cutting.records or self.outbox.bytes >= self.cutting.bytes

    def is_due(self) -> bool:
        """Return whether it is time for the next one, and none is on its way or has failed."""
        if self._on_its_way is not None and self._on_its_way.done():
            if self._on_its_way.exception() is not None:
                return False  # `take` raises it: the transport resets the partition then
            self._on_its_way = None
        return self._on_its_way is None and time.monotonic() - self._cut_s >= self.every_s

    @property
    def is_owed(self) -> bool:
        """Whether finished work waits for one, or for the end of one."""
        return self._on_its_way is not None or bool(self.taken or self.outbox.records)

    # -- cut and sent ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Cut one, if there is anything to commit, and send it on its way."""
        if self.state.next_offset is None or not (self.taken or self.outbox.records):
            return
        size = self.taken, self.outbox.bytes
        with self.cutting.timed(self.taken):
            checkpoint = self._cut()
        self.taken = 0
        self._cut_s = time.monotonic()
        self._on_its_way = asyncio.create_task(self._commit(checkpoint, *size))

    async def write(self, whole: Mapping[bytes, bytes] | None = None) -> None:
        """Commit one before the work begins. `whole`: a state that the changelog has not."""
        checkpoint = self._cut()
        changes = {**(whole or {}), **checkpoint.changes}
        await self._commit(checkpoint._replace(changes=changes), 0, 0)

    def _cut(self) -> Checkpoint:
        """Take the changes, the outputs and the offset of one moment: no await in between."""
        state = self.state
        assert state.next_offset is not None, "nothing was read"
        changes = state.changes(self.log_end)
        self.metrics.cut(changes)
        outputs, needed_from = self.outbox.take(), state.needed_from()
        return Checkpoint(outputs, changes, state.source, state.next_offset, needed_from)

    async def _commit(self, checkpoint: Checkpoint, records: int, payload_bytes: int) -> None:
        """Commit one after so many records, with so much in its outputs. CommitFailed where it has
        not come through, StateRefused where the changelog is not what it was."""
        started_s = time.monotonic()
        try:
            end = await self._end_of(checkpoint)
        except CommitFailed:
            self.metrics.aborted()
            self.cutting.failed()
            raise
        self.restoring.accept_end(self.log_end, end)
        self.log_end = end
        self.at_s = time.monotonic()
        took_s = self.at_s - started_s
        self.metrics.committed(took_s)
        self.cutting.committed(took_s, records, payload_bytes)
        self.commits += 1
        self.next_offset, self.needed_from = checkpoint.next_offset, checkpoint.needed_from
        self.copying.note(checkpoint.changes, end)

    async def _end_of(self, checkpoint: Checkpoint) -> int:
        """Commit, and return the changelog offset after the changes."""
        try:
            return await self.delivery.commit(checkpoint)
        except EndUnanswered as unanswered:
            return await self._found(checkpoint, unanswered)

    async def _found(self, checkpoint: Checkpoint, unanswered: EndUnanswered) -> int:
        """Return the same where the end was not answered, by what the changelog shows."""
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
            *(*checkpoint.source, unanswered),
        )
        return found.end

    # -- its end -----------------------------------------------------------------------------------

    async def arrived(self) -> None:
        """Wait for the one on its way. Raises its failure."""
        if self._on_its_way is not None:
            await asyncio.wait([self._on_its_way])
            self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the failure of the last one, if it has failed."""
        if self._on_its_way is not None and self._on_its_way.done():
            self._on_its_way.result()
            self._on_its_way = None

    async def is_current(self) -> bool:
        """Return whether nobody else has committed to the changelog."""
        return await self.restoring.changelog_end() - self.log_end <= MARKER

    async def close(self) -> None:
        """Give up the one on its way, and let go of producer and local copy."""
        if self._on_its_way is not None:
            self._on_its_way.cancel()
            await asyncio.wait([self._on_its_way])
            self._on_its_way = None
        await self.delivery.stop()
        await self.copying.close()
