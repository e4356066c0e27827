"""Runs one input partition of a stage, from its opening to its end.

- `opening` fences the former owner and restores the state (`agents.stage.opening`).
- `working` passes records through the operators to encoded outputs (`agents.stage.working`).
- `checkpoints` cuts, commits and handles failures (`agents.stage.checkpoints`).
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
from agents.kafka.partition_queue import NEVER, FetchRequest, PolledBatch, steady_ns
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import NS_PER_MS
from agents.stage.checkpoint_size import CheckpointSize
from agents.stage.checkpoints import PartitionCheckpoints
from agents.stage.event_cost import EventCost
from agents.stage.opening import Opening
from agents.stage.outbox import Outbox
from agents.stage.partition_state import PartitionState
from agents.stage.restoring import Restoring
from agents.stage.services import Services
from agents.stage.working import Work
from agents.watch.metrics.partition import PartitionMetrics, ShellTotals, StreamFigures
from agents.watch.overdue import Overdue
from agents.watch.port.question import Question
from agents.watch.unhealthy import explained
from inorder.playback import stale_stamps

log = logging.getLogger(__name__)

LONG_S: Final = 0.5
"""Time of uninterrupted work after which other tasks of the process get a turn."""

TURN_S: Final = 0.005
"""Duration of that turn, because an answer on the port takes several rounds of the event loop."""

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
        self.waits = True  # Whether any event was buffered at the last `observe`.
        self.high_watermark = 0
        self._broker = NEVER.broker
        self._led_since_ns: int | None = None  # By the clock of this leader.
        self.is_open = False
        self.is_queued = False
        self.is_read = False
        self.got_batch = False
        self.waits_for_schemas = False

    # -- opening, batches, closing -----------------------------------------------------------------

    async def open(self) -> int | None:
        """Fence the former owner of the partition and restore its state.

        Returns the offset to read from; None means the first record.
        """
        started = time.monotonic()
        await self.opening.open()
        self.metrics.restored(time.monotonic() - started)
        self.metrics.begins(*self._current())
        self.is_open = True
        begins = self.state.next_offset
        if begins is not None and self.services.playback is not None:
            self.services.playback.go_on()
        where = "the first record" if begins is None else f"offset {begins}"
        held = len(self.state.held)
        log.info("%s/%d: reads from %s, with %d buffered events", *self.source, where, held)
        return begins

    async def take(self, batch: PolledBatch) -> None:
        """Process a batch or a tick; first raise the exception of a failed checkpoint, if any."""
        self.checkpoints.raise_failure_of_last()
        self.got_batch = True
        end = batch.end
        self.high_watermark = end.high_watermark
        if end.asked is not NEVER:
            if self._broker != end.asked.broker:
                self._broker, self._led_since_ns = end.asked.broker, None
            self.work.lag.answered(end.asked.mono_ns, end.high_watermark)
        if batch.skipped:
            self.services.metrics.store_error("input_retention", batch.skipped)
        begin = self.state.next_offset
        records = batch.records
        if begin is not None and records and records[0].offset < begin:
            records = [record for record in records if record.offset >= begin]
        if records:
            await self._know_schemas(batch, records)
            await self._know_clocks(records)
            if (playback := self.services.playback) is not None:
                self.state.clock.plays = playback.follow(self.source.topic, records)
            await self._work_through(records)
            if not self.is_open:
                return
        self.state.next_offset = max(begin or 0, end.position)
        playback = self.services.playback
        is_held = playback is not None and playback.holds_time(time.time_ns() // NS_PER_MS)
        if self.arrangement.is_first and end.caught_up is not None and not is_held:
            self._tick(end.caught_up)
        if self.checkpoints.is_full:
            await self.checkpoints.arrived()
            self._begin_checkpoint()
        else:
            self.pulse()

    def _tick(self, caught_up: FetchRequest) -> None:
        """Advance time to that of the broker when the partition had caught up, if it is known."""
        now_ns = most_ns = self._now_ns(caught_up)
        if (times := self._times) is not None:
            broker, mono_ns = caught_up.broker, caught_up.mono_ns
            times.want(broker, mono_ns)
            most_ns = times.most_ns(broker, mono_ns)
            if self._led_since_ns is None:
                self._led_since_ns = now_ns
            self.state.clock.steady_since_ns = _later(
                times.steady_since_ns(broker), self._led_since_ns
            )
        if now_ns is None:
            return
        if self.services.clock_feed is not None:
            self.services.clock_feed.wants(self.source, now_ns)
        with self._whole_or_nothing():
            self.work.tick(now_ns, most_ns)

    def _now_ns(self, asked: FetchRequest) -> int | None:
        """Return the time of the partition's clock at a request; None if it is unknown."""
        if self._times is None:
            return asked.wall_ns
        return self._times.least_ns(asked.broker, asked.mono_ns)

    @property
    def _times(self) -> BrokerTimes | None:
        """The brokers' clocks; None if arrival times are another clock's."""
        return self.services.broker_times if self.state.clock.is_of_broker else None

    async def _know_schemas(self, batch: PolledBatch, records: Sequence[Any]) -> None:
        """Wait until the registered schemas that the records need have been looked up.

        If the partition is revoked meanwhile, the batch is cancelled here, before any work has
        begun.
        """
        if self.work.inlet.registered:
            self.waits_for_schemas = batch.is_waiting = True
            try:
                await self.services.schemas.reach_for(self.work.inlet.registered, records)
            finally:
                self.waits_for_schemas = batch.is_waiting = False

    async def _know_clocks(self, records: Sequence[Any]) -> None:
        """Wait until the drift table has all samples that apply to these records."""
        if self.services.clock_feed is not None:
            clock, times_ns = self.state.clock, [record.timestamp * NS_PER_MS for record in records]
            since_ns = clock.least_arrival_ns(times_ns[0]) or min(times_ns)
            until_ns = max(clock.now_ns, *times_ns)
            await self.services.clock_feed.reach(self.source, since_ns, until_ns)

    async def _work_through(self, records: Sequence[Any]) -> None:
        """Process the records piece by piece.

        During a long batch, other tasks get a turn and checkpoints are begun between the pieces.
        """
        since_s = time.monotonic()
        for piece in self.checkpoints.size.pieces(records):
            if not self.is_open:
                return  # The partition was closed while another task had a turn.
            self.cost.begin()
            begun_s = time.monotonic()
            with self._whole_or_nothing():
                self.work.records(piece)
            now_s = time.monotonic()
            self.checkpoints.size.worked(now_s - begun_s, len(piece))
            self.cost.worked(now_s, now_s - begun_s, len(piece))
            self.got_batch = True
            self.checkpoints.taken += len(piece)
            is_long = now_s - since_s >= LONG_S
            if self.checkpoints.is_full or is_long:
                await self.checkpoints.arrived()
                self._begin_checkpoint()
                await asyncio.sleep(TURN_S if is_long else 0)
                since_s = time.monotonic()

    def pulse(self) -> None:
        """Begin a checkpoint if one is due and none is in flight."""
        if self.checkpoints.is_due():
            self._begin_checkpoint()

    def _begin_checkpoint(self) -> None:
        """Begin a checkpoint; also report progress if a heartbeat is due."""
        if self.is_open:
            with self._whole_or_nothing():
                self.work.beat()
                self.checkpoints.begin()

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
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
            await self.checkpoints.arrived()
            self._begin_checkpoint()
            await self.checkpoints.arrived()

    async def abandon(self) -> None:
        """Release the partition without a checkpoint; its next owner begins at the last one."""
        self.is_open = False
        if self.services.clock_feed is not None:
            self.services.clock_feed.left(self.source)
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
        """The offset below which everything is committed, and the end of the input."""
        owed, state = self.checkpoints, self.state
        return (owed.next_offset if owed.is_owed else state.next_offset) or 0, self.high_watermark

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - (self.state.next_offset or 0))

    @property
    def lag_ns(self) -> int | None:
        """How long the next record has waited, in ns; None if unknown (`stage.input_lag`)."""
        asked = FetchRequest(steady_ns(), time.time_ns(), self._broker)
        return self.work.lag.ns(self.state.next_offset or 0, self._now_ns(asked), asked.mono_ns)

    def explain(self, most_unhealthy: int) -> dict[str, Any]:
        """Return which events the partition buffers, since when, and what they wait for.

        `agents.watch.unhealthy` explains the waits.
        """
        came_s = self.checkpoints.at_s
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "next_offset": self.state.next_offset,
            "high_watermark": self.high_watermark,
            "lag_ns": self.lag_ns,
            "now": self.state.clock.now_ns,
            "held": len(self.state.held),
            "overtaken": self.state.clock.overtaken,
            "checkpoint_age_s": None if came_s is None else time.monotonic() - came_s,
            **self.metrics.latest,
            "deaths": self.metrics.deaths.plain(),
            "late": self.metrics.decisions.late(),
            **explained(self.state.stage, self.metrics.unhealthy, most_unhealthy),
        }

    def locate(self, asked: Question) -> dict[str, Any]:
        """Return what this partition knows about one event (`agents.watch.location`)."""
        stream, source, epoch, seq = asked.stream, asked.source, asked.epoch, asked.seq
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "now": self.state.clock.now_ns,
            "lag": self.lag,
            **self.state.stage.locate_in(stream, source, epoch, seq),
            "decided": self.metrics.decisions.about(stream, source, epoch, seq),
        }

    def observe(self) -> None:
        """Update the gauges of buffered events, overdue work and lag."""
        oldest, lag, lag_ns = self.state.held.oldest(), self.lag, self.lag_ns
        self.waits = oldest is not None
        has_backlog = bool(lag) and (lag_ns is None or lag_ns > FAR_BEHIND_NS)
        self.overdue.look(oldest, self.state.clock.now_ns, has_backlog=has_backlog)
        self.metrics.overdue(self.overdue.seconds, self.overdue.waits_for)
        self.metrics.set_current(*self._current())
        self.services.metrics.lags(self.source, lag, lag_ns)

    def stale(self) -> str:
        """Return a line if all timestamps are far behind arrivals, as those of old recordings."""
        stale = stale_stamps(self.work.newest_stamp_ns, self.state.clock.arrival_ns)
        return stale and f"{self.source.topic}: {stale}"

    def fault(self) -> str | None:
        """Return the fault of the broker's clock or of overdue work as text, or None."""
        return self.state.clock.fault() or self.overdue.fault()

    def _current(self) -> tuple[dict[str, StreamFigures], ShellTotals]:
        state, stage = self.state, self.state.stage
        waiting = state.held.by_stream(stage.chains, state.clock.now_ns)
        figures = {
            stream: StreamFigures(
                held, stage.figures_of(stream), oldest_ns, stage.field_uses_of(stream)
            )
            for stream, (held, oldest_ns) in waiting.items()
        }
        waivers = stage.alignment.waivers if stage.alignment is not None else 0
        return figures, ShellTotals(state.clock.overtaken, waivers)


def _later(one_ns: int | None, other_ns: int | None) -> int | None:
    """Return the later time; None if one of them is unknown."""
    return None if one_ns is None or other_ns is None else max(one_ns, other_ns)
