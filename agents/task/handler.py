"""Owns all partitions of a stage in one process, as the transport's `Handler`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import GroupBatch, PartitionGroup, Partitions, steady_ns
from agents.kafka.throttling import OF_PROCESS
from agents.kafka.transport import PartitionReset
from agents.restore.restoring import run_together
from agents.restore.services import Services
from agents.restore.standby import Standby
from agents.stage.arrangement import Arrangement
from agents.stage.delivery import CommitFailed, CommitRefused
from agents.task.partition import FAR_BEHIND_NS, Partition
from agents.watch.location import is_informative
from agents.watch.port.question import Question
from agents.watch.stage_log import StageLog
from agents.watch.streams_apart import StreamsApart
from agents.watch.unhealthy import max_listed
from agents.watch.watchdog import Verdict, Watchdog

log = logging.getLogger(__name__)

PULSE_S: Final = 0.02
"""Time between two checks for due checkpoints; they are also checked with each batch."""

OPENED_AT_ONCE: Final = 16
"""Maximum number of partitions that are opened at the same time; the others wait for their turn.

This limits the number of fetches and of producers that connect.
"""

REFUSED_PAUSE_S: Final = 5.0
"""Time between a commit that lacks a right and the next try, in which the right may come back."""

REST_S: Final = 2.0
"""Time between two checks while all partitions are idle; a new record ends the wait."""


@dataclass(eq=False)
class StageHandler:
    """The owner of the stage's partitions, which opens, closes and watches them.

    `emptied` is called when the last partition has been released and nothing refers to it.
    """

    arrangement: Arrangement
    services: Services
    watchdog: Watchdog
    stage_log: StageLog
    emptied: Callable[[], None] = lambda: None
    _partitions: dict[TopicPartition, Partition] = field(default_factory=dict, init=False)
    _revoked: dict[TopicPartition, Partition] = field(default_factory=dict, init=False)
    """Revoked partitions that may be assigned to this process again."""
    _in_doubt: dict[TopicPartition, str] = field(default_factory=dict, init=False)
    """Partitions whose last checkpoint failed, with the refused right ("" for other reasons)."""

    def __post_init__(self) -> None:
        self._apart = StreamsApart(self.arrangement.single_partition_streams)
        self.standby = Standby(self.arrangement, self.services)
        self._turns = asyncio.Semaphore(OPENED_AT_ONCE)
        self._stirred = asyncio.Event()  # Set when records or partitions arrive.
        self.watchdog.leaving(time.monotonic_ns())

    # -- what the transport calls ---------------------------------------------------------

    @property
    def wants_ticks(self) -> bool:
        """Whether ticks advance time, as in input topics; in derived topics the records do."""
        return self.arrangement.is_first

    @property
    def rests(self) -> bool:
        """Whether no partition has buffered events or work that waits for time.

        If the next stage waits for progress of every input partition, other workers may be busy.
        Then the answer is True only if all partitions are in this process.
        """
        if self.arrangement.writes_progress:
            partitions = self.arrangement.partitions
            if len(self._partitions) < sum(partitions[t] for t in self.arrangement.inputs):
                return False
        return all(partition.rests for partition in self._partitions.values())

    async def on_assigned(self, partitions: Partitions) -> Mapping[TopicPartition, int]:
        stage = self.arrangement.stage.name
        self.services.metrics.rebalances.labels(stage).inc()
        self.watchdog.note_joining(time.monotonic_ns())
        self._stirred.set()
        revoked, self._revoked = self._revoked, {}
        names = self._names(partitions)
        for source in sorted(names):
            partition = revoked.pop(source, None) or self._new(source)
            self._partitions[source] = partition
            partition.is_queued, partition.is_read = True, False
            if source not in self._in_doubt:
                now_ns = time.monotonic_ns()
                self.watchdog.assign(now_ns, source)
                self.watchdog.report(now_ns, source, *partition.state.restored, restoring=True)
        if not names <= self._in_doubt.keys():
            self.stage_log.owns(self._owned)
        beside = [asyncio.create_task(self._release(revoked))]
        if names:
            beside.append(asyncio.create_task(self.standby.close(but=names)))
        try:
            opened = await run_together(*(self._open(source) for source in sorted(names)))
        finally:
            await asyncio.wait(beside)
        if not names:
            self.standby.follow_tasks()
        held = sum(self.arrangement.held_limit_bytes(source) for source in self._partitions)
        self.services.metrics.held_limit.labels(stage).set(held)
        self._count_partitions()
        return {lane: offset for begins in opened for lane, offset in begins.items()}

    def _names(self, partitions: Partitions) -> set[TopicPartition]:
        """Return the names of the tasks that read these partitions."""
        return {self.group_of(partition).name for partition in partitions}

    @property
    def _owned(self) -> list[TopicPartition]:
        return [lane for source in self._partitions for lane in self.group_of(source).lanes]

    def _new(self, source: TopicPartition) -> Partition:
        return Partition(source, self.arrangement, self.services)

    def _count_partitions(self) -> None:
        count = self.services.metrics.partitions.labels(self.arrangement.stage.name)
        count.set(len(self._owned))

    async def _open(self, source: TopicPartition) -> dict[TopicPartition, int]:
        partition = self._partitions[source]
        async with self._turns:
            partition.is_queued = False
            if partition.is_open:
                if await partition.checkpoints.is_current():
                    log.info("%s/%d: assigned again, and continues", *source)
                    return partition.state.offsets()
                await partition.abandon()
                partition = self._partitions[source] = self._new(source)
            elif (followed := await self.standby.hand_over(source)) is not None:
                partition.checkpoints.copying = followed
            return await partition.open()

    def on_reading(self, partitions: Partitions) -> None:
        """Report the partitions' positions to the watchdog at once.

        Without records and ticks, the first batch comes only after two seconds.
        """
        now_ns = time.monotonic_ns()
        for source in self._names(partitions) & self._partitions.keys():
            self._partitions[source].is_read = True
            self._report_to_watchdog(now_ns, source)

    @property
    def together(self) -> list[list[str]]:
        return self.arrangement.together

    def group_of(self, partition: TopicPartition) -> PartitionGroup:
        return self.arrangement.group_of(partition)

    def find_far_ahead(self, group: PartitionGroup) -> Iterable[TopicPartition]:
        task = self._partitions.get(group.name)
        return () if task is None else task.find_far_ahead()

    async def on_batch(self, batch: GroupBatch) -> None:
        partition = self._partitions[batch.name]
        if any(each.records for each in batch.batches):
            self._stirred.set()
        try:
            await partition.take(batch)
        except CommitFailed as failed:
            await self._note_failure(batch.name, failed)
            raise PartitionReset(str(failed)) from failed

    async def _note_failure(self, source: TopicPartition, failed: CommitFailed) -> None:
        """Record the failed checkpoint; if a right is missing, wait before the next try."""
        before = self._in_doubt.get(source)
        why = self._in_doubt[source] = str(failed) if isinstance(failed, CommitRefused) else ""
        if not why:
            return
        if why != before:
            log.error("%s/%d: %s", *source, why)
        await asyncio.sleep(REFUSED_PAUSE_S)

    async def on_revoked(self, partitions: Partitions) -> None:
        """Commit and release partitions, but keep their state: most are soon assigned here again.

        If one is assigned elsewhere, its next owner fences it. A reset revokes a single partition
        whose last checkpoint failed. The watchdog keeps that partition, so its stall still counts.
        """
        names = self._names(partitions)
        mine = [self._partitions.pop(source) for source in names & self._partitions.keys()]
        is_reset = len(names) == 1 and names <= self._in_doubt.keys()
        if not is_reset:
            for source in names & self._in_doubt.keys():
                del self._in_doubt[source]
            self.watchdog.leaving(time.monotonic_ns())
            for source in names:
                self.watchdog.revoke(time.monotonic_ns(), source)
        failed = await asyncio.gather(*(self._settle(partition) for partition in mine))
        if not is_reset:  # The transport logs the reason of a reset.
            _log_failures(failed)
        self._count_partitions()

    async def _settle(self, partition: Partition) -> tuple[str, str] | None:
        """Commit and keep a partition; return None if this succeeds.

        Otherwise return the partition's name and why its last checkpoint failed.
        """
        source = partition.source
        try:
            await partition.settle()
            if partition.is_open:
                self._revoked[source] = partition
        except CommitFailed as failed:
            return f"{source.topic}/{source.partition}", str(failed)
        finally:
            if self._revoked.get(source) is not partition:
                await partition.abandon()
        return None

    async def close(self) -> None:
        revoked, self._revoked = self._revoked, {}
        await self.standby.close()
        await self._release(revoked)

    async def _release(self, revoked: dict[TopicPartition, Partition]) -> None:
        """Close the revoked partitions that this process did not get back."""
        await asyncio.gather(*(partition.abandon() for partition in revoked.values()))
        revoked.clear()
        if not self._partitions:
            self.emptied()

    # -- what the process calls -----------------------------------------------------------

    async def beat(self) -> None:
        """Wait until the next pulse is due."""
        if not self.rests:
            await asyncio.sleep(PULSE_S)
            return
        self._stirred.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), REST_S)

    def pulse(self) -> None:
        """Begin the checkpoints that are due, and report positions to the watchdog."""
        now_ns = time.monotonic_ns()
        self.watchdog.note_throttling(now_ns, OF_PROCESS.until_ns)
        others_open = any(not (each.is_read or each.is_open) for each in self._partitions.values())
        for source, partition in self._partitions.items():
            if partition.is_open:
                partition.pulse()
            if partition.is_queued:
                self.watchdog.waits(now_ns, source)
                continue
            if partition.opening.waits:
                self.watchdog.waits(now_ns, source, partition.opening.waits)
                continue
            is_waiting = partition.waits_for_schemas or not partition.is_open
            if is_waiting and self.services.schemas.faults:
                self.watchdog.waits(now_ns, source, "waits for a schema")
                continue
            if not partition.is_open:
                self.watchdog.report(now_ns, source, *partition.state.restored, restoring=True)
                self.stage_log.log_restore(source, *partition.state.restored)
                continue
            self.stage_log.forget_restore(source)
            if partition.checkpoints.commits:
                self._in_doubt.pop(source, None)
            if not partition.is_read:
                # If no other is being opened, the transport is late to begin, and that delay
                # counts.
                if others_open:
                    self.watchdog.waits(now_ns, source)
            elif partition.got_batch or partition.checkpoints.is_owed or source in self._in_doubt:
                # A silent broker delivers no batch or tick, so nothing is reported then.
                partition.got_batch = False
                self._report_to_watchdog(now_ns, source)

    def _report_to_watchdog(self, now_ns: int, source: TopicPartition) -> None:
        """Report the position of an open partition."""
        partition = self._partitions[source]
        self.watchdog.report(
            now_ns,
            source,
            *partition.position,
            owes=partition.checkpoints.is_owed or source in self._in_doubt,
            commits=partition.checkpoints.commits,
        )

    def observe(self) -> None:
        self.standby.observe()
        for partition in self._open_partitions:
            partition.observe()
        off_ns = max((each.off_ns for each in self._partitions.values()), default=0)
        self.services.metrics.append_time_off.labels(self.arrangement.stage.name).set(off_ns / 1e9)
        if self.services.broker_times is not None:
            off_ns = self.services.broker_times.wall_off_ns(steady_ns())
            self.services.metrics.wall_clock_off.labels(self.arrangement.stage.name).set(
                off_ns / 1e9
            )
        self._apart.check({p: each.metrics.streams_seen for p, each in self._partitions.items()})

    def needed_from(self) -> dict[int, int]:
        """Return, for each partition number, the first offset that a restore would read.

        The offset is that of the last checkpoint; partitions without a checkpoint since they were
        opened are absent. The stage must read one topic.
        """
        found = {s.partition: each.checkpoints.needed_from for s, each in self._partitions.items()}
        return {number: offset for number, offset in found.items() if offset is not None}

    def verdict(self) -> Verdict:
        return self.watchdog.verdict(time.monotonic_ns())

    def is_well(self) -> bool:
        return not self.verdict().reasons

    def faults(self) -> tuple[str, ...]:
        """Return the faults of the schema registries, of missing rights, and of the input."""
        tasks = [each for _, each in sorted(self._partitions.items())]
        found = [*sorted(self._in_doubt.items()), *(at for each in tasks for at in each.faults())]
        of_partitions = (f"{at.topic}/{at.partition}: {fault}" for at, fault in found if fault)
        return (*self.services.schemas.faults, *of_partitions)

    def behind(self) -> tuple[str, ...]:
        """Return a line for each partition that lags by over `FAR_BEHIND_NS`, worst first.

        The line also says what a record takes, if records are costly.
        """
        lags = sorted(
            (-(lag_ns or 0), partition, lag, each.cost.text)
            for each in self._open_partitions
            for partition, lag, lag_ns in each.lags
        )
        return tuple(
            f"{source.topic}/{source.partition}: {records:,} records, {-ns / 1e9:.0f} s behind"
            + (cost and f"; {cost}")
            for ns, source, records, cost in lags
            if -ns > FAR_BEHIND_NS
        )

    def describe_stale(self) -> tuple[str, ...]:
        """Return a line for each topic whose timestamps are far behind arrivals."""
        return tuple(
            dict.fromkeys(line for each in self._open_partitions for line in each.describe_stale())
        )

    def last_checkpoint_s(self) -> float | None:
        """Return the monotonic time of the newest commit in seconds; None before the first."""
        times = (partition.checkpoints.at_s for partition in self._partitions.values())
        return max((at_s for at_s in times if at_s is not None), default=None)

    @property
    def _open_partitions(self) -> list[Partition]:
        found = (partition for _, partition in sorted(self._partitions.items()))
        return [partition for partition in found if partition.is_open]

    def explain(self) -> list[dict[str, Any]]:
        """Return, for each open partition, its buffered events and what it waits for."""
        about = {
            "stage": self.arrangement.stage.name,
            "cut": self.arrangement.topology.cut.why,
            "unmet": self.services.metrics.find_without_results(),
        }
        most = max_listed(len(self._open_partitions))
        return [{**about, **partition.explain(most)} for partition in self._open_partitions]

    def locate(self, asked: Question) -> list[dict[str, Any]]:
        """Return the facts about the event from each open partition that knows its source."""
        stage, names = self.arrangement.stage.name, self.arrangement.operator_names
        about = {"stage": stage, "operators": names}
        found = [{**about, **partition.locate(asked)} for partition in self._open_partitions]
        return [each for each in found if is_informative(each)]


def _log_failures(failed: Iterable[tuple[str, str] | None]) -> None:
    """Log one line for each reason why last checkpoints failed, with the partitions.

    Usually a partition is fenced: its new owner begins at the last checkpoint that was committed.
    """
    places: dict[str, list[str]] = {}
    for place, why in filter(None, failed):
        places.setdefault(why, []).append(place)
    for why, where in places.items():
        log.warning(
            "%s: the last checkpoint failed, so the next owner begins at the one before: %s",
            *(", ".join(sorted(where)), why),
        )
