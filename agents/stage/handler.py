"""All partitions that one process owns of its stage: the transport's `Handler`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import Partitions, PolledBatch
from agents.kafka.transport import PartitionReset
from agents.stage.arrangement import Arrangement
from agents.stage.delivery import CommitFailed
from agents.stage.partition import FAR_BEHIND_NS, Partition
from agents.stage.restoring import together
from agents.stage.services import Services
from agents.watch.location import knows
from agents.watch.port.question import Question
from agents.watch.stage_log import StageLog
from agents.watch.streams_apart import StreamsApart
from agents.watch.unhealthy import share
from agents.watch.watchdog import Verdict, Watchdog

log = logging.getLogger(__name__)

PULSE_S: Final = 0.02
"""How often due checkpoints are looked for; batches look themselves."""

OPENED_AT_ONCE: Final = 16
"""Partitions; the others that have come wait their turn. So many fetches and connecting producers
there are at most."""

REST_S: Final = 2.0
"""The same while all partitions rest, until a record comes."""


@dataclass(eq=False)
class StageHandler:
    """Opens and closes partitions as they come and go, and keeps watch over them. `emptied` is
    called when the last one was released and nothing refers to it."""

    arrangement: Arrangement
    services: Services
    watchdog: Watchdog
    stage_log: StageLog
    emptied: Callable[[], None] = lambda: None
    _partitions: dict[TopicPartition, Partition] = field(default_factory=dict, init=False)
    _kept: dict[TopicPartition, Partition] = field(default_factory=dict, init=False)
    """Revoked, and may come back."""
    _in_doubt: set[TopicPartition] = field(default_factory=set, init=False)
    """A checkpoint failed, and none came since."""

    def __post_init__(self) -> None:
        self._apart = StreamsApart(self.arrangement.in_one_partition)
        self._turns = asyncio.Semaphore(OPENED_AT_ONCE)
        self._stirred = asyncio.Event()  # records have come, or partitions
        self.watchdog.leaving(time.monotonic_ns())

    # -- what the transport calls ---------------------------------------------------------

    @property
    def wants_ticks(self) -> bool:
        """Behind a derived topic time comes with the records."""
        return self.arrangement.is_first

    @property
    def rests(self) -> bool:
        """Nothing waits here. Where the next stage waits for progress of every partition of the
        input, those of other workers may be busy, so all have to be here."""
        if self.arrangement.writes_progress:
            partitions = self.arrangement.partitions
            if len(self._partitions) < sum(partitions[t] for t in self.arrangement.inputs):
                return False
        return all(partition.rests for partition in self._partitions.values())

    async def on_assigned(self, partitions: Partitions) -> Mapping[TopicPartition, int]:
        stage = self.arrangement.stage.name
        self.services.metrics.rebalances.labels(stage).inc()
        self.watchdog.joined(time.monotonic_ns())
        self._stirred.set()
        kept, self._kept = self._kept, {}
        for source in sorted(partitions):
            partition = kept.pop(source, None) or self._new(source)
            self._partitions[source] = partition
            partition.is_queued, partition.is_read = True, False
            if source not in self._in_doubt:
                now_ns = time.monotonic_ns()
                self.watchdog.assigned(now_ns, source)
                self.watchdog.reported(now_ns, source, *partition.state.restored, restoring=True)
        if not partitions <= self._in_doubt:
            self.stage_log.owns(self._partitions)
        moved = asyncio.create_task(self._release(kept))
        try:
            opened = await together(*(self._open(source) for source in sorted(partitions)))
        finally:
            await asyncio.wait([moved])
        held = sum(self.arrangement.held_limit_bytes(source.topic) for source in self._partitions)
        self.services.metrics.held_limit.labels(stage).set(held)
        self._count_partitions()
        offsets = zip(sorted(partitions), opened, strict=True)
        return {source: offset for source, offset in offsets if offset is not None}

    def _new(self, source: TopicPartition) -> Partition:
        return Partition(source, self.arrangement, self.services)

    def _count_partitions(self) -> None:
        count = self.services.metrics.partitions.labels(self.arrangement.stage.name)
        count.set(len(self._partitions))

    async def _open(self, source: TopicPartition) -> int | None:
        partition = self._partitions[source]
        async with self._turns:
            partition.is_queued = False
            if partition.is_open:
                if await partition.checkpoints.is_current():
                    log.info("%s/%d: came back, and goes on", *source)
                    return partition.state.next_offset
                await partition.abandon()
                partition = self._partitions[source] = self._new(source)
            return await partition.open()

    def on_reading(self, partitions: Partitions) -> None:
        """Report to the watchdog at once: without records and ticks, it takes two seconds until a
        batch comes."""
        now_ns = time.monotonic_ns()
        for source in partitions & self._partitions.keys():
            self._partitions[source].is_read = True
            self._report_to_watchdog(now_ns, source)

    async def on_batch(self, batch: PolledBatch) -> None:
        partition = self._partitions[batch.partition]
        if batch.records:
            self._stirred.set()
        try:
            await partition.take(batch)
        except CommitFailed as failed:
            self._in_doubt.add(batch.partition)
            raise PartitionReset(str(failed)) from failed

    async def on_revoked(self, partitions: Partitions) -> None:
        """Each is kept with its state, as most come back at once: the next owner of one that does
        not fences it. A partition that is reset, and that is one in doubt alone, does not leave the
        watchdog: to it the standstill goes on."""
        mine = [self._partitions.pop(source) for source in partitions & self._partitions.keys()]
        is_reset = len(partitions) == 1 and partitions <= self._in_doubt
        if not is_reset:
            self._in_doubt -= partitions
            self.watchdog.leaving(time.monotonic_ns())
            for source in partitions:
                self.watchdog.revoked(time.monotonic_ns(), source)
        failed = await asyncio.gather(*(self._settle(partition) for partition in mine))
        if not is_reset:  # then the transport logs why
            _log_failed(failed)
        self._count_partitions()

    async def _settle(self, partition: Partition) -> tuple[str, str] | None:
        """Which one, and why, where its last checkpoint did not come through."""
        source = partition.source
        try:
            await partition.settle()
            if partition.is_open:
                self._kept[source] = partition
        except CommitFailed as failed:
            return f"{source.topic}/{source.partition}", str(failed)
        finally:
            if self._kept.get(source) is not partition:
                await partition.abandon()
        return None

    async def close(self) -> None:
        kept, self._kept = self._kept, {}
        await self._release(kept)

    async def _release(self, kept: dict[TopicPartition, Partition]) -> None:
        """These do not come back."""
        await asyncio.gather(*(partition.abandon() for partition in kept.values()))
        kept.clear()
        if not self._partitions:
            self.emptied()

    # -- what the process calls -----------------------------------------------------------

    async def beat(self) -> None:
        """Return when it is time for a pulse."""
        if not self.rests:
            await asyncio.sleep(PULSE_S)
            return
        self._stirred.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), REST_S)

    def pulse(self) -> None:
        """Begin the checkpoints that are due, and report positions to the watchdog."""
        now_ns = time.monotonic_ns()
        others_open = any(not (each.is_read or each.is_open) for each in self._partitions.values())
        for source, partition in self._partitions.items():
            if partition.is_open:
                partition.pulse()
            if partition.is_queued:
                self.watchdog.waits(now_ns, source)
                continue
            is_waiting = partition.waits_for_schemas or not partition.is_open
            if is_waiting and self.services.schemas.faults:
                self.watchdog.waits(now_ns, source, "waits for a schema")
                continue
            if not partition.is_open:
                self.watchdog.reported(now_ns, source, *partition.state.restored, restoring=True)
                self.stage_log.restoring(source, *partition.state.restored)
                continue
            self.stage_log.restored(source)
            if partition.checkpoints.commits:
                self._in_doubt.discard(source)
            if not partition.is_read:
                if others_open:  # else the transport has to begin, and time counts
                    self.watchdog.waits(now_ns, source)
            elif partition.got_batch or partition.checkpoints.is_owed or source in self._in_doubt:
                # Where the broker is silent no batch comes, nor a tick: nothing is reported then.
                partition.got_batch = False
                self._report_to_watchdog(now_ns, source)

    def _report_to_watchdog(self, now_ns: int, source: TopicPartition) -> None:
        """Report how far an open partition is."""
        partition = self._partitions[source]
        self.watchdog.reported(
            now_ns,
            source,
            *partition.position,
            owes=partition.checkpoints.is_owed or source in self._in_doubt,
            commits=partition.checkpoints.commits,
        )

    def observe(self) -> None:
        for partition in self._opened:
            partition.observe()
        off_ns = max((each.state.clock.log.off_ns for each in self._partitions.values()), default=0)
        self.services.metrics.append_time_off.labels(self.arrangement.stage.name).set(off_ns / 1e9)
        self._apart.look({p: each.metrics.streams_seen for p, each in self._partitions.items()})

    def needed_from(self) -> dict[int, int]:
        """By the number of a partition, where the stage reads one topic: the first offset that a
        restore would read, as of the last checkpoint since it was opened."""
        found = {s.partition: each.checkpoints.needed_from for s, each in self._partitions.items()}
        return {number: offset for number, offset in found.items() if offset is not None}

    def verdict(self) -> Verdict:
        return self.watchdog.verdict(time.monotonic_ns())

    def is_well(self) -> bool:
        return not self.verdict().reasons

    def faults(self) -> tuple[str, ...]:
        """Return what is wrong with the input of partitions, or with what they wait for."""
        found = ((source, each.fault()) for source, each in sorted(self._partitions.items()))
        of_input = (f"{at.topic}/{at.partition}: {fault}" for at, fault in found if fault)
        return (*self.services.schemas.faults, *of_input)

    def behind(self) -> tuple[str, ...]:
        """Partitions that lag by more than `FAR_BEHIND_NS`, and how far, the farthest first."""
        lags = sorted((-(each.lag_ns or 0), each.source, each.lag) for each in self._opened)
        return tuple(
            f"{source.topic}/{source.partition}: {records:,} records, {-ns / 1e9:.0f} s behind"
            for ns, source, records in lags
            if -ns > FAR_BEHIND_NS
        )

    def last_checkpoint_s(self) -> float | None:
        """When the newest one came through (monotonic); None before the first."""
        times = (partition.checkpoints.at_s for partition in self._partitions.values())
        return max((at_s for at_s in times if at_s is not None), default=None)

    @property
    def _opened(self) -> list[Partition]:
        found = (partition for _, partition in sorted(self._partitions.items()))
        return [partition for partition in found if partition.is_open]

    def explain(self) -> list[dict[str, Any]]:
        """Return what each partition here holds, and what it waits for."""
        about = {
            "stage": self.arrangement.stage.name,
            "cut": self.arrangement.topology.cut.why,
            "unmet": self.services.metrics.without_results(),
        }
        most = share(len(self._opened))
        return [{**about, **partition.explain(most)} for partition in self._opened]

    def locate(self, asked: Question) -> list[dict[str, Any]]:
        """Return what each partition here that has met the event knows of it."""
        stage, names = self.arrangement.stage.name, self.arrangement.operator_names
        about = {"stage": stage, "operators": names}
        found = [{**about, **partition.locate(asked)} for partition in self._opened]
        return [each for each in found if knows(each)]


def _log_failed(failed: Iterable[tuple[str, str] | None]) -> None:
    """Log a line for each reason. As a rule the partition is fenced: it has a new owner, which
    begins at the last checkpoint that was committed."""
    places: dict[str, list[str]] = {}
    for place, why in filter(None, failed):
        places.setdefault(why, []).append(place)
    for why, where in places.items():
        log.warning(
            "%s: the last checkpoint did not come through, the next owner begins at the one before:"
            " %s",
            *(", ".join(sorted(where)), why),
        )
