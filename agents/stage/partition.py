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
  memory: the partition fails, and its next owner restores. Where only the answer to its end is
  missing, the changelog shows whether it failed (agents.stage.committing).
* The local copy is written after the commit, by a thread of its own. It can only lag.

Bounds: `cutting.MAX_BATCH` records, or `MOST_BYTES` of payload, wait for a checkpoint at most,
`PIECE` records apart at most; then the partition waits for the one on its way. Fewer where cuts or
commits take long (agents.stage.cutting).
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from time import thread_time_ns
from typing import Any, Final

from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.kafka.partition_queue import PolledBatch
from agents.kafka.stage_topics import SEQUENCED
from agents.stage.arrangement import Arrangement, ArrangementError
from agents.stage.arrival import NS_PER_MS, arrival_clock, no_arrival
from agents.stage.committing import Committing
from agents.stage.cutting import CutSize
from agents.stage.delivery import CameThrough, Checkpoint
from agents.stage.hang import HangGuard
from agents.stage.history import Histories, begun, refuse_other
from agents.stage.inlet import Read
from agents.stage.input_lag import InputLag
from agents.stage.item_price import ItemPrice
from agents.stage.outbox import Outbox
from agents.stage.readings import Readings
from agents.stage.rebuilding import Rebuilding
from agents.stage.restoring import FoundState, Restoring
from agents.stage.services import Services
from agents.state import changelog
from agents.state.changelog import LastWhole, Progress, StateRefused
from agents.state.held import ANY_OFFSET, STAMPED_FROM, HeldPages
from agents.state.stores.seal import StateTally
from agents.watch.metrics.partition import (
    PartitionMetrics,
    ShellTotals,
    StreamFigures,
    current_figures,
)
from agents.watch.overdue import Overdue
from agents.watch.port.question import Question
from agents.watch.unhealthy import explained
from topology.config.change import Contract
from topology.flow.stage import QUERIES, SOURCES
from topology.model.event import DATA
from topology.model.outcome import Malformed, Step

log = logging.getLogger(__name__)

PIECE: Final = 500
"""Records worked on in one go."""

LONG_S: Final = 0.5
"""Other tasks of the process get a turn after this time."""

FAR_BEHIND_NS: Final = 10_000_000_000
"""A partition whose next record has waited for longer has a backlog."""

RESTS_AFTER_S: Final = 5.0
"""A partition rests after this time without an event."""


