"""Runs a task of a stage, a group of its input partitions, from its opening to its end.

- `opening` fences the former owner and restores the state (`agents.task.opening`).
- `working` passes records through the operators to encoded outputs (`agents.task.working`).
- `checkpoints` cuts, commits and handles failures (`agents.task.checkpoints`).
- `partition_state` has the state in memory, and the part of it that a checkpoint writes.

`Partition` calls these. Before a batch is processed, the drift table has all samples that apply to
it (`agents.stage.clock_feed`). The schemas that its records name have been looked up, too
(`agents.registry.feed`).

Bounds: at most `checkpoint_size.MAX_BATCH` records or `MOST_BYTES` of payload wait for a
checkpoint, give or take `PIECE` records. Then the partition waits for the commit in flight. The
bounds are smaller if cuts or commits take long (`agents.stage.checkpoint_size`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.broker_times import BrokerTimes
from agents.kafka.fetching import MAX_POLL_RECORDS
from agents.kafka.partition_queue import FetchRequest, GroupBatch
from agents.restore.partition_state import PartitionState
from agents.restore.restoring import Restoring
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import NS_PER_MS
from agents.stage.checkpoint_size import CheckpointSize
from agents.stage.lane import Lane
from agents.stage.outbox import Outbox
from agents.task.checkpoints import PartitionCheckpoints
from agents.task.event_cost import EventCost
from agents.task.opening import Opening
from agents.task.working import Work
from agents.watch.metrics.partition import PartitionMetrics, ShellTotals, StreamFigures
from agents.watch.overdue import Overdue
from agents.watch.port.question import Question
from agents.watch.unhealthy import explain
from inorder.playback import describe_staleness

log = logging.getLogger(__name__)

LONG_S: Final = 0.5
"""Time of uninterrupted work after which other tasks of the process get a turn."""

TURN_S: Final = 0.005
"""Duration of that turn, because an answer on the port takes several rounds of the event loop."""

READ_AHEAD_NS: Final = 2_000_000_000
"""Time by which a lane may be ahead of its task before the others are polled first."""

READ_AHEAD: Final = 2 * MAX_POLL_RECORDS
"""Events that may wait for other lanes; beyond it, only the lanes that are last are polled."""

FAR_BEHIND_NS: Final = 10_000_000_000
"""Lag in time above which a partition has a backlog."""

RESTS_AFTER_S: Final = 5.0
"""Time without an event after which a partition counts as idle."""


@dataclass(eq=False)
class Partition:
    """A partition of a stage: `open` first, then `take` and `pulse`, then `settle` and `abandon`.

    Attributes:
        is_queued: Whether the partition waits for its turn to be opened.
        is_read: Whether the transport has begun to read the partition.
        got_batch: Whether a batch or a tick has arrived since the handler last reset this flag.
        waits_for_schemas: Whether a batch waits for a schema registry.
    """

    source: TopicPartition
    arrangement: Arrangement
    services: Services

    def __post_init__(self) -> None:
        source, arrangement, services = self.source, self.arrangement, self.services
        self.state = PartitionState(source, arrangement, services)
        # A bound method of self would be a reference cycle and keep all buffered events in memory.
        counts_in = self.state.stage.counts_in
        self.metrics = PartitionMetrics(
            services.metrics,
            source,
            self.state.stage.streams,
            lambda stream, source: counts_in(stream, source).get("received", 0),
            arrangement.lanes_of(source),
        )
        delivery = services.new_delivery(source)
        outbox = Outbox(delivery.new_batch)
        self.work = Work(arrangement, self.state, outbox, self.metrics)
        topology = arrangement.topology
        self.checkpoints = PartitionCheckpoints(
            self.state,
            outbox,
            delivery,
            Restoring(services.logs, arrangement, source, services.topic_ids, services.seen),
            services.new_copy(source, arrangement.changelog(source)[0]),
            services.cut_sizes.setdefault(source, CheckpointSize(topology.transaction_timeout_ns)),
            self.metrics,
            topology.checkpoint_ns / 1e9,
        )
        self.opening = Opening(arrangement, services, self.state, self.work, self.checkpoints)
        self.cost = EventCost(source, self.state.stage.meter)
        self.overdue = Overdue(self.state.stage, topology)
        self.waits = True  # Whether there was a backlog or a buffered event at the last `observe`.
        self._lanes = {lane.partition: lane for lane in self.state.lanes.values()}
        self.is_open = False
        self.is_queued = False
        self.is_read = False
        self.got_batch = False
        self.waits_for_schemas = False

    # -- opening, batches, closing -----------------------------------------------------------------

    async def open(self) -> dict[TopicPartition, int]:
        """Fence the former owner of the task and restore its state.

        Returns the offset of each input partition to read from. Partitions without one begin with
        the first record.
        """
        started = time.monotonic()
        await self.opening.open()
        self.metrics.count_restore(time.monotonic() - started)
        self.metrics.begins(*self._collect_figures())
        self.is_open = True
        begins = self.state.offsets()
        if begins and self.services.playback is not None:
            self.services.playback.let_time_advance()
        held = len(self.state.held)
        for lane in self.state.lanes.values():
            at = begins.get(lane.partition)
            where = "the first record" if at is None else f"offset {at}"
            log.info("%s/%d: reads from %s, with %d buffered events", *lane.partition, where, held)
        return begins

    async def take(self, batch: GroupBatch) -> None:
        """Process a batch or ticks; first raise the exception of a failed checkpoint, if any."""
        self.checkpoints.raise_last_failure()
        self.got_batch = True
        polled: list[tuple[Lane, Sequence[Any]]] = []
        for each in batch.batches:
            lane = self._lanes[each.partition]
            lane.note_answer(each.end)
            if each.skipped:
                self.services.metrics.count_store_error("input_retention", each.skipped)
            begin, records = lane.next_offset, each.records
            if begin is not None and records and records[0].offset < begin:
                records = [record for record in records if record.offset >= begin]
            if records:
                polled.append((lane, records))
        polled.sort(key=_lane_number_of)
        if polled:
            await self._await_schemas(batch, polled)
            await self._await_samples(polled)
            if (playback := self.services.playback) is not None:
                for lane, some in polled:
                    lane.clock.plays = playback.note_records(lane.partition.topic, some)
            await self._process_pieces(polled)
            if not self.is_open:
                return
        self._advance_lanes(batch)
        if self.checkpoints.is_full:
            await self.checkpoints.await_commit()
            self._begin_checkpoint()
        else:
            self.pulse()

    def _advance_lanes(self, batch: GroupBatch) -> None:
        """Note how far the lanes have been read, and advance the time of those without records."""
        playback, moved = self.services.playback, list[Lane]()
        is_held = playback is not None and playback.is_holding_time(time.time_ns() // NS_PER_MS)
        for each in batch.batches:
            lane, caught_up = self._lanes[each.partition], each.end.last_empty_fetch
            lane.next_offset = max(lane.next_offset or 0, each.end.position)
            if is_held or caught_up is None or not self.arrangement.is_first:
                continue
            if self._tick(lane, caught_up):
                moved.append(lane)
        if moved:
            with self._close_on_failure():
                self.work.pass_time(moved)

    def find_far_ahead(self) -> Iterator[TopicPartition]:
        """Yield the lanes that are so far ahead in time that the others are polled first.

        While more than `READ_AHEAD` events wait for other lanes, each lane that has another behind
        it is far ahead. Lanes whose broker has stopped answering do not count: MERGE's `max_queued`
        bounds the records that are read beyond these. Cost: O(lanes).
        """
        if len(self._lanes) == 1 or not self.is_open:
            return
        answering = (each.clock.now_ns for each in self._lanes.values() if not each.is_silent)
        last_ns = min(answering, default=None)
        if last_ns is None:
            return
        alignment = self.state.stage.alignment
        if alignment is None or alignment.queued <= READ_AHEAD:
            last_ns += READ_AHEAD_NS
        for partition, lane in self._lanes.items():
            if lane.clock.now_ns > last_ns:
                yield partition

    def _tick(self, lane: Lane, caught_up: FetchRequest) -> bool:
        """Advance a lane's clock to the time when it had caught up; return whether it moved."""
        now_ns, most_ns = lane.bound_clock_ns(caught_up, self._times_of(lane))
        if now_ns is None:
            return False
        if self.services.clock_feed is not None:
            self.services.clock_feed.allow_until(lane.partition, now_ns)
        return lane.clock.tick(now_ns, most_ns)

    def _times_of(self, lane: Lane) -> BrokerTimes | None:
        """Return the brokers' clocks; None if arrival times are another clock's."""
        return self.services.broker_times if lane.clock.is_of_broker else None

    async def _await_schemas(
        self, batch: GroupBatch, polled: Sequence[tuple[Lane, Sequence[Any]]]
    ) -> None:
        """Wait until the registered schemas that the records need have been looked up.

        If the task is revoked meanwhile, the batch is cancelled here, before any work has begun.
        """
        for lane, records in polled:
            if lane.inlet.registered:
                self.waits_for_schemas = batch.is_waiting = True
                try:
                    await self.services.schemas.resolve_records(lane.inlet.registered, records)
                finally:
                    self.waits_for_schemas = batch.is_waiting = False

    async def _await_samples(self, polled: Sequence[tuple[Lane, Sequence[Any]]]) -> None:
        """Wait until the drift table has all samples that apply to these records."""
        if self.services.clock_feed is None:
            return
        for lane, records in polled:
            clock, times_ns = lane.clock, [record.timestamp * NS_PER_MS for record in records]
            since_ns = clock.least_arrival_ns(times_ns[0]) or min(times_ns)
            if len(self._lanes) > 1:  # Events of this lane may wait for other lanes.
                since_ns = min(since_ns, self.state.now_ns or since_ns)
            until_ns = max(clock.now_ns, *times_ns)
            await self.services.clock_feed.reach(lane.partition, since_ns, until_ns)

    async def _process_pieces(self, polled: Sequence[tuple[Lane, Sequence[Any]]]) -> None:
        """Process the records piece by piece.

        During a long batch, other tasks get a turn and checkpoints are begun between the pieces.
        """
        since_s = time.monotonic()
        for piece in self.checkpoints.size.split_lanes(polled):
            if not self.is_open:
                return  # The task was closed while another one had a turn.
            count = sum(len(records) for _, records in piece)
            self.cost.begin()
            begun_s = time.monotonic()
            with self._close_on_failure():
                self.work.process_records(piece)
            now_s = time.monotonic()
            self.checkpoints.size.note_work(now_s - begun_s, count)
            self.cost.note_work(now_s, now_s - begun_s, count)
            self.got_batch = True
            self.checkpoints.taken += count
            is_long = now_s - since_s >= LONG_S
            if self.checkpoints.is_full or is_long:
                await self.checkpoints.await_commit()
                self._begin_checkpoint()
                await asyncio.sleep(TURN_S if is_long else 0)
                since_s = time.monotonic()

    def pulse(self) -> None:
        """Begin a checkpoint if one is due and none is in flight."""
        if self.checkpoints.is_due(sum(lane.records_behind for lane in self._lanes.values())):
            self._begin_checkpoint()

    def _begin_checkpoint(self) -> None:
        """Begin a checkpoint; also report progress if a heartbeat is due."""
        if self.is_open:
            with self._close_on_failure():
                self.work.beat()
                self.checkpoints.begin()

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        """Close the partition if the body fails.

        Memory is then ahead of the log. None of the work since the last commit may be committed,
        not even by the regular close that follows.
        """
        try:
            yield
        except BaseException:
            self.is_open = False
            raise

    async def settle(self) -> None:
        """Commit the processed records; raise CommitFailed if the commit fails."""
        if self.is_open:
            await self.checkpoints.await_commit()
            self._begin_checkpoint()
            await self.checkpoints.await_commit()

    async def abandon(self) -> None:
        """Release the partition without a checkpoint; its next owner begins at the last one."""
        self.is_open = False
        if self.services.clock_feed is not None:
            for partition in self._lanes:
                self.services.clock_feed.drop_asker(partition)
            self.state.stage.close()
        await self.checkpoints.close()
        self.metrics.forget()

    # -- status and explanations -------------------------------------------------------------------

    @property
    def rests(self) -> bool:
        """Whether no event has arrived for a while and none is buffered, so rare ticks suffice."""
        return not self.waits and time.monotonic() - self.work.event_came_s >= RESTS_AFTER_S

    @property
    def position(self) -> tuple[int, int]:
        """The offsets below which everything is committed, and the ends of the logs, added up."""
        owed = self.checkpoints
        offsets = owed.offsets if owed.is_owed else self.state.offsets()
        return sum(offsets.values()), sum(lane.high_watermark for lane in self._lanes.values())

    @property
    def lags(self) -> Iterator[tuple[TopicPartition, int, int | None]]:
        """Each partition, its number of unread records, and how long the next one has waited."""
        for partition, lane in self._lanes.items():
            yield partition, lane.records_behind, lane.lag_ns(self._times_of(lane))

    def explain(self, most_unhealthy: int) -> dict[str, Any]:
        """Return which events the task buffers, since when, and what they wait for.

        `agents.watch.unhealthy` explains the waits.
        """
        came_s = self.checkpoints.at_s
        lanes = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "next_offset": self._lanes[partition].next_offset,
                "high_watermark": self._lanes[partition].high_watermark,
                "lag_ns": lag_ns,
                "overtaken": self._lanes[partition].clock.overtaken,
            }
            for partition, _, lag_ns in self.lags
        ]
        return {
            **lanes[0],
            "lag_ns": max((each["lag_ns"] for each in lanes), key=lambda ns: ns or 0),
            "lanes": lanes,
            "now": self.state.now_ns,
            "held": len(self.state.held),
            "overtaken": sum(lane.clock.overtaken for lane in self._lanes.values()),
            "checkpoint_age_s": None if came_s is None else time.monotonic() - came_s,
            **self.metrics.latest,
            "deaths": self.metrics.deaths.plain(),
            "late": self.metrics.decisions.late(),
            **explain(self.state.stage, self.metrics.unhealthy, most_unhealthy),
        }

    def locate(self, asked: Question) -> dict[str, Any]:
        """Return what this task knows about one event (`agents.watch.location`)."""
        stream, source, epoch, seq = asked.stream, asked.source, asked.epoch, asked.seq
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "now": self.state.now_ns,
            "lag": sum(lane.records_behind for lane in self._lanes.values()),
            **self.state.stage.locate_in(stream, source, epoch, seq),
            "decided": self.metrics.decisions.about(stream, source, epoch, seq),
        }

    def observe(self) -> None:
        """Update the gauges of buffered events, overdue work and lag."""
        lags = [*self.lags]
        has_backlog = any(
            lag and (lag_ns is None or lag_ns > FAR_BEHIND_NS) for _, lag, lag_ns in lags
        )
        # With a backlog nothing counts as overdue, and many events may be buffered.
        oldest = None if has_backlog else self.state.held.oldest()
        self.waits = has_backlog or oldest is not None
        self.overdue.update(oldest, self.state.now_ns, has_backlog=has_backlog)
        self.metrics.overdue(self.overdue.seconds, self.overdue.waits_for)
        self.metrics.set_current(*self._collect_figures())
        for partition, lag, lag_ns in lags:
            self.services.metrics.note_lag(partition, lag, lag_ns)

    def describe_stale(self) -> Iterator[str]:
        """Yield a line for each topic with timestamps far behind arrivals, as in old recordings."""
        of_topics: dict[str, list[Lane]] = {}
        for partition, lane in self._lanes.items():
            of_topics.setdefault(partition.topic, []).append(lane)
        for topic, lanes in of_topics.items():
            arrival_ns = max(lane.clock.arrival_ns for lane in lanes)
            if stale := describe_staleness(max(lane.newest_stamp_ns for lane in lanes), arrival_ns):
                yield f"{topic}: {stale}"

    def faults(self) -> Iterator[tuple[TopicPartition, str]]:
        """Return the faults of the brokers' clocks, and of overdue work, as texts."""
        for partition, lane in self._lanes.items():
            if fault := lane.clock.fault():
                yield partition, fault
        if len(self._lanes) > 1:
            for partition, lane in self._lanes.items():
                if lane.is_silent:
                    yield partition, "its broker does not answer, and other partitions wait for it"
        if (overdue := self.overdue.fault()) is not None:
            yield self.source, overdue

    @property
    def off_ns(self) -> int:
        """How far a broker's clock is ahead of or behind the clock of a lane, at most."""
        return max(lane.clock.off_ns for lane in self._lanes.values())

    def _collect_figures(self) -> tuple[dict[str, StreamFigures], ShellTotals]:
        state, stage = self.state, self.state.stage
        waiting = state.held.count_by_stream(stage.chains, state.now_ns)
        figures = {
            stream: StreamFigures(
                held, stage.figures_of(stream), oldest_ns, stage.field_uses_of(stream)
            )
            for stream, (held, oldest_ns) in waiting.items()
        }
        waivers = stage.alignment.waivers if stage.alignment is not None else 0
        overtaken = sum(lane.clock.overtaken for lane in self._lanes.values())
        return figures, ShellTotals(overtaken, waivers)


def _lane_number_of(polled: tuple[Lane, Sequence[Any]]) -> int:
    return polled[0].number
