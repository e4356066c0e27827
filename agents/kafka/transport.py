"""Delivers polled records to a stage's handler through Faust, as one event per poll and group.

Faust's cost is per event, and its signals around a rebalance race with its own recovery. This
transport is a subclass of Faust's aiokafka driver. It provides:

* **Batches.** The records that one poll returns of one partition group are one Faust event, a
  `GroupBatch`.
* **Ticks.** A partition at its end gives a `PolledBatch` without records, so that time advances
  without records. It gives at most one in the `tick_ns` of the pace (agents.kafka.pace), and only
  while its queue is idle. A handler that takes the time from records (not `wants_ticks`) gets
  none. If no batch comes for `LIFE_INTERVAL_NS`, an empty one is a sign of life. That happens
  without ticks, and during an open transaction, when the broker's answers have no records.
* **Ownership.** `on_assigned` is awaited before any record of a partition is delivered, and returns
  the offset to begin at. `on_reading` is called when reading begins there. `on_revoked` is awaited
  before the partition may go elsewhere.
* **Back-pressure** for each group separately (agents.kafka.partition_queue).

Guarantees for a `Handler`

1. For each group: `on_assigned`, `on_reading`, then `on_batch` for one poll after the other in log
   order, then `on_revoked`. These never overlap. Polls that were fetched but not begun when the
   group is revoked are dropped.
2. Rebalances are eager: each revokes all partitions and assigns the new set. `on_revoked` is also
   called if this worker was paused and the group has already given the partition to another one. A
   handler that commits there must expect to be fenced.
3. `on_assigned` runs outside the rebalance, with heartbeats, and may take `MAX_POLL_INTERVAL_S`.
   If the next rebalance comes first it is cancelled, and `on_revoked` follows for the same
   partitions.
4. If `on_batch` raises `PartitionReset`, its group is revoked, assigned again and read from the
   offsets that `on_assigned` returns. This happens up to `MAX_RESETS` times in a row, unless
   that offset advances. Uncommitted work does not count as progress.
5. Partitions that were added since the start are not opened, because the changelog has no partition
   for their state yet (`known` has the earlier number). An error is logged.
6. Only committed records are read. `PolledBatch.skipped` counts the offsets that retention deleted
   before they were read. `InputLost` is raised for a deleted topic. It is also raised for a topic
   whose log ends before the position, because that topic was created again.

Any other exception, including one from a hook, ends the application. Faust restarts agents that
fail, and aiokafka swallows exceptions of its listeners. So all of this code runs under a `Failure`,
which `agents.kafka.application.run` watches.

Cost per batch: one switch to the consumer's thread and back, and one pass through Faust.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import (
    AsyncIterator,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Protocol, cast

from aiokafka.errors import ConsumerStoppedError
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from agents.kafka.fetching import FAUST_LOG, ConsumerThread, Poll
from agents.kafka.pace import BRISK
from agents.kafka.partition_queue import (
    End,
    GroupBatch,
    GroupQueue,
    PartitionGroup,
    Partitions,
    PolledBatch,
)

log = logging.getLogger(__name__)

LIFE_INTERVAL_NS = 2_000_000_000

REVOKE_TIMEOUT_S = 10.0
"""Time limit for the batch in process, and again for `on_revoked`.

Both together are shorter than the time limit of a rebalance.
"""

MAX_RESETS = 5
"""Maximum number of consecutive resets of a partition that do not advance its first offset."""


class InputLost(Exception):
    """The topic was deleted, or its log ends before the position of the state."""


class GroupDivided(Exception):
    """Partitions that one task reads were given to several workers."""


RESETS_LOGGED_AFTER_S = 0.5
"""Time for which resets are collected, to log one line for each reason."""


class PartitionReset(Exception):
    """A request by `on_batch` to drop its group's state, restore it and read again."""


class RevokeTimeout(Exception):
    """The handler did not give up its partitions in time."""