class Partition:
    """See the module's docstring. `open` first, then `take` and `pulse`; `settle` and `abandon` at
    the end."""

    waits_for_schemas = False

    def __init__(
        self, source: TopicPartition, arrangement: Arrangement, services: Services
    ) -> None:
        topology = arrangement.topology
        self.source = source
        self._feed = services.clock_feed
        self.stage = arrangement.operators(source, None if self._feed is None else self._feed.table)
        self._price = ItemPrice(self.stage.reading_ahead())
        self._guard = HangGuard(topology.stuck_after_ns, is_armed=any(topology.user_functions))
        self.stage.keep_moved()
        self.clock = arrival_clock(
            topology, source.topic, topology.tick_lag_ns, embedded=services.logs.is_embedded
        )
        self.next_offset: int | None = None
        self.high_watermark = 0
        self._input_lag = InputLag()
        self.is_open = False
        self.restored = (0, 1)  # (steps done, steps known), while restoring
        self.got_batch = False  # a batch or a tick has come since the last pulse
        self.through = CameThrough()
        self._topic_id = services.topic_ids.get(source.topic, "")
        self._history = ""
        self._arrangement = arrangement
        self._services = services
        # Not through self: a reference cycle would keep all held events.
        counts_in = self.stage.counts_in
        self._metrics = PartitionMetrics(
            services.metrics,
            arrangement.stage.name,
            source,
            self.stage.streams,
            lambda stream, source: counts_in(stream, source).get("received", 0),
        )
        self._inlet = arrangement.inlet(source)
        self._outlet = arrangement.outlet(source)
        self._side = arrangement.side_outlet(source)
        self._results = arrangement.result_outlet()
        self._delivery = services.new_delivery(source)
        self._outbox = Outbox(self._delivery.new_batch)
        self._readings = Readings()
        self._held = HeldPages(topology.spill_after_ns, STAMPED_FROM, self.stage.waiting_places)
        topic_ids = services.topic_ids
        self._restoring = Restoring(services.logs, arrangement, source, topic_ids, services.seen)
        self._copying = services.new_copy(source, arrangement.changelog(source)[0])
        self._checkpoint_s = topology.checkpoint_ns / 1e9
        self._heartbeat_ns = topology.heartbeat_ns
        self._cutting = services.cut_sizes.setdefault(
            source, CutSize(topology.transaction_timeout_ns)
        )
        self._committing = Committing(self._delivery, self._restoring, self._cutting, self._metrics)
        self._tally, self._last_whole = StateTally(), LastWhole()  # of the state as last cut
        self._progress_ns = 0
        self._last_checkpoint_s = 0.0
        self._waits = True  # some event was held at the last `observe`
        self._overdue = Overdue(self.stage, topology)
        self._event_came_s = time.monotonic()
        self._taken, self._warned = 0, False
        self._on_its_way: asyncio.Task[None] | None = None

    # -- opening and closing -------------------------------------------------------------

    async def open(self) -> int | None:
        """Fence the former owner and restore. Returns the offset to read from; None: the first
        record."""
        started = time.monotonic()
        found = await self._find()
        histories = self._services.histories
        if found.progress is not None:
            refuse_other(found.progress, histories, self.source, self._arrangement.topology)
            await self._restore(found.state, found.progress, found.before)
            if found.before is not None:
                # Whoever still runs the old file sees it, and does not take the state over.
                await self._commit(self._cut(self.clock.now_ns, found.progress.next_offset))
        elif histories is not None:
            await self._begin_with(histories)
        else:
            await self._begin_empty()
        self._metrics.restored(time.monotonic() - started)
        self._metrics.begins(self._current(), self._totals())
        self.is_open = True
        log.info(
            "%s/%d: begins at %s with %d events held",
            self.source.topic,
            self.source.partition,
            "the first record" if self.next_offset is None else f"offset {self.next_offset}",
            len(self._held),
        )
        return self.next_offset

    async def settle(self) -> None:
        """Commit what is done. CommitFailed if it could not be committed."""
        if self.is_open:
            await self._arrived()
            self._begin_checkpoint()
            await self._arrived()

    async def is_current(self) -> bool:
        """After `settle`, whether its state is what the changelog holds. An owner in between that
        has written nothing has fenced this one all the same: its next commit fails."""
        return await self._committing.is_current()

    async def abandon(self) -> None:
        """Release the partition without a checkpoint; the next owner begins at the last one."""
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
        copy = self._copying.copy
        found = await self._restoring.find(copy, self._delivery.start(), self._note_restored)
        if found.passed_over:
            self._metrics.offset_passed_over()
        self._copying.note(found.changes, found.position)
        self._tally, self._committing.log_end = found.tally, found.position
        return found

    def _note_restored(self, position: int, end: int) -> None:
        self.restored = (position, end)

    async def _begin_empty(self) -> None:
        """Begin with the first record that is there. One whose outputs are seen before its state
        claims them, so that a start after a crash knows whose they are."""
        claims = self._arrangement.topology.delivery == "at_least_once"
        is_first = self._arrangement.is_first
        if self.source.topic in self._services.amid:
            self.stage.begins_amid = SOURCES
        if self._services.logs.is_embedded or (is_first and not claims):
            return
        first = (await self._services.logs.bounds(self.source))[0]
        if first and not is_first:
            self.stage.begins_amid = QUERIES
        if claims:
            self.next_offset = self.through.next_offset = first
            await self._commit(self._cut(self.clock.now_ns, first))

    async def _restore(
        self, state: Mapping[bytes, bytes], progress: Progress, before: Contract | None = None
    ) -> None:
        # What a changed file brings may have had events before, of which nothing is known here.
        self.stage.begins_amid = progress.amid or (QUERIES if before is not None else 0)
        if before is not None:
            self._readings.note(progress.next_offset, before, self._contract)
        self._topic_id = self._topic_id or progress.topic_id
        self.next_offset = self.through.next_offset = progress.next_offset
        self.clock.restore(progress.arrival)
        self._history = progress.history
        self._last_whole = LastWhole(progress.since)
        rebuilding = Rebuilding(
            self._services.logs,
            self.source,
            self._inlet,
            self._arrangement,
            self._note_restored,
            self._metrics.held_missing,
            self.restored[0],
            self._services.schemas,
        )
        await rebuilding.rebuild(state, self.stage, self._held, self._readings)
        for letter in rebuilding.dead:
            self._side.put(letter, self._outbox)
        self._metrics.received((), rebuilding.dead)

    async def _begin_with(self, histories: Histories) -> None:
        """Commit the state of a history, and what follows from its last instant, in one
        transaction."""
        origin = await begun(histories, self._arrangement, self.source, self._services.logs)
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

    async def take(self, batch: PolledBatch) -> None:
        """Work on a batch of the log, or a tick. Raises the failure of the last checkpoint."""
        self._look_for_failure()
        self.got_batch = True
        self.high_watermark = batch.high_watermark
        if batch.asked_at_ns:
            self._input_lag.answered(batch.asked_at_ns, batch.high_watermark)
        if batch.skipped:
            self._metrics.lost(batch.skipped)
        begin = self.next_offset
        records = batch.records
        if begin is not None and records and records[0].offset < begin:
            records = [record for record in records if record.offset >= begin]
        if records:
            await self._schemas_known(batch, records)
            if self._feed is not None:
                times_ms = [record.timestamp for record in records]
                since_ns = self.clock.now_ns or min(times_ms) * NS_PER_MS
                until_ns = max(self.clock.now_ns, max(times_ms) * NS_PER_MS)
                await self._feed.reach(self.source, since_ns, until_ns)
            await self._work_through(records)
            if not self.is_open:
                return
        self.next_offset = batch.next_offset if begin is None else max(begin, batch.next_offset)
        if self._arrangement.is_first and batch.caught_up_at_ns is not None:
            self._tick(batch.caught_up_at_ns)
        if self._is_full:
            await self._arrived()
            self._begin_checkpoint()
        else:
            self.pulse()

    async def _schemas_known(self, batch: PolledBatch, records: Sequence[Any]) -> None:
        """Wait for a registry, where the values are read by one. A partition that is revoked
        meanwhile is cancelled here, with nothing begun."""
        if self._inlet.registered:
            self.waits_for_schemas = batch.is_waiting = True
            try:
                await self._services.schemas.reach_for(self._inlet.registered, records)
            finally:
                self.waits_for_schemas = batch.is_waiting = False

    async def _work_through(self, records: Sequence[Any]) -> None:
        """Work on the records piece by piece. When a batch takes long, the process answers in
        between, and checkpoints keep what is done."""
        since_s = time.monotonic()
        for piece in self._pieces(records):
            self._work(piece)
            self.got_batch = True
            self._taken += len(piece)
            self.next_offset = piece[-1].offset + 1
            if self._is_full or time.monotonic() - since_s >= LONG_S:
                await self._arrived()
                if self._was_closed():
                    return
                self._begin_checkpoint()
                await asyncio.sleep(0)
                if self._was_closed():
                    return
                since_s = time.monotonic()

    def _pieces(self, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Cut into pieces of `PIECE` records at most, and of no more records or payload than may
        wait for a checkpoint; a larger record is a piece of its own."""
        sizes = list(accumulate([len(record.value or b"") for record in records], initial=0))
        first = 0
        while first < len(records):
            fits = bisect_right(sizes, sizes[first] + self._cutting.bytes) - 1
            end = max(first + 1, min(first + PIECE, first + self._cutting.records, fits))
            yield records[first:end]
            first = end

    @property
    def _is_full(self) -> bool:
        return self._cutting.is_full(self._taken, self._outbox.bytes)

    def _was_closed(self) -> bool:
        """Whether it was closed while another task had a turn."""
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

    def _work(self, records: Sequence[Any]) -> None:
        with self._whole_or_nothing():
            read = self._inlet.read(records, self.clock)
            self._take_in(read)
            self._input_lag.read(self._arrived_ns(read))

    def _arrived_ns(self, read: Read) -> int:
        """When the last record of a stretch arrived; 0 where only its reading is known."""
        if not self._arrangement.is_first:
            return read.events[-1].at_ns if read.events else 0
        return 0 if self.clock.is_of_reading else self.clock.now_ns

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """Close the partition where the body fails: memory is then ahead of the log, and nothing of
        it may be committed, not even by the graceful close that follows."""
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
        if not self._arrangement.is_first:
            self.clock.now_ns = max(self.clock.now_ns, step.now_ns)
        if self._arrangement.reads == SEQUENCED:
            _refuse_strange(step)
        self._held.took(events)
        self._metrics.received(events, read.dead)
        for dead in read.dead:
            self._side.put(dead, self._outbox)
        self._put(step, events[0].offset if events else ANY_OFFSET)
        if self.clock.without_append_time and not self._warned:
            self._warned = True
            without = no_arrival(self._arrangement.topology, self.source.topic)
            if without is not None and not self._services.logs.is_embedded:
                raise ArrangementError(without)
            log.warning(
                "%s bears no append time (message.timestamp.type=LogAppendTime): arrival is the"
                " time of %s, and two runs over one log may differ",
                self.source.topic,
                "sending" if self._services.logs.is_embedded else "reading",
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
        self._metrics.emitted(step)

    # -- checkpoints ------------------------------------------------------------------------------

    @cached_property
    def _contract(self) -> Contract:
        return self._arrangement.contract(self.source)

    @cached_property
    def _contract_encoded(self) -> Raw:
        """The same in each checkpoint; O(streams) to make."""
        return Raw(changelog.encode(self._contract))

    def _begin_checkpoint(self) -> None:
        """Cut: no await between the outputs, the changes and the offset."""
        now_ns = self.clock.now_ns
        if now_ns // self._heartbeat_ns > self._progress_ns // self._heartbeat_ns:
            self._progress_ns = now_ns
            self._outlet.progress(now_ns, self._outbox)
        if self.next_offset is None or not (self._taken or self._outbox.records):
            return
        size = self._taken, self._outbox.bytes
        with self._whole_or_nothing(), self._cutting.timed(self._taken):
            checkpoint = self._cut(now_ns, self.next_offset)
        self._taken = 0
        self._last_checkpoint_s = time.monotonic()
        self._on_its_way = asyncio.create_task(self._commit(checkpoint, *size))

    def _cut(self, now_ns: int, next_offset: int) -> Checkpoint:
        encoded = changelog.encoded(self.stage.changes(), changelog.STATE)
        log_end = self._committing.log_end
        is_due = self._last_whole.is_due(log_end, self._tally.entries) and not self._readings
        if is_due and self._held.touch_all():
            whole = changelog.encoded(self.stage.snapshot(), changelog.STATE)
            if self._last_whole.fits(whole, log_end):
                encoded |= whole
        encoded |= changelog.encoded(dict(self._held.changes(now_ns)))
        if self._readings:
            encoded |= changelog.encoded(self._readings.changes(self._held.first_offset()))
        self._tally.change(encoded)
        progress = Progress(
            next_offset,
            self.clock.snapshot(),
            self._contract_encoded,
            self._topic_id,
            changelog.STATE_FORMAT,
            self._tally.entries,
            self._tally.digest,
            self._last_whole.since,
            self._history,
            self.stage.begins_amid,
        )
        encoded[changelog.PROGRESS] = changelog.encode(progress)
        self._metrics.cut(encoded)
        needed_from = None
        if self._arrangement.reads == SEQUENCED:
            needed_from = self._held.needed_from(next_offset)
        return Checkpoint(self._outbox.take(), encoded, self.source, next_offset, needed_from)

    async def _commit(
        self, checkpoint: Checkpoint, records: int = 0, payload_bytes: int = 0
    ) -> None:
        await self._committing.commit(checkpoint, records, payload_bytes)
        self.through.note(checkpoint)
        self._copying.note(checkpoint.changes, self._committing.log_end)

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
        """Whether finished work waits for a checkpoint, or for the end of one."""
        return self._on_its_way is not None or bool(self._taken or self._outbox.records)

    @property
    def rests(self) -> bool:
        """No event has come for a while, and none waits: seldom ticks are enough."""
        return not self._waits and time.monotonic() - self._event_came_s >= RESTS_AFTER_S

    @property
    def position(self) -> tuple[int, int]:
        """The offset below which nothing is left to commit, and the input's end."""
        return self.through.next_offset if self.owes else self.next_offset or 0, self.high_watermark

    @property
    def streams_seen(self) -> Collection[str]:
        """The streams whose events have come since it was opened."""
        return self._metrics.streams_seen

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - (self.next_offset or 0))

    @property
    def lag_ns(self) -> int | None:
        """How long the next record has waited (agents.stage.input_lag)."""
        return self._input_lag.ns(self.next_offset or 0, time.time_ns())

    def explain(self, most_unhealthy: int) -> dict[str, Any]:
        """What is held here, since when, and what it waits for (`agents.watch.unhealthy`)."""
        through_s = self.through.at_s
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "next_offset": self.next_offset,
            "high_watermark": self.high_watermark,
            "lag_ns": self.lag_ns,
            "now": self.clock.now_ns,
            "held": len(self._held),
            "overtaken": self.clock.overtaken,
            "checkpoint_age_s": None if through_s is None else time.monotonic() - through_s,
            **self._metrics.latest,
            "late": self._metrics.decisions.late(),
            **explained(self.stage, self._metrics.unhealthy, most_unhealthy),
        }

    def locate(self, asked: Question) -> dict[str, Any]:
        """What is known here of one event (agents.watch.location)."""
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
        oldest = self._held.oldest()
        self._waits = oldest is not None
        self._overdue.look(oldest, self.clock.now_ns, has_backlog=self._has_backlog)
        self._metrics.overdue(self._overdue.seconds, self._overdue.waits_for)
        self._metrics.set_current(self._current(), self.lag, self._totals(), self.lag_ns)

    @property
    def _has_backlog(self) -> bool:
        lag_ns = self.lag_ns
        return bool(self.lag) and (lag_ns is None or lag_ns > FAR_BEHIND_NS)

    def fault(self) -> str | None:
        """Return what is wrong with its input, or with what it waits for."""
        return self.clock.fault() or self._overdue.fault()

    def _current(self) -> dict[str, StreamFigures]:
        waiting = self._held.by_stream(self.stage.chains)
        return current_figures(waiting, self.clock.now_ns, self.stage.figures_of)

    def _totals(self) -> ShellTotals:
        alignment = self.stage.alignment
        return ShellTotals(self.clock.overtaken, 0 if alignment is None else alignment.waivers)


def _refuse_strange(step: Step) -> None:
    """StateRefused where the stage before writes of a stream that this topology file has not."""
    for report in step.reports:
        if isinstance(report, Malformed) and report.reason == "unknown_stream":
            raise StateRefused(
                f"{report.detail}; the stage before runs another topology file: start this one anew"
                " with that file"
            )
