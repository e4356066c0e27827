"""Runs the Kafka client in its own thread, and polls it for records and partition ends.

The thread has its own loop, so heartbeats continue while the main loop computes. It differs from
Faust's own thread in three ways:

* Every setting of the client is stated here, because Faust fixes some, such as a fetch that waits
  1.5 s.
* A poll returns the records and the end of each partition at the same moment.
* Calls from the main loop wake the thread's loop by themselves. So Faust's two timers that wake the
  loops every second are left out.

At the quiet pace (`agents.kafka.pace`), a poll may take seconds, and so may a fetch at the broker.
No seek is possible during a poll, and the broker reads nothing else from the connection during a
fetch. A newly assigned partition would wait for both. So a rebalance ends both and makes the pace
brisk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import aiokafka
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import ConsumerStoppedError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import TopicPartition
from faust import Service
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from agents.kafka.assignor import make_assignor
from agents.kafka.membership import Meant, Membership
from agents.kafka.pace import BRISK, Pace, Pacing
from agents.kafka.partition_queue import End, FetchRequest, Partitions, Record, steady_ns
from agents.kafka.whole_batches import WholeBatches

MAX_POLL_RECORDS = 3_000
"""Maximum number of records in one poll, over all partitions.

A smaller number costs more per record (a tenth more at 1,000). So many records would trigger the
garbage collector under its default settings, which agents.process.garbage changes.
"""

FETCH_MAX_BYTES = 16 << 20
"""Maximum size of one broker's fetch response; a larger record is still returned, but alone."""

PARTITION_FETCH_MAX_BYTES = 1 << 20
"""Maximum size of one partition's share of a response; a larger record is returned alone."""

SESSION_TIMEOUT_S = 6.0
"""Default time without heartbeats after which a worker's partitions go to others."""

HEARTBEAT_INTERVAL_S = 0.5
"""Interval of heartbeats, and so the longest time until a member learns of a rebalance.

A rebalance waits for the last member to learn of it. Half the interval would reduce the mean wait
from 0.3 s to 0.2 s. It would cost an idle worker of four stages a tenth of its total work.
"""

REBALANCE_TIMEOUT_S = 30.0
"""Time that the group gives a worker to give up its partitions."""

MAX_POLL_INTERVAL_S = 300.0
"""Time without a poll after which a worker leaves the group."""

REQUEST_TIMEOUT_S = 40.0

FAUST_LOG = logging.getLogger("faust.inorder")
"""Logger for Faust's services, which would otherwise log under the names of our modules."""

T = TypeVar("T")


@dataclass(slots=True)
class Poll:
    """The result of a poll; `out_of_range` has the positions that are outside their logs."""

    pace: Pace = BRISK
    records: Mapping[TopicPartition, list[Record]] = field(default_factory=dict)
    ends: dict[TopicPartition, End] = field(default_factory=dict)
    out_of_range: dict[TopicPartition, int] = field(default_factory=dict)


