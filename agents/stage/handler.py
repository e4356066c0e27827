"""All partitions that one process owns of its stage: the transport's `Handler`.

Proved by: tests/agents/stage/test_handler.py, tests/end_to_end/test_exactly_once.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import Batch
from agents.kafka.transport import PartitionReset
from agents.stage.arrangement import Arrangement
from agents.stage.delivery import CommitFailed
from agents.stage.partition import Partition
from agents.stage.surroundings import Surroundings
from agents.stage.together import together
from agents.watch.metrics import Metrics
from agents.watch.question import Question
from agents.watch.stage_log import StageLog
from agents.watch.streams_apart import StreamsApart
from agents.watch.troubled import share
from agents.watch.watchdog import Verdict, Watchdog
from agents.watch.whereabouts import knows

log = logging.getLogger(__name__)

PULSE_S: Final = 0.02
"""How often due checkpoints are looked for; batches look themselves."""

OPENED_AT_ONCE: Final = 16
"""Partitions; the others that have come wait their turn. So many fetches and connecting producers
there are at most."""

REST_S: Final = 2.0
"""The same while all partitions rest, until a record comes."""


class StageHandler:
    """Opens and closes partitions as they come and go, and keeps watch over them. `emptied` is
    called when the last one has gone and nothing refers to it."""

    def __init__(
        self,
        arrangement: Arrangement,
        surroundings: Surroundings,
        watchdog: Watchdog,
        stage_log: StageLog,
        emptied: Callable[[], None] = lambda: None,
    ) -> None:
        self._arrangement = arrangement
        self._surroundings = surroundings
        self._watchdog = watchdog
        self._log = stage_log
        self._emptied = emptied
        self._partitions: dict[TopicPartition, Partition] = {}
        self._apart = StreamsApart(arrangement.in_one_partition)
        self._turns = asyncio.Semaphore(OPENED_AT_ONCE)
        self._queued: set[TopicPartition] = set()  # for a turn
        self._unread: set[TopicPartition] = set()  # nothing of them can come yet
        self._in_doubt: set[TopicPartition] = set()  # a checkpoint failed, and none came since
        self._stirred = asyncio.Event()  # records have come, or partitions
        watchdog.leaving(time.monotonic_ns())

    @property
    def _metrics(self) -> Metrics:
        return self._surroundings.metrics

    # -- what the transport calls ---------------------------------------------------------

    @property
    def wants_ticks(self) -> bool:
        """Behind a derived topic time comes with the records."""
        return self._arrangement.is_first

    @property
    def rests(self) -> bool:
        """Nothing waits here. Where the next stage waits for a word from every partition of the
        input, those of other workers may be busy, so all have to be here."""
        if self._arrangement.tells_progress:
            partitions = self._arrangement.partitions
            if len(self._partitions) < sum(partitions[t] for t in self._arrangement.inputs):
                return False
        return all(partition.rests for partition in self._partitions.values())

    async def on_assigned(
        self, partitions: frozenset[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        stage = self._arrangement.stage.name
        self._metrics.rebalances.labels(stage).inc()
        self._watchdog.joined(time.monotonic_ns())
        self._stirred.set()
        for source in sorted(partitions):
            partition = Partition(source, self._arrangement, self._surroundings)
            self._partitions[source] = partition
            if source not in self._in_doubt:
                now_ns, place = time.monotonic_ns(), (source.topic, source.partition)
                self._watchdog.assigned(now_ns, place)
                self._watchdog.told(now_ns, place, *partition.restored, restoring=True)
        self._unread |= partitions
        self._queued |= partitions
        if not partitions <= self._in_doubt:
            self._log.owns(self._partitions)
        opened = await together(*(self._open(source) for source in sorted(partitions)))
        self._metrics.partitions.labels(stage).set(len(self._partitions))
        offsets = zip(sorted(partitions), opened, strict=True)
        return {source: offset for source, offset in offsets if offset is not None}

    async def _open(self, source: TopicPartition) -> int | None:
        partition = self._partitions[source]
        async with self._turns:
            self._queued.discard(source)
            return await partition.open()

    def on_reading(self, partitions: frozenset[TopicPartition]) -> None:
        """The watchdog is told at once: where no record is, and no tick, it takes two seconds until
        a batch comes."""
        now_ns = time.monotonic_ns()
        self._unread -= partitions
        for source in partitions & self._partitions.keys():
            self._tell_watchdog(now_ns, source)

    async def on_batch(self, batch: Batch) -> None:
        partition = self._partitions[batch.partition]
        if batch.records:
            self._stirred.set()
        try:
            await partition.take(batch)
        except CommitFailed as failed:
            self._in_doubt.add(batch.partition)
            raise PartitionReset(str(failed)) from failed

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """A partition that is reset, and that is one in doubt alone, does not leave the watchdog:
        to it the standstill goes on."""
        self._unread -= partitions
        self._queued -= partitions
        mine = [self._partitions.pop(source) for source in partitions & self._partitions.keys()]
        is_reset = len(partitions) == 1 and partitions <= self._in_doubt
        if not is_reset:
            self._in_doubt -= partitions
            self._watchdog.leaving(time.monotonic_ns())
            for source in partitions:
                self._watchdog.revoked(time.monotonic_ns(), (source.topic, source.partition))
        failed = await asyncio.gather(*(self._close(partition) for partition in mine))
        mine.clear()
        if not is_reset:  # of which the transport says why
            _tell_failed(failed)
        self._metrics.partitions.labels(self._arrangement.stage.name).set(len(self._partitions))
        if not self._partitions:
            self._emptied()

    async def _close(self, partition: Partition) -> tuple[str, str] | None:
        """Which one, and why, where its last checkpoint did not come through."""
        try:
            await partition.close()
        except CommitFailed as failed:
            return f"{partition.source.topic}/{partition.source.partition}", str(failed)
        return None

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
        """Begin the checkpoints that are due, and tell the watchdog how things stand."""
        now_ns = time.monotonic_ns()
        others_open = any(not self._partitions[source].is_open for source in self._unread)
        for source, partition in self._partitions.items():
            if partition.is_open:
                partition.pulse()
            place = (source.topic, source.partition)
            if source in self._queued:
                self._watchdog.waits(now_ns, place)
                continue
            if not partition.is_open:
                self._watchdog.told(now_ns, place, *partition.restored, restoring=True)
                self._log.restoring(source, *partition.restored)
                continue
            self._log.restored(source)
            if partition.through.commits:
                self._in_doubt.discard(source)
            if source in self._unread:
                if others_open:  # else the transport has to begin, and time counts
                    self._watchdog.waits(now_ns, place)
            elif partition.heard_of or partition.owes or source in self._in_doubt:
                # Where the broker is silent no batch comes, nor a tick: nothing is told then.
                partition.heard_of = False
                self._tell_watchdog(now_ns, source)

    def _tell_watchdog(self, now_ns: int, source: TopicPartition) -> None:
        """How far an open partition is."""
        partition = self._partitions[source]
        self._watchdog.told(
            now_ns,
            (source.topic, source.partition),
            *partition.stands_at,
            owes=partition.owes or source in self._in_doubt,
            commits=partition.through.commits,
        )

    def observe(self) -> None:
        for partition in self._partitions.values():
            if partition.is_open:
                partition.observe()
        spoken = {(p.topic, p.partition): each.spoken for p, each in self._partitions.items()}
        self._apart.look(spoken)
        if self._surroundings.query_feed is not None:
            self._metrics.queries_set_aside.labels(self._arrangement.stage.name).set(
                len(self._set_aside())
            )

    def _set_aside(self) -> Collection[str]:
        """Live queries that do not run as they stand on their topic."""
        kept: dict[str, str] = {}
        for partition in self._partitions.values():
            if partition.is_open:
                kept |= partition.stage.kept_final
        return self._surroundings.set_aside(kept)

    def verdict(self) -> Verdict:
        return self._watchdog.verdict(time.monotonic_ns())

    def last_checkpoint_s(self) -> float | None:
        """When the newest one came through (monotonic); None before the first."""
        times = (partition.through.at_s for partition in self._partitions.values())
        return max((at_s for at_s in times if at_s is not None), default=None)

    def explain(self) -> list[dict[str, Any]]:
        stage = self._arrangement.stage.name
        cut = self._arrangement.topology.cut.why
        shared = [each for _, each in sorted(self._partitions.items()) if each.is_open]
        most = share(len(shared))
        return [{"stage": stage, "cut": cut, **partition.explain(most)} for partition in shared]

    def locate(self, asked: Question) -> list[dict[str, Any]]:
        """What each partition here that knows of the event says of it."""
        names = self._arrangement.operator_names
        found = [
            {"stage": self._arrangement.stage.name, "operators": names, **partition.locate(asked)}
            for _, partition in sorted(self._partitions.items())
            if partition.is_open
        ]
        return [each for each in found if knows(each)]


def _tell_failed(failed: Iterable[tuple[str, str] | None]) -> None:
    """A line for each reason. Fenced, as a rule: the partition has a new owner, who begins where
    the last checkpoint that came through stands."""
    places: dict[str, list[str]] = {}
    for place, why in filter(None, failed):
        places.setdefault(why, []).append(place)
    for why, where in places.items():
        log.warning(
            "%s: the last checkpoint did not come through, the next owner begins at the one before:"
            " %s",
            *(", ".join(sorted(where)), why),
        )
