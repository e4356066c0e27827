"""One input partition of a stage: its operators, its state, its transactions.

    records -> inlet -> operators -> outlet, side outlet -> outbox -> transaction

Before a batch is worked on, the drift table holds what applies to it (agents.stage.clock_feed).

The order of things, which makes it exact:

* Opening: the delivery starts (this fences the former owner), then the changelog is read
  to its end, then the held events are read from the input again, then reading begins at
  the offset found in the state, not at the group's.
* A checkpoint is cut between two batches, without an await: the encoded outputs, the
  changes of state and the next offset belong together. While it is on its way the next
  batches are worked on; only one checkpoint is on its way at a time.
* A checkpoint that fails leaves memory ahead of the log, so nothing is retried from
  memory: the partition fails, and its next owner restores.
* The local copy is written after the commit, by a thread of its own. It can only lag.

Bounds: `topology.max_batch` records, or `MAX_OUTBOX_BYTES` of payload, wait for a
checkpoint at most, one poll's worth apart; then the partition waits for the one on its
way. A cut costs by what changed, a few records of each of very many sources the most: after
one that kept the loop for long, fewer records wait for the next
(agents.stage.cutting).

Proved by: tests/agents/stage/test_partition.py, tests/end_to_end/test_exactly_once.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import thread_time_ns
from typing import Any, Final

from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import Batch
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import NS_PER_MS, ArrivalClock
from agents.stage.cutting import CutSize
from agents.stage.delivery import CameThrough, Checkpoint, CommitFailed
from agents.stage.hang import HangGuard
from agents.stage.history import Histories, begun, refuse_other
from agents.stage.inlet import Read
from agents.stage.item_price import ItemPrice
from agents.stage.outbox import Outbox
from agents.stage.rebuilding import Rebuilding
from agents.stage.restoring import FoundState, Restoring
from agents.stage.surroundings import Surroundings
from agents.state import changelog
from agents.state.changelog import Progress
from agents.state.copy_writer import CopyWriter
from agents.state.held import ANY_OFFSET, STAMPED_FROM, HeldPages
from agents.state.local_copy import LocalCopy
from agents.state.stores.seal import StateTally
from agents.watch.lane_clocks import explained
from agents.watch.partition_metrics import PartitionMetrics, ShellTotals, StreamFigures, standings
from agents.watch.question import Question
from topology.model.event import DATA
from topology.model.outcome import Step

log = logging.getLogger(__name__)

MAX_OUTBOX_BYTES: Final = 64 << 20
PIECE: Final = 500
"""Records worked on in one go."""

LONG_S: Final = 0.5
"""After so long others have their turn."""

RESTS_AFTER_S: Final = 5.0
"""Without an event."""


class Partition:
    """See the module's docstring. `open` first; `take` and `pulse` until `close`."""

    def __init__(
        self, source: TopicPartition, arrangement: Arrangement, surroundings: Surroundings
    ) -> None:
        topology = arrangement.topology
        self.source = source
        self._feed = surroundings.clock_feed
        self.stage = arrangement.operators(source, None if self._feed is None else self._feed.table)
        self._price = ItemPrice(self.stage.reading_ahead())
        self._guard = HangGuard(topology.stuck_after_ns, is_armed=any(topology.user_functions))
        self.stage.keep_moved()
        tracing = surroundings.tracing
        self._traces = None if tracing is None else tracing.of_partition()
        if self._traces is not None:
            self.stage.show(self._traces.budget)
        self.clock = ArrivalClock(topology.tick_lag_ns, embedded=surroundings.logs.is_embedded)
        self.next_offset: int | None = None
        self.high_watermark = 0
        self.is_open = False
        self.restored = (0, 1)  # steps done and all that are known, while restoring
        self.heard_of = False  # a batch or a tick has come since somebody looked
        self.through = CameThrough()
        self._queries = surroundings.query_feed
        self._queries_version = 0
        self._topic_id = surroundings.topic_ids.get(source.topic, "")
        self._history = ""
        self._arrangement = arrangement
        self._surroundings = surroundings
        counts_in = self.stage.counts_in  # not by way of self: in a circle all held would stay
        self._metrics = PartitionMetrics(
            surroundings.metrics,
            arrangement.stage.name,
            source,
            self.stage.chains,
            lambda stream, source: counts_in(stream, source).get("received", 0),
        )
        self._is_first = arrangement.is_first
        self._inlet = arrangement.inlet(source)
        self._outlet = arrangement.outlet(source)
        self._side = arrangement.side_outlet(source)
        self._results = arrangement.result_outlet()
        self._delivery = surroundings.new_delivery(source)
        self._outbox = Outbox(self._delivery.new_batch)
        self._held = HeldPages(topology.spill_after_ns, STAMPED_FROM, arrangement.retains_from)
        topic_ids = surroundings.topic_ids
        self._restoring = Restoring(surroundings.logs, arrangement, source, topic_ids)
        self._copy = LocalCopy(
            f"{source.topic}/{source.partition}",
            lambda: surroundings.new_store(source),
            self._metrics.store_failed,
            topic_ids.get(arrangement.changelog(source)[0], ""),
        )
        self._copying = CopyWriter(self._copy, self._metrics.store_failed)
        self._checkpoint_s = topology.checkpoint_ns / 1e9
        self._heartbeat_ns = topology.heartbeat_ns
        self._cutting = CutSize(topology.max_batch)
        self._tally = StateTally()  # of the state as it was last cut
        self._log_end = 0  # of the changelog, as we know it
        self._progress_ns = 0
        self._last_checkpoint_s = 0.0
        self._waits = True  # something did when `observe` last looked
        self._event_came_s = time.monotonic()
        self._taken = 0
        self._warned = False
        self._on_its_way: asyncio.Task[None] | None = None

    # -- opening and closing -------------------------------------------------------------

    async def open(self) -> int | None:
        """Fence, restore; the offset to read from, None to begin with the first record."""
        started = time.monotonic()
        found = await self._find()
        self._look_for_queries()
        histories = self._surroundings.histories
        if found.progress is not None:
            refuse_other(found.progress, histories, self.source)
            await self._restore(found.state, found.progress)
        elif histories is not None:
            await self._begin_with(histories)
        self._metrics.restored(time.monotonic() - started)
        self._metrics.begins(self._standings(), self._totals())
        self.is_open = True
        log.info(
            "%s/%d: begins at %s with %d events held",
            self.source.topic,
            self.source.partition,
            "the first record" if self.next_offset is None else f"offset {self.next_offset}",
            len(self._held),
        )
        return self.next_offset

    async def close(self) -> None:
        """Commit what is done, and let go. CommitFailed if it could not be."""
        try:
            if self.is_open:
                await self._arrived()
                self._begin_checkpoint()
                await self._arrived()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Let go without a word; the next owner begins at the last checkpoint."""
        self.is_open = False
        if self._feed is not None:
            self._feed.left(self.source)
            self.stage.close()
        if self._on_its_way is not None:
            self._on_its_way.cancel()
            await asyncio.wait([self._on_its_way])
            self._on_its_way = None
        await self._delivery.stop()
        await self._copying.close()
        self._metrics.forget()

    async def _find(self) -> FoundState:
        """The state, from the local copy as far as it goes, then from the changelog."""
        found = await self._restoring.find(self._copy, self._delivery.start(), self._tell)
        self._copying.note(found.changes, found.position)
        self._tally, self._log_end = found.tally, found.position
        return found

    def _tell(self, position: int, end: int) -> None:
        self.restored = (position, end)

    async def _restore(self, state: Mapping[bytes, bytes], progress: Progress) -> None:
        self._topic_id = self._topic_id or progress.topic_id
        self.next_offset = self.through.next_offset = progress.next_offset
        self.clock.restore(progress.arrival)
        self._history = progress.history
        rebuilding = Rebuilding(
            self._surroundings.logs,
            self.source,
            self._inlet,
            self._tell,
            self._metrics.held_gone,
            self.restored[0],
        )
        await rebuilding.rebuild(state, self.stage, self._held)

    async def _begin_with(self, histories: Histories) -> None:
        """The state of a history, and what follows from its last instant, in one transaction."""
        origin = await begun(histories, self._arrangement, self.source, self._surroundings.logs)
        now_ns = origin.progress.arrival[0]
        self._tally.change(origin.entries)
        await self._restore(origin.entries, origin.progress)
        if self._feed is not None:
            await self._feed.reach(self.source, now_ns, now_ns)
        read = origin.read(self._inlet)
        self._take_in(read)
        self._held.let_go(read.events)
        checkpoint = self._cut(now_ns, origin.progress.next_offset)
        await self._commit(replace(checkpoint, changes={**origin.entries, **checkpoint.changes}))

    # -- working -------------------------------------------------------------------------------

    async def take(self, batch: Batch) -> None:
        """A batch of the log, or a tick. Raises what the last checkpoint met."""
        self._look_for_failure()
        self.heard_of = True
        self.high_watermark = batch.high_watermark
        if batch.skipped:
            self._metrics.lost(batch.skipped)
        begin = self.next_offset
        records = batch.records
        if begin is not None and records and records[0].offset < begin:
            records = [record for record in records if record.offset >= begin]
        self._look_for_queries()
        if records:
            if self._feed is not None:
                times_ms = [record.timestamp for record in records]
                since_ns = self.clock.now_ns or min(times_ms) * NS_PER_MS
                until_ns = max(self.clock.now_ns, max(times_ms) * NS_PER_MS)
                await self._feed.reach(self.source, since_ns, until_ns)
            await self._work_through(records)
            if not self.is_open:
                return
        self.next_offset = batch.next_offset if begin is None else max(begin, batch.next_offset)
        if self._is_first and batch.caught_up_at_ns is not None:
            self._tick(batch.caught_up_at_ns)
        if self._taken >= self._cutting.records or self._outbox.bytes >= MAX_OUTBOX_BYTES:
            await self._arrived()
            self._begin_checkpoint()
        else:
            self.pulse()

    async def _work_through(self, records: Sequence[Any]) -> None:
        """In pieces: when a batch takes long, the process still answers in between, and what is
        done is committed and never to be done again."""
        since_s = time.monotonic()
        for first in range(0, len(records), PIECE):
            piece = records[first : first + PIECE]
            self._work(piece)
            self.heard_of = True
            self._taken += len(piece)
            self.next_offset = piece[-1].offset + 1
            if time.monotonic() - since_s >= LONG_S:
                await self._arrived()
                if self._was_closed():
                    return
                self._begin_checkpoint()
                await asyncio.sleep(0)
                if self._was_closed():
                    return
                since_s = time.monotonic()

    def _was_closed(self) -> bool:
        """While somebody else had a turn."""
        return not self.is_open

    def pulse(self) -> None:
        """Begin a checkpoint if one is due and none is on its way."""
        if self._on_its_way is not None and self._on_its_way.done():
            if self._on_its_way.exception() is not None:
                return  # `take` raises it: the transport resets the partition then
            self._look_for_failure()
        if (
            self._on_its_way is None
            and time.monotonic() - self._last_checkpoint_s >= self._checkpoint_s
        ):
            self._begin_checkpoint()

    def _look_for_queries(self) -> None:
        """Queries that were added or removed since the last batch."""
        feed = self._queries
        if feed is not None and feed.version != self._queries_version:
            self._queries_version = feed.version
            self.stage.set_queries(feed.queries, feed.compiled)
            self._price.now_of(self.stage.reading_ahead())

    def _work(self, records: Sequence[Any]) -> None:
        with self._whole_or_nothing():
            self._take_in(self._inlet.read(records, self.clock))

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """What fails half way leaves memory and log at odds: nothing of it may be committed,
        not by the graceful close that follows either."""
        try:
            yield
        except BaseException:
            self.is_open = False
            raise

    def _take_in(self, read: Read) -> None:
        events = read.events
        if any(event.kind == DATA for event in events):
            self._event_came_s = time.monotonic()
        begun_ns = thread_time_ns() if self._price else 0
        with self._guard:
            step = self.stage.on_batch(events, self.clock.now_ns)
        if self._price:
            self._price.spent(thread_time_ns() - begun_ns)
        if not self._is_first:
            self.clock.now_ns = max(self.clock.now_ns, step.now_ns)
        self._held.took(events)
        self._metrics.received(events, read.dead)
        for dead in read.dead:
            self._side.put(dead, self._outbox)
        self._put(step, events[0].offset if events else ANY_OFFSET)
        if self.clock.without_append_time and not self._warned:
            self._warned = True
            log.warning(
                "%s bears no append time (message.timestamp.type=LogAppendTime): arrival is the"
                " time of %s, and two runs over one log may differ",
                self.source.topic,
                "sending" if self._surroundings.logs.is_embedded else "reading",
            )

    def _tick(self, caught_up_at_ns: int) -> None:
        if self._feed is not None:
            self._feed.wants(self.source, caught_up_at_ns)
        if self.clock.tick(caught_up_at_ns):
            with self._whole_or_nothing():
                with self._guard:
                    step = self.stage.on_time(self.clock.now_ns)
                self._put(step, ANY_OFFSET)

    def _put(self, step: Step, before: int) -> None:
        """`before`: the first offset of the batch at hand."""
        outlet, side, outbox = self._outlet, self._side, self._outbox
        outlet.put_all(step.released, outbox)
        for report in step.reports:
            side.put(report, outbox)
        for finding in step.results:
            self._results.put(finding, outbox)
        self._held.let_go(step.released, step.reports, before=before)
        self._held.let_go(self.stage.take_moved(), before=before)
        self._metrics.said(step)
        if self._traces is not None:
            self._traces.found(step.results)

    # -- checkpoints ------------------------------------------------------------------------------

    def _begin_checkpoint(self) -> None:
        """Cut: no await between the outputs, the changes and the offset."""
        now_ns = self.clock.now_ns
        if now_ns // self._heartbeat_ns > self._progress_ns // self._heartbeat_ns:
            self._progress_ns = now_ns
            self._outlet.progress(now_ns, self._outbox)
        if self.next_offset is None or not (self._taken or self._outbox.records):
            return
        with self._whole_or_nothing(), self._cutting.timed(self._taken):
            checkpoint = self._cut(now_ns, self.next_offset)
        self._taken = 0
        self._last_checkpoint_s = time.monotonic()
        self._on_its_way = asyncio.create_task(self._commit(checkpoint))

    def _cut(self, now_ns: int, next_offset: int) -> Checkpoint:
        encoded = changelog.encoded(self.stage.changes(), changelog.STATE)
        encoded |= changelog.encoded(dict(self._held.changes(now_ns)))
        self._tally.change(encoded)
        progress = Progress(
            next_offset,
            self.clock.snapshot(),
            self._arrangement.fingerprint(self.source),
            self._topic_id,
            changelog.STATE_FORMAT,
            self._tally.entries,
            self._tally.digest,
            self._history,
        )
        encoded[changelog.PROGRESS] = changelog.encode(progress)
        self._metrics.cut(encoded)
        if self._traces is not None:
            self._traces.cut()
        return Checkpoint(self._outbox.take(), encoded, self.source, next_offset)

    async def _commit(self, checkpoint: Checkpoint) -> None:
        started = time.monotonic()
        try:
            position = await self._delivery.commit(checkpoint)
        except CommitFailed:
            self._metrics.aborted()
            raise
        self._restoring.accept_end(self._log_end, position)
        self._log_end = position
        self._metrics.committed(time.monotonic() - started)
        self.through.note(checkpoint.next_offset)
        if self._traces is not None:
            self._traces.committed()
        self._copying.note(checkpoint.changes, position)

    async def _arrived(self) -> None:
        """Wait for the checkpoint on its way."""
        if self._on_its_way is not None:
            await asyncio.wait([self._on_its_way])
            self._look_for_failure()

    def _look_for_failure(self) -> None:
        if self._on_its_way is not None and self._on_its_way.done():
            self._on_its_way.result()
            self._on_its_way = None

    # -- for people --------------------------------------------------------------------------------

    @property
    def owes(self) -> bool:
        """Something that was done waits for a checkpoint, or for the end of one."""
        return self._on_its_way is not None or bool(self._taken or self._outbox.records)

    @property
    def rests(self) -> bool:
        """No event has come for a while, and none waits: time may be told seldom."""
        return not self._waits and time.monotonic() - self._event_came_s >= RESTS_AFTER_S

    @property
    def stands_at(self) -> tuple[int, int]:
        """The offset up to which all is committed that had to be, and the input's end."""
        return self.through.next_offset if self.owes else self.next_offset or 0, self.high_watermark

    @property
    def spoken(self) -> Collection[str]:
        """The streams whose events have come since it was opened."""
        return self._metrics.spoken

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - (self.next_offset or 0))

    def explain(self, most_troubled: int) -> dict[str, Any]:
        """What is held here, since when, and what it waits for (`agents.watch.troubled.share`)."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "next_offset": self.next_offset,
            "high_watermark": self.high_watermark,
            "now": self.clock.now_ns,
            "held": len(self._held),
            "overtaken": self.clock.overtaken,
            **explained(self.stage, self._metrics.troubled, most_troubled),
            "queries_set_aside": self._surroundings.set_aside(self.stage.kept_final),
        }

    def locate(self, asked: Question) -> dict[str, Any]:
        """What is known here of one event (agents.watch.whereabouts)."""
        stream, source, epoch, seq = asked.stream, asked.source, asked.epoch, asked.seq
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "now": self.clock.now_ns,
            "lag": self.lag,
            **self.stage.locate_in(stream, source, epoch, seq),
            "decided": self._metrics.decisions.about(stream, source, epoch, seq),
        }

    def observe(self) -> None:
        """Bring the gauges up to date."""
        self._waits = self._held.waits()
        self._metrics.stands(self._standings(), self.lag, self._totals())
        self._metrics.answers(self.stage.chosen())

    def _standings(self) -> dict[str, StreamFigures]:
        waiting = self._held.by_stream(self.stage.chains)
        return standings(waiting, self.clock.now_ns, self.stage.figures_of)

    def _totals(self) -> ShellTotals:
        alignment = self.stage.alignment
        return ShellTotals(self.clock.overtaken, 0 if alignment is None else alignment.waivers)
