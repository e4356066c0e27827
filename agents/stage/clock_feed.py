"""Fills the drift table of a process from `clock.offsets`.

Every process that corrects timestamps reads the whole topic, without a group. It reads it into one
`topology.order.clock.drift_table`, which its partitions share. Each sample must be in the table
before the first event that it applies to is corrected. Then arrival times alone decide which
samples apply to an event. So a partition works on input that arrived up to time a only after
`reach` has returned. That requires one of two things from each partition of the topic:

* it has been read to a record that arrived at a - `activation` or later;
* it was at its end when it was checked, at most `activation` before `reach` was called. Then
  everything that arrived that long before the input was fetched has been read, whatever the clocks
  of brokers and workers show.

The same holds for a declared offset, which applies from `activation` after its arrival.

In a backlog the topic is read at most `LOOKAHEAD_NS` beyond the input that is furthest ahead.
Samples are dropped if they arrived longer before the input that is furthest behind than the model
remembers. So the table stays small however far behind a worker is. If this process is assigned a
partition that is further behind, the topic is read again from there, while the others wait.

The table has a local copy (`agents.state.local_copy`), one for each partition of the topic, so a
restart need not read the topic from its beginning. A record that is not a clock reading is counted
and logged, and has no other effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.fetching import FetchTimes
from agents.kafka.partition_queue import NEVER, steady_ns
from agents.kafka.whole_batches import WholeBatches
from agents.stage.arrival import NS_PER_MS, ArrivalClock
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import Copied
from topology.base.sample import Declared, Sample
from topology.order.clock.drift_table import DriftTable
from topology.records.clock_words import read_report

log = logging.getLogger(__name__)

LOOKAHEAD_NS: Final = 60_000_000_000
LOOKS: Final = 3
"""The end of the topic is checked this many times within `activation`.

So the broker waits for a fraction of `activation` before it answers without records, but for at
least `SHORTEST_WAIT_MS` and at most `LONGEST_WAIT_MS`.
"""

SHORTEST_WAIT_MS: Final = 100
LONGEST_WAIT_MS: Final = 500

MAX_READ: Final = 5_000
"""Maximum number of records of one poll."""

COPY_EVERY_S: Final = 5.0
MAX_UNCOPIED: Final = 50_000
"""Changes that wait for the local copy are written at once when there are this many."""

STEP_BACK_NS: Final = 10_000_000_000
"""Additional time for which samples are remembered.