class Handler(Protocol):
    """The work of a stage on its partitions; see the guarantees in the module's docstring."""

    @property
    def wants_ticks(self) -> bool:
        """Whether the handler needs ticks to advance time when no records arrive."""

    @property
    def rests(self) -> bool:
        """Whether no buffered event waits for time to pass."""

    @property
    def together(self) -> Sequence[Collection[str]]:
        """The topics whose partitions form one group each; other partitions are alone."""

    def group_of(self, partition: TopicPartition) -> PartitionGroup:
        """Return the group of a partition, whose partitions are read together."""

    def find_far_ahead(self, group: PartitionGroup) -> Iterable[TopicPartition]:
        """Return the partitions of a group that need not be polled before the others of it."""

    async def on_assigned(self, partitions: Partitions) -> Mapping[TopicPartition, int]:
        """Fence the old owner, restore, and return the offset of the first read for each partition.

        A partition without an offset begins with the first record that exists. The transport also
        calls this method with an empty set.
        """

    def on_reading(self, partitions: Partitions) -> None:
        """Handle the start of reading, at the offsets that `on_assigned` returned."""

    async def on_batch(self, batch: GroupBatch) -> None:
        """Process the batch; the group's next one follows when this returns."""

    async def on_revoked(self, partitions: Partitions) -> None:
        """Finish or abort the work on the partitions; ignore unknown ones.

        The handler may retain their data until `close`, or until an `on_assigned` without them.
        """

    async def close(self) -> None:
        """Release everything, because nothing will be assigned any more."""


class Failure:
    """A holder of the first exception, which ends the application."""

    def __init__(self) -> None:
        self.exception: BaseException | None = None
        self.happened = asyncio.Event()

    def set(self, exc: BaseException) -> None:
        if self.exception is None:
            self.exception = exc
            self.happened.set()
        elif exc is not self.exception:  # `close` raises the failure of a checkpoint a second time.
            log.error("another failure after the first: %r", exc)