class FetchTimes:
    """When the last answered fetch of each partition was requested, and of which broker.

    aiokafka records when it *processed* an answer (`timestamp`), which after a pause of the process
    is long after the broker sent it. It records that only for an answer without error at the
    current position, and nothing else here reads that field. So `FetchTimes` clears the field
    before the request and checks afterwards whether it was set.

    `on_records` is called for an answer with records, before the next fetch is sent.
    """

    def __init__(self, fetcher: Fetcher, on_records: Callable[[], None] = lambda: None) -> None:
        self.asked: dict[TopicPartition, FetchRequest] = {}
        # Wait times of the current fetches in ms, by the broker's node id.
        self.waits_ms: dict[Any, int] = {}
        self._on_records = on_records
        self._fetch = fetcher._proc_fetch_request
        fetcher._proc_fetch_request = self._fetch_and_time

    async def _fetch_and_time(self, assignment: Any, node_id: Any, request: Any) -> bool:
        asked = FetchRequest(steady_ns(), time.time_ns(), node_id)
        states = {
            partition: assignment.state_value(partition)
            for topic, shares in request.topics
            for partition in (TopicPartition(topic, share[0]) for share in shares)
        }
        for state in states.values():
            state.timestamp = None
        self.waits_ms[node_id] = request._max_wait_ms
        try:
            has_records = bool(await self._fetch(assignment, node_id, request))
        finally:
            self.waits_ms.pop(node_id, None)
        for partition, state in states.items():
            if state.timestamp is not None:
                self.asked[partition] = asked
        if has_records:
            self._on_records()
        return has_records


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread of the Kafka client; its methods may be awaited from the main loop."""

    logger = FAUST_LOG
    _membership: Membership | None = None
    _long_poll: asyncio.Timeout | None = None

    async def on_start(self) -> None:
        await super().on_start()
        consumer = self._ensure_consumer()
        fetcher = consumer._fetcher
        app = cast(Any, self.app)
        wants_ticks = cast(Any, self.consumer).handler.wants_ticks
        self._pacing = Pacing(fetcher, is_fixed=app.brokers.is_embedded, wants_ticks=wants_ticks)
        self._times = FetchTimes(fetcher, self._pacing.quicken)
        WholeBatches(fetcher)
        self._membership = Membership(consumer, app.session_s, self._fail)

    async def on_thread_stop(self) -> None:
        try:
            if self._membership is not None:
                await self._membership.leave()
        finally:  # Otherwise the thread would not end, and would not leave the group.
            await super().on_thread_stop()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """End polls and fetches that may last long, because a rebalance begins."""
        self.interrupt_poll()
        await super().on_partitions_revoked(revoked)

    def interrupt_poll(self) -> None:
        """End a poll and fetches that may take long; call it in the consumer's thread."""
        self._pacing.quicken()
        poll, self._long_poll = self._long_poll, None
        if poll is not None:
            poll.reschedule(0.0)
        connections = self._ensure_consumer()._client._conns
        for node_id, wait_ms in self._times.waits_ms.items():
            connection = connections.get((node_id, ConnectionGroup.DEFAULT))
            if wait_ms > BRISK.fetch_wait_ms and connection is not None:
                connection.close(exc=Meant("a rebalance begins"))

    async def _keepalive2(self) -> None:
        """Do nothing, because calls wake the loop by themselves."""

    @Service.task  # type: ignore[untyped-decorator, unused-ignore]
    async def _thread_keepalive(self) -> None:
        """Do nothing, because calls wake the loop by themselves."""

    def _fail(self, error: Exception) -> None:
        failure = cast(Any, self.consumer).failure
        self.parent_loop.call_soon_threadsafe(failure.set, error)

    async def poll(self, partitions: Partitions, *, rests: bool = False) -> Poll:
        """Return up to `MAX_POLL_RECORDS` records of these partitions.

        The poll takes at most the time that agents.kafka.pace sets. If it begins during a
        rebalance, it returns after the rebalance.
        """
        return await self._call_in_thread(self._poll(partitions, rests))

    async def seek_all(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Seek to these offsets; None means the first offset that exists."""
        await self._call_in_thread(self._seek_all(offsets))

    async def find_first_offset(self, partition: TopicPartition) -> int:
        """Return the oldest offset that the log still has."""
        found = await self._call_in_thread(self._ensure_consumer().beginning_offsets([partition]))
        return int(found[partition])

    def has_topic(self, topic: str) -> bool:
        """Return whether the topic is in the client's latest metadata."""
        return bool(self._ensure_consumer().partitions_for_topic(topic))

    async def _call_in_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        # A poll and a rebalance can occupy both workers of Faust's own queue for such calls.
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(coroutine, self.thread_loop)
        )

    async def _poll(self, partitions: Partitions, rests: bool) -> Poll:
        consumer = self._ensure_consumer()
        fetcher = consumer._fetcher
        if consumer._closed or fetcher._closed:
            raise ConsumerStoppedError
        # This raises the error that has ended the client's work in the group.
        consumer._coordinator.check_errors()
        pace = self._pacing.choose_pace(rests=rests)
        poll = Poll(pace)
        # The client counts this context as a sign of life.
        with fetcher._subscriptions.fetch_context():
            if not partitions:  # The fetcher would take an empty set to mean all partitions.
                await asyncio.sleep(BRISK.poll_s)
                return poll
            try:
                async with asyncio.timeout(None) as self._long_poll:
                    poll.records = await fetcher.fetched_records(
                        partitions, timeout=pace.poll_s, max_records=MAX_POLL_RECORDS
                    )
            except TimeoutError:
                pass  # `interrupt_poll` has ended the poll.
            except OffsetOutOfRangeError as exc:
                poll.out_of_range = dict(exc.args[0])
            except NoOffsetForPartitionError:
                pass  # New partitions have no offset before the seek that follows each assignment.
            finally:
                self._long_poll = None
        self._note_ends(partitions, poll)
        return poll

    def _note_ends(self, partitions: Partitions, poll: Poll) -> None:
        """Record the partitions' ends in the same turn of the loop, so they fit the records."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        for partition in partitions & assignment.tps:
            state = assignment.state_value(partition)
            asked = self._times.asked.get(partition)
            if asked is not None and state.has_valid_position:
                poll.ends[partition] = End(state.position, state.highwater, asked)

    async def _seek_all(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        consumer = self._ensure_consumer()
        unnamed = [partition for partition, offset in offsets.items() if offset is None]
        first = await consumer.beginning_offsets(unnamed) if unnamed else {}
        for partition, offset in offsets.items():
            self._times.asked.pop(partition, None)
            consumer.seek(partition, first[partition] if offset is None else offset)

    def _assignor(self, name: str | None) -> type[Any]:
        """Return the assignor of groups, if any group has several partitions."""
        consumer = cast(Any, self.consumer)
        together = consumer.handler.together
        if not together:
            return cast(type[Any], RoundRobinPartitionAssignor)
        return make_assignor(together, lambda: consumer.had, name)

    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        app = cast(Any, self.app)
        return aiokafka.AIOKafkaConsumer(
            **app.brokers.client,
            client_id=app.conf.broker_client_id,
            group_id=app.conf.id,
            group_instance_id=app.instance,
            partition_assignment_strategy=[self._assignor(app.instance)],
            enable_auto_commit=False,  # The offsets belong to the transaction.
            auto_offset_reset="none",  # The stage itself handles a position outside the log.
            isolation_level="read_committed",
            check_crcs=not app.brokers.is_embedded,
            max_poll_records=MAX_POLL_RECORDS,
            max_poll_interval_ms=int(MAX_POLL_INTERVAL_S * 1000),
            fetch_max_bytes=FETCH_MAX_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_MAX_BYTES,
            session_timeout_ms=int(app.session_s * 1000),
            heartbeat_interval_ms=int(min(HEARTBEAT_INTERVAL_S, app.session_s / 3) * 1000),
            rebalance_timeout_ms=int(REBALANCE_TIMEOUT_S * 1000),
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        )