On the embedded broker the arrival time is the time of sending. So new input may be a little older
than the time that `reach` was given.
"""

LOG_AFTER_S: Final = 10.0
FORGOTTEN: Final = b"\nforgotten"
"""Key in the local copies of the time before which samples are missing; no source has this name."""
NOTHING_FORGOTTEN_NS: Final = -(1 << 63)

LOGGED_REFUSALS: Final = 10
"""Maximum number of refused records that are logged one by one; later ones are only counted."""

Word = Sample | Declared


@dataclass(eq=False)
class Share:
    """A partition of the topic: its reading position and its local copy.

    Attributes:
        ended_at_ns: Monotonic time at which the partition last had no more records.
        position: The largest reading position that was reached, to which the copy is moved. It
          never goes back, although reading may.
        copied_to: The position of the copy after the changes handed to it.
        changes: The changes that wait to be written to the copy.
    """

    partition: TopicPartition
    copying: CopyWriter
    clock: ArrivalClock
    ended_at_ns: int = NEVER.mono_ns
    position: int = 0
    copied_to: int = 0
    changes: dict[bytes, bytes | None] = field(default_factory=dict)


@dataclass(eq=False)
class ClockFeed:
    """The reader of `clock.offsets`: `start`, `reach` before each batch, `stop` at the end.

    Attributes:
        activation_ns: The shortest activation of the streams.
        window_ns: The longest time for which a stream's model uses a sample.
        words: Number of samples and declared offsets read.
        refused: Number of records that are not clock readings.
    """

    brokers: Brokers
    topic: str
    table: DriftTable
    _: KW_ONLY
    activation_ns: int
    window_ns: int
    new_copy: Callable[[TopicPartition, str], CopyWriter]
    words: int = 0
    refused: int = 0
    _shares: list[Share] = field(default_factory=list, init=False)
    _needed: dict[Any, tuple[int, int]] = field(default_factory=dict, init=False)
    """The range of arrival times for which each asker needs samples."""
    _homes: dict[str, Share] = field(default_factory=dict, init=False)
    _moved: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _forgotten_ns: int = field(default=NOTHING_FORGOTTEN_NS, init=False)
    """The arrival time before which samples may be missing from the table."""
    _reading: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        wait_ms = self.activation_ns // NS_PER_MS // LOOKS
        self._wait_ms = min(max(wait_ms, SHORTEST_WAIT_MS), LONGEST_WAIT_MS)

    def _new_clock(self) -> ArrivalClock:
        return ArrivalClock(0, embedded=self.brokers.is_embedded)

    # -- for the partitions ------------------------------------------------------------------------

    async def reach(self, asker: Any, since_ns: int, until_ns: int) -> None:
        """Wait until the table has all samples that can apply to input of these arrival times.

        `asker` identifies the owner of that input. Raises FeedEnded if the topic is no longer read.
        """
        self._needed[asker] = (since_ns, until_ns)
        begun_ns, began_s, logged = steady_ns(), time.monotonic(), False
        while not self._has_samples_for(since_ns, until_ns, begun_ns):
            if not logged and time.monotonic() - began_s > LOG_AFTER_S:
                logged = True
                log.warning("%s: input waits for the samples that may apply to it", self.topic)
            reading = self._reading
            if reading is None or reading.done():
                why = None if reading is None or reading.cancelled() else reading.exception()
                raise FeedEnded(f"{self.topic} is no longer read") from why
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), LOG_AFTER_S)

    def allow_until(self, asker: Any, arrival_ns: int) -> None:
        """Allow reading the topic up to this time, which an asker without input has reached."""
        self._needed[asker] = (arrival_ns, arrival_ns)

    def drop_asker(self, asker: Any) -> None:
        """Forget an asker that needs no more samples."""
        self._needed.pop(asker, None)

    def _has_samples_for(self, since_ns: int, until_ns: int, begun_ns: int) -> bool:
        if since_ns - self.activation_ns - self.window_ns < self._forgotten_ns:
            return False
        needed_ns = until_ns - self.activation_ns
        recent_ns = begun_ns - self.activation_ns
        return all(
            share.clock.now_ns >= needed_ns or share.ended_at_ns >= recent_ns
            for share in self._shares
        )

    # -- reading -----------------------------------------------------------------------------------

    async def start(self, partitions: int) -> None:
        """Load the local copies of the topic's partitions, and start to read at their positions."""
        for number in range(partitions):
            partition = TopicPartition(self.topic, number)
            copy = self.new_copy(partition, self.topic)
            self._shares.append(Share(partition, copy, self._new_clock()))
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(begun))
        await asyncio.wait([begun, self._reading], return_when=asyncio.FIRST_COMPLETED)
        if self._reading.done():
            await self._reading

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await asyncio.gather(*(share.copying.close() for share in self._shares))

    async def _read(self, begun: asyncio.Future[None]) -> None:
        try:
            async with self.brokers.reader(fetch_max_wait_ms=self._wait_ms) as consumer:
                times = FetchTimes(consumer._fetcher)
                WholeBatches(consumer._fetcher)
                # The client then checks for work whenever the broker answers.
                consumer._fetcher._fetcher_timeout = self._wait_ms / 1e3
                await self._begin(consumer)
                begun.set_result(None)
                await self._read_batches(consumer, times)
        finally:
            self._moved.set()

    async def _begin(self, consumer: AIOKafkaConsumer) -> None:
        partitions = [share.partition for share in self._shares]
        consumer.assign(partitions)
        first = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
        for share in self._shares:
            place = share.partition
            copy = share.copying.copy
            copied = await asyncio.to_thread(copy.load)
            unfit = await asyncio.to_thread(copy.why_unfit, ends[place])
            if unfit is not None:
                await asyncio.to_thread(copy.discard, unfit)
                copied = Copied()
            for key in sorted(copied.state):
                self._restore(share, key, copied.state[key])
            share.copied_to = copied.position or 0
            share.position = max(share.copied_to, first[place])
            consumer.seek(place, share.position)

    def _restore(self, share: Share, key: bytes, value: bytes) -> None:
        if key == FORGOTTEN:
            self._forgotten_ns = max(self._forgotten_ns, int(value))
            return
        source, arrival, offset = key.decode().rsplit("\n", 2)
        word = read_report(source, orjson.loads(value), int(arrival), int(offset))
        if isinstance(word, Word):
            self.table.add(word)
            self._homes[source] = share

    async def _read_batches(self, consumer: AIOKafkaConsumer, times: FetchTimes) -> None:
        self.table.dropped = []
        copied_s = time.monotonic()
        while True:
            await self._reread_dropped(consumer)
            self._pause_far_ahead(consumer)
            batches = await consumer.getmany(timeout_ms=self._wait_ms, max_records=MAX_READ)
            for share in self._shares:
                records = batches.get(share.partition, ())
                for record in records:
                    self._take(share, record)
                await self._note_end(consumer, times, share)
            self._moved.set()
            waiting = sum(len(share.changes) for share in self._shares)
            if time.monotonic() - copied_s >= COPY_EVERY_S or waiting >= MAX_UNCOPIED:
                copied_s = time.monotonic()
                await self._update_copies()

    async def _reread_dropped(self, consumer: AIOKafkaConsumer) -> None:
        """Read the topic again from an earlier time, if an asker needs dropped samples."""
        since_ns = self._oldest_needed()
        if since_ns >= self._forgotten_ns:
            return
        since_ms = max(0, since_ns // NS_PER_MS)
        found = await consumer.offsets_for_times(
            dict.fromkeys([share.partition for share in self._shares], since_ms)
        )
        log.info(
            "%s: a partition is far behind; reading again from time %d ms", self.topic, since_ms
        )
        self.table.forget_all()
        self._forgotten_ns = since_ns
        for share in self._shares:
            share.clock = self._new_clock()
            share.ended_at_ns = NEVER.mono_ns
            at = found[share.partition]
            if at is not None:
                consumer.seek(share.partition, at.offset)
            elif self.brokers.is_embedded:
                # The embedded broker cannot look up offsets by time, and has little to read again.
                await consumer.seek_to_beginning(share.partition)

    def _oldest_needed(self) -> int:
        oldest_ns = min((since_ns for since_ns, _ in self._needed.values()), default=1 << 63)
        return oldest_ns - self.activation_ns - self.window_ns

    def _pause_far_ahead(self, consumer: AIOKafkaConsumer) -> None:
        """Pause the partitions whose reading is far ahead of all askers, and resume the others."""
        furthest_ns = max((until_ns for _, until_ns in self._needed.values()), default=0)
        limit_ns = furthest_ns + LOOKAHEAD_NS
        for share in self._shares:
            if share.clock.now_ns > limit_ns:
                consumer.pause(share.partition)
            else:
                consumer.resume(share.partition)

    async def _note_end(self, consumer: AIOKafkaConsumer, times: FetchTimes, share: Share) -> None:
        position = await consumer.position(share.partition)
        share.position = max(share.position, position)
        if position == consumer.highwater(share.partition):
            share.ended_at_ns = times.asked.get(share.partition, NEVER).mono_ns

    def _take(self, share: Share, record: Any) -> None:
        word = read_clock_record(record, share.clock)
        if isinstance(word, str):
            self.refused += 1
            if self.refused <= LOGGED_REFUSALS:
                topic, partition = share.partition
                place = f"{topic}/{partition} at offset {record.offset}"
                log.warning("%s: not a clock reading: %s", place, word)
            return
        if isinstance(word, Declared):
            word.arrival_ns += self.activation_ns
        self.words += 1
        self.table.add(word)
        self._homes[word.source] = share
        share.changes[key_of(word)] = record.value

    # -- the local copy ----------------------------------------------------------------------------

    async def _update_copies(self) -> None:
        self._forget_old()
        for share in self._shares:
            if share.position == share.copied_to:
                continue  # The copy changes only when the position advances.
            changes, share.changes = share.changes, {}
            share.copied_to = share.position
            share.copying.note(changes, share.copied_to)

    def _forget_old(self) -> None:
        if self._needed:
            oldest_ns = self._oldest_needed() - STEP_BACK_NS
            self.table.forget_before(oldest_ns)
            if oldest_ns > self._forgotten_ns:
                self._forgotten_ns = oldest_ns
                for share in self._shares:
                    share.changes[FORGOTTEN] = b"%d" % oldest_ns
        dropped, self.table.dropped = self.table.dropped or [], []
        for word in dropped:
            home = self._homes.get(word.source)
            if home is not None:
                home.changes[key_of(word)] = None
        if len(self._homes) > 2 * len(self.table):
            self._homes = {name: at for name, at in self._homes.items() if name in self.table}


class FeedEnded(Exception):
    """The drift table is no longer updated, so the process must restart."""


def read_clock_record(record: Any, clock: ArrivalClock) -> Word | str:
    """Return the sample or declared offset of a record, or why it has none, and move the clock.

    A sample has the source's own sending time, which helps to check the broker's clock.
    """
    word = _parse_record(record)
    stamp_ns = word.t4_ns if isinstance(word, Sample) else None
    arrival_ns = clock.judge(record.timestamp, record.timestamp_type, time.time_ns(), stamp_ns)
    if not isinstance(word, str):
        word.arrival_ns = arrival_ns
    return word


def _parse_record(record: Any) -> Word | str:
    try:
        source = (record.key or b"").decode()
        values = orjson.loads(record.value or b"null")
    except ValueError as fault:  # Invalid UTF-8 and invalid JSON both raise a ValueError.
        return f"the key is not UTF-8, or the value is not JSON ({fault})"
    if not source:
        return "it has no key; the key is the source"
    if not isinstance(values, dict):
        return "the value is not a JSON object"
    return read_report(source, values, 0, record.offset)


def key_of(word: Word) -> bytes:
    return f"{word.source}\n{word.arrival_ns:020d}\n{word.offset:020d}".encode()