class BatchConsumer(driver.Consumer):
    """The consumer in the main loop, which owns the queues and calls the handler."""

    logger = FAUST_LOG
    _thread: ConsumerThread

    def __init__(self, transport: BatchTransport, *args: Any, **kwargs: Any) -> None:
        super().__init__(transport, *args, **kwargs)
        self.handler = transport.handler
        self.failure = transport.failure
        self._topics = transport.topics
        self._known = transport.known
        self._queues: dict[TopicPartition, GroupQueue] = {}  # By the name of the group.
        self._owned: Partitions = frozenset()
        self.had: Partitions = frozenset()
        """The names of the groups that were assigned last, for the next assignment."""
        self._openings: set[asyncio.Task[None]] = set()
        # The largest offset from which each partition has been read again or for the first time.
        self._began_at: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, int] = {}
        self._resets_to_log: dict[str, set[str]] = {}
        self._polling = asyncio.Lock()  # No seek may happen during a poll.
        # A stop may begin during a rebalance, or a rebalance during a stop.
        self._giving_up = asyncio.Lock()
        self._is_finishing = False
        self._room = asyncio.Event()

    @property
    def open_partitions(self) -> Partitions:
        """The partitions that are owned, restored, and read."""
        return frozenset(each for queue in self._queues.values() for each in queue.group.lanes)

    async def finish(self) -> None:
        """Give up all partitions, and open none that a later rebalance assigns."""
        self._is_finishing = True
        try:
            await self._give_up()
        finally:
            await self.handler.close()

    async def _give_up(self) -> None:
        """End the work on all partitions in the right order, and let the handler finish them."""
        async with self._giving_up:
            self.stop_flow()
            for task in list(self._openings):
                task.cancel()
            if self._openings:
                await asyncio.wait(self._openings, timeout=REVOKE_TIMEOUT_S)
            queues, self._queues = self._queues, {}
            self._room.set()
            closing = (queue.close(REVOKE_TIMEOUT_S) for queue in queues.values())
            if not all(await asyncio.gather(*closing)):
                log.error("a batch did not end within %.0f s and was cancelled", REVOKE_TIMEOUT_S)
            owned, self._owned = self._owned, frozenset()
            try:
                async with asyncio.timeout(REVOKE_TIMEOUT_S):
                    if owned:
                        await self.handler.on_revoked(owned)
            except TimeoutError as exc:
                raise RevokeTimeout(f"on_revoked took over {REVOKE_TIMEOUT_S:.0f} s") from exc

    # The rebalance calls the methods below through the consumer's thread.

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        with self._report_failure():
            await self._give_up()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self.stop_flow()
        await super().on_partitions_assigned(assigned, generation_id)
        deleted = [t for t in self._topics if not self._thread.has_topic(t)]
        if deleted:
            self.failure.set(InputLost(f"the topic {', '.join(deleted)} was deleted"))
        elif not (self.should_stop or self._is_finishing):
            given = frozenset(TopicPartition(*tp) for tp in assigned)
            # A partition that was added since the start may have no changelog partition yet.
            self._owned = self._whole(
                frozenset(p for p in given if p.partition < self._known.get(p.topic, math.inf))
            )
            if given - self._owned:
                log.error(
                    "%s: added after this stage started, so not read by it; restart all workers",
                    ", ".join(f"{p.topic}/{p.partition}" for p in sorted(given - self._owned)),
                )
            self.had = frozenset(self.handler.group_of(each).name for each in self._owned)
            self._start_opening(self._begin(self._owned))

    # The methods below open partitions.

    async def _begin(self, partitions: Partitions) -> None:
        await self._open(partitions)
        self.app.flow_control.resume()
        self.resume_flow()
        await cast(Any, self.app)._fetcher.maybe_start()
        self.app.on_rebalance_end()

    async def _open(self, partitions: Partitions) -> None:
        offsets = await self.handler.on_assigned(partitions)
        async with self._polling:
            await self._thread.seek_all({p: offsets.get(p) for p in partitions})
        for group in {self.handler.group_of(partition) for partition in partitions}:
            for partition in group.lanes:
                if (begin := offsets.get(partition, 0)) > self._began_at.get(partition, 0):
                    self._began_at[partition] = begin
                    self._resets.pop(group.name, None)
            self._queues[group.name] = GroupQueue(
                group, self.handler.on_batch, self._room.set, self._on_queue_error
            )
        self.handler.on_reading(partitions)
        self._room.set()

    def _whole(self, given: Partitions) -> Partitions:
        """Return the partitions whose groups are given as a whole; fail if one is not.

        The assignor gives a group to one member. It cannot if another member has another version.
        """
        whole: set[TopicPartition] = set()
        for group in {self.handler.group_of(partition) for partition in given}:
            if missing := [each for each in group.lanes if each not in given]:
                self.failure.set(
                    GroupDivided(
                        f"{missing[0].topic}/{missing[0].partition} was given to another worker of"
                        f" the group than {group.name.topic}/{group.name.partition}, and one task"
                        " reads both; run all workers of the application in one version"
                    )
                )
            whole.update(group.lanes)
        return frozenset(whole & given)

    async def _reset(self, group: PartitionGroup) -> None:
        only = frozenset(group.lanes)
        await self.handler.on_revoked(only)
        await self._open(only)

    def _on_queue_error(self, queue: GroupQueue, exc: Exception) -> None:
        name = queue.group.name
        resets = self._resets.get(name, 0) + 1
        if not isinstance(exc, PartitionReset) or resets > MAX_RESETS:
            self.failure.set(exc)
        elif self._queues.get(name) is queue:
            self._note_reset(name, str(exc))
            del self._queues[name]
            self._resets[name] = resets
            self._start_opening(self._reset(queue.group))

    def _note_reset(self, partition: TopicPartition, why: str) -> None:
        """Collect resets before logging; many come at once when another process takes over."""
        if not self._resets_to_log:
            asyncio.get_running_loop().call_later(RESETS_LOGGED_AFTER_S, self._log_resets)
        self._resets_to_log.setdefault(why, set()).add(f"{partition.topic}/{partition.partition}")

    def _log_resets(self) -> None:
        resets, self._resets_to_log = self._resets_to_log, {}
        for why, places in resets.items():
            log.warning("%s: restoring and reading again: %s", ", ".join(sorted(places)), why)

    def _start_opening(self, coroutine: Coroutine[Any, Any, None]) -> None:
        async def guard() -> None:
            with self._report_failure():
                await coroutine

        task = asyncio.create_task(guard(), name="opening partitions")
        self._openings.add(task)
        task.add_done_callback(self._openings.discard)

    # The methods below move batches from the polls to the queues.

    async def _drain_messages(self, fetcher: Any) -> None:
        with self._report_failure():
            try:
                while not (self.should_stop or fetcher.should_stop):
                    async for _, message in self.getmany(BRISK.poll_s):
                        await self.callback(message)
            except (ConsumerStoppedError, asyncio.CancelledError):
                # If a rebalance cancels Faust's fetcher, the fetcher asks for a supervisor that it
                # does not have.
                if not self.app.should_stop:
                    raise

    async def getmany(
        self,
        timeout: float,  # Faust requires this name.
    ) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Yield the batches of one poll of the partitions whose queues have space."""
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        queues = [queue for queue in self._queues.values() if queue.has_room()]
        if self._queues and not queues:
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), timeout)
            return
        async with self._polling:
            wanted = frozenset(each for queue in queues for each in queue.group.lanes)
            ahead = (each for queue in queues for each in self.handler.find_far_ahead(queue.group))
            polled = wanted.difference(ahead)
            poll = await self._thread.poll(polled, rests=self.handler.rests)
            skips = await self._skip_lost(poll.out_of_range)
        for queue in queues:
            batches = [skips[each] for each in queue.group.lanes if each in skips]
            batches += self._batches(queue, poll)
            # The group may have been revoked or reset in the meantime.
            if batches and self._queues.get(queue.group.name) is queue:
                queue.expected += 1
                batch = GroupBatch(queue.group.name, batches, queue=queue)
                yield TP(*queue.group.name), self._message(batch)

    def _batches(self, queue: GroupQueue, poll: Poll) -> Iterable[PolledBatch]:
        """Yield the batches of a group: those with records, and those without that are due.

        A group with records also gets the ticks of its other partitions, for which it may wait.
        """
        lanes = queue.group.lanes
        is_busy = bool(queue.expected) and not any(poll.records.get(each) for each in lanes)
        for partition in lanes:
            end = poll.ends.get(partition)
            if end is None:
                continue
            records = poll.records.get(partition)
            if not records:
                if is_busy or not self._is_due(queue, partition, end, poll.pace.tick_ns):
                    continue
                queue.ticked_at_ns[partition] = end.asked.mono_ns
            queue.last_batch_ns[partition] = end.asked.mono_ns
            yield PolledBatch(partition, records or [], end)

    def _is_due(self, queue: GroupQueue, partition: TopicPartition, end: End, tick_ns: int) -> bool:
        """Return whether an empty batch is due: a tick, or a sign of life."""
        if end.asked.mono_ns - queue.last_batch_ns[partition] >= LIFE_INTERVAL_NS:
            return True
        is_tick = self.handler.wants_ticks and end.last_empty_fetch is not None
        return is_tick and end.asked.mono_ns - queue.ticked_at_ns[partition] >= tick_ns

    async def _skip_lost(
        self, out_of_range: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PolledBatch]:
        skips = {}
        for partition, position in out_of_range.items():
            first = await self._thread.find_first_offset(partition)
            if first <= position:
                raise InputLost(
                    f"{partition.topic}[{partition.partition}]: the state is at offset"
                    f" {position}, but the log ends before that, so the topic was recreated;"
                    " give the application a new name, or restore the topic"
                )
            await self._thread.seek_all({partition: first})
            log.error("%s: offsets %d to %d were lost to retention", partition, position, first - 1)
            skips[partition] = PolledBatch(partition, [], End(first, first), first - position)
        return skips

    def _message(self, batch: GroupBatch) -> ConsumerMessage:
        tp = TP(*batch.name)
        return ConsumerMessage(
            topic=tp.topic,
            partition=tp.partition,
            offset=batch.batches[-1].end.position,
            timestamp=0.0,
            timestamp_type=0,
            headers=None,
            key=None,
            value=cast(Any, batch),
            checksum=None,
            tp=tp,
            generation_id=self.app.consumer_generation_id,
        )

    def take(self, batch: GroupBatch) -> None:
        """Put a batch from the agent into the queue, unless its group has been revoked."""
        queue = batch.queue
        if queue is not None and self._queues.get(batch.name) is queue:
            queue.put(batch)

    # The methods below replace Faust's own.

    async def verify_all_partitions_active(self) -> None:
        """Do nothing; Faust would take a partition without acknowledgements for a dead one."""

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    @contextlib.contextmanager
    def _report_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - nothing above would report it
            self.failure.set(exc)


class BatchTransport(driver.Transport):
    """A Faust transport whose consumer is `BatchConsumer`."""

    Consumer = BatchConsumer

    def __init__(
        self,
        url: Any,
        app: Any,
        topics: Iterable[str],
        handler: Handler,
        known: Mapping[str, int],
    ) -> None:
        super().__init__(url, app)
        self.topics = tuple(topics)
        self.known = known
        self.handler = handler
        self.failure = Failure()
