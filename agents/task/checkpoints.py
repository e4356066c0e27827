"""Decides when a checkpoint of a partition is cut, commits it, and handles its failure.

The calls, in order: `Partition._begin_checkpoint`, then here `begin`, `_cut` and `_commit`, then
`Delivery.commit` and `CopyWriter.note`.

* A checkpoint is due `checkpoint` after the last cut, when the waiting work is at its limit
  (`agents.stage.checkpoint_size`), and within a long batch. While a backlog would fill several
  checkpoints, nobody waits for the newest outputs, and the limit alone counts for up to
  `BACKLOG_S`. A checkpoint is cut (its content is collected) between two pieces of a batch, without
  an await. So the encoded outputs, the changes of state (`agents.restore.partition_state`) and the
  next offset belong together.
* The next batches are processed during the commit. Only one checkpoint is in flight at a time.
* It reaches Kafka in one transaction (`agents.stage.delivery`); with `at_least_once` the outputs
  are sent before that transaction. A separate thread writes the local copy after the commit, so the
  copy is never ahead of the changelog.
* If a checkpoint fails, memory is ahead of the log, so nothing is retried from memory.
  `CommitFailed` becomes a `PartitionReset` (`agents.task.handler`) at the next call of
  `Partition.take`, which comes within two seconds. The transport revokes the partition and opens it
  again, usually in this process. After `MAX_RESETS` without progress the next failure ends the
  process; `StateRefused` ends it at once.

There is one exception. Everything was sent and the end of the transaction was requested once, but
the connection broke or no answer came. Then a new producer replaces the old one. Its start settles
the transaction, and the broker refuses anything of the old one that is still in flight. The
changelog is in the transaction, so it shows the outcome:

| the changelog since the last checkpoint has | so | then |
| --- | --- | --- |
| the changes of this one | it is committed | the state in memory is right, and work goes on |
| anything else, usually nothing | it is aborted, or another owner wrote | `CommitFailed` |

The first case costs a producer's start and one read, some 50 ms on one machine. The second costs a
restore. All changes are compared, so half of a transaction is not taken for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aiokafka.structs import TopicPartition

from agents.restore.partition_state import PartitionState
from agents.restore.restoring import Restoring
from agents.stage.checkpoint_size import CheckpointSize
from agents.stage.delivery import Checkpoint, CommitFailed, Delivery, EndUnanswered
from agents.stage.outbox import Outbox
from agents.state.copy_writer import CopyWriter
from agents.watch.metrics.partition import PartitionMetrics

log = logging.getLogger(__name__)

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
BACKLOG_S: Final = 1.0
"""Time between two cuts up to which checkpoints grow while there is a backlog."""

MARKER: Final = 1
"""Number of offsets that the commit marker of a transaction takes."""


@dataclass(eq=False)
class PartitionCheckpoints:
    """The checkpoints of one partition, `every_s` apart.

    Attributes:
        log_end: End offset of the changelog after the last commit.
        taken: Number of records processed since the last cut.
        commits: Number of commits since the partition was opened.
        offsets: Next offset of each input partition at the last commit, or in the restored state.
        needed_from: First offset that a restore from the last commit would read again; None if
          purging does not need it.
        at_s: Monotonic time of the last commit, in seconds; None before the first.
    """

    state: PartitionState
    outbox: Outbox
    delivery: Delivery
    restoring: Restoring
    copying: CopyWriter
    size: CheckpointSize
    metrics: PartitionMetrics
    every_s: float
    log_end: int = field(default=0, init=False)
    taken: int = field(default=0, init=False)
    commits: int = field(default=0, init=False)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict, init=False)
    needed_from: int | None = field(default=None, init=False)
    at_s: float | None = field(default=None, init=False)
    _cut_s: float = field(default=0.0, init=False)
    _in_flight: asyncio.Task[None] | None = field(default=None, init=False)

    # -- when ------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether no more work may wait for the next checkpoint."""
        return self.taken >= self.size.records or self.outbox.bytes >= self.size.bytes

    def is_due(self, unread: int) -> bool:
        """Return whether a checkpoint is due, and none is in flight or has failed.

        `unread` is the number of records that the input has beyond those that were taken. It
        includes those that cannot be read yet, as in an open transaction.
        """
        if self._in_flight is not None and self._in_flight.done():
            if self._in_flight.exception() is not None:
                # `take` raises the exception, and the transport then resets the partition.
                return False
            self._in_flight = None
        every_s = max(self.every_s, BACKLOG_S) if unread > self.size.records else self.every_s
        return self._in_flight is None and time.monotonic() - self._cut_s >= every_s

    @property
    def is_owed(self) -> bool:
        """Whether processed records wait for a checkpoint, or a checkpoint is in flight."""
        return self._in_flight is not None or bool(self.taken or self.outbox.records)

    # -- cut and commit ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Cut a checkpoint, if there is anything to commit, and start its commit."""
        if not self.state.has_begun or not (self.taken or self.outbox.records):
            return
        size = self.taken, self.outbox.bytes
        with self.size.measure_cut(self.taken):
            checkpoint = self._cut()
        self.taken = 0
        self._cut_s = time.monotonic()
        self._in_flight = asyncio.create_task(self._commit(checkpoint, *size))

    async def write(self, whole: Mapping[bytes, bytes] | None = None) -> None:
        """Commit a checkpoint before the partition processes its first record.

        `whole` is a complete state to write, if the changelog has none yet.
        """
        checkpoint = self._cut()
        changes = {**(whole or {}), **checkpoint.changes}
        await self._commit(checkpoint._replace(changes=changes), 0, 0)

    def _cut(self) -> Checkpoint:
        """Collect the changes, the outputs and the offset at one moment, without an await."""
        state = self.state
        changes = state.changes(self.log_end)
        self.metrics.cut(changes)
        outputs, needed_from = self.outbox.take(), state.needed_from()
        return Checkpoint(outputs, changes, state.source, state.offsets(), needed_from)

    async def _commit(self, checkpoint: Checkpoint, records: int, payload_bytes: int) -> None:
        """Commit a checkpoint of `records` records, whose outputs have `payload_bytes` of payload.

        Raises CommitFailed if the commit did not succeed, and StateRefused if the changelog has
        lost its end.
        """
        started_s = time.monotonic()
        try:
            end = await self._send_commit(checkpoint)
        except CommitFailed:
            self.metrics.count_abort()
            self.size.note_failure()
            raise
        self.restoring.check_end(self.log_end, end)
        self.log_end = end
        self.at_s = time.monotonic()
        took_s = self.at_s - started_s
        self.metrics.count_commit(took_s)
        self.size.note_commit(took_s, records, payload_bytes)
        self.commits += 1
        self.offsets, self.needed_from = checkpoint.offsets, checkpoint.needed_from
        self.copying.note(checkpoint.changes, end)

    async def _send_commit(self, checkpoint: Checkpoint) -> int:
        """Commit a checkpoint, and return the changelog offset after its changes."""
        try:
            return await self.delivery.commit(checkpoint)
        except EndUnanswered as unanswered:
            return await self._find_outcome(checkpoint, unanswered)

    async def _find_outcome(self, checkpoint: Checkpoint, unanswered: EndUnanswered) -> int:
        """Read from the changelog whether an unanswered commit succeeded.

        Returns the changelog offset after the changes; raises CommitFailed if the commit failed or
        the outcome cannot be read.
        """
        try:
            await self.delivery.renew()
            found = await self.restoring.changes_since(self.log_end)
        except Exception as failed:
            raise CommitFailed(f"{type(failed).__name__}: {failed}") from failed
        is_there = found.changes == checkpoint.changes
        self.metrics.count_unanswered(COMMITTED if is_there else ABORTED)
        if not is_there:
            raise CommitFailed(
                f"the brokers did not answer whether a transaction was committed ({unanswered}),"
                " and it was not"
            ) from unanswered
        log.warning(
            "%s/%d: the brokers did not answer whether a transaction was committed (%s); it was,"
            " and work continues with a new producer",
            *(*checkpoint.source, unanswered),
        )
        return found.end

    # -- completion and close ----------------------------------------------------------------------

    async def await_commit(self) -> None:
        """Wait for the checkpoint in flight, if any, and raise its exception if it failed."""
        if self._in_flight is not None:
            await asyncio.wait([self._in_flight])
            self.raise_last_failure()

    def raise_last_failure(self) -> None:
        """Raise the exception of the last checkpoint if it failed."""
        if self._in_flight is not None and self._in_flight.done():
            self._in_flight.result()
            self._in_flight = None

    async def is_current(self) -> bool:
        """Return whether no other owner has committed to the changelog since the last commit."""
        return await self.restoring.read_changelog_end() - self.log_end <= MARKER

    async def close(self) -> None:
        """Cancel the checkpoint in flight, and close the producer and the local copy."""
        if self._in_flight is not None:
            self._in_flight.cancel()
            await asyncio.wait([self._in_flight])
            self._in_flight = None
        await self.delivery.stop()
        await self.copying.close()
