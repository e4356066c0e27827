"""End to end: the drift table is filled from a real topic and its copy; partitions wait for it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

import agents.stage.clock_feed
from agents.kafka.brokers import Brokers
from agents.stage.arrival import ArrivalClock
from agents.stage.clock_feed import LOOKAHEAD_NS, STEP_BACK_NS, ClockFeed, FeedEnded, Share
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import LocalCopy
from agents.state.stores.rocksdb import RocksdbStore
from agents.state.stores.store import StoreName
from cli.local.embedded import PARTITIONS, EmbeddedBroker
from tests.services import SharedKafka, UniqueName
from tests.waiting import until
from topology.base.sample import Declared, Sample
from topology.order.clock.drift_table import KEPT, DriftTable

pytestmark = pytest.mark.kafka

S = 1_000_000_000
LOG_APPEND = {"message.timestamp.type": "LogAppendTime"}
ROUND = {"t1": 1, "t2": 2, "t3": 3, "t4": 4}


def feed_of(
    bootstrap: str, topic: str, folder: Path | None = None, *, is_embedded: bool = False
) -> ClockFeed:
    def new_copy(source: TopicPartition, _: str) -> CopyWriter:
        name = StoreName("app", "stage", source.topic, source.partition)
        store = None if folder is None else RocksdbStore(folder, name)
        return CopyWriter(LocalCopy(source.topic, lambda: store, lambda _: None))

    return ClockFeed(
        Brokers(bootstrap, is_embedded=is_embedded),
        topic,
        DriftTable(),
        activation_ns=S,
        window_ns=300 * S,
        new_copy=new_copy,
    )


async def write(bootstrap: str, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for key, value in records:
        await producer.send_and_wait(topic, value, key)
    await producer.stop()


def words(source: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(source.encode(), json.dumps(ROUND).encode())] * count


@asynccontextmanager
async def feeding(
    bootstrap: str, topic: str, partitions: int = 1, **how: Any
) -> AsyncIterator[ClockFeed]:
    """Yield a feed that reads the topic."""
    feed = feed_of(bootstrap, topic, **how)
    await feed.start(partitions)
    yield feed
    await feed.stop()


async def test_samples_enter_the_table(kafka: SharedKafka, unique_name: UniqueName) -> None:
    topic = unique_name("clock")
    kafka.create_topic(topic, 2, LOG_APPEND)
    declared = (b"b", b'{"at": 5, "offset": -7, "error": 1}')
    bad = [(None, b"{}"), (b"\xff", b"{}"), *((b"a", each) for each in (None, b"{", b"[]", b"{}"))]
    await write(kafka.bootstrap, topic, *words("a", 3), declared, *bad)
    async with feeding(kafka.bootstrap, topic, 2) as feed:
        await feed.reach("p", time.time_ns(), time.time_ns())
        track = feed.table.acquire_track("a")
        assert [(s.t1_ns, s.t4_ns) for s in track.samples] == [(1, 4)] * 3
        assert abs(track.samples[0].arrival_ns - time.time_ns()) < 60 * S
        (word,) = feed.table.acquire_track("b").declared
        assert (word.at_ns, word.offset_ns, word.error_ns) == (5, -7, 1)
        assert (feed.words, feed.refused) == (4, len(bad))
        await write(kafka.bootstrap, topic, *words("a", 1))
        await until(lambda: len(track.samples) == 4)


async def test_copy_keeps_deleted_samples(
    kafka: SharedKafka,
    unique_name: UniqueName,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agents.stage.clock_feed, "COPY_EVERY_S", 0.1)
    topic = unique_name("clock")
    kafka.create_topic(topic, 1, LOG_APPEND)

    async def filled(expected: int) -> None:
        async with feeding(kafka.bootstrap, topic, folder=tmp_path) as feed:
            await feed.reach("p", time.time_ns(), time.time_ns())
            assert len(feed.table.acquire_track("a").samples) == expected
            copy = feed._shares[0].copying.copy
            await until(lambda: copy._position == expected)  # the end of the topic

    await write(kafka.bootstrap, topic, *words("a", 5))
    await filled(5)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=5)})
    await admin.close()
    await write(kafka.bootstrap, topic, *words("a", 2))
    await filled(7)


async def test_ended_feed_fails_waiting_tasks() -> None:
    feed = feed_of("127.0.0.1:1", "clock")
    place = TopicPartition("clock", 0)
    share = Share(place, feed.new_copy(place, "clock"), ArrivalClock(0))
    feed._shares.append(share)
    now_ns = time.time_ns()
    with pytest.raises(FeedEnded, match="no longer read"):
        await feed.reach("p", now_ns, now_ns)
    share.clock.now_ns = now_ns - S  # read up to the first sample that matters
    await feed.reach("p", now_ns, now_ns)
    share.clock.now_ns = 0
    share.ended_at_ns = now_ns  # at the end of the topic since before the fetch of the input
    await feed.reach("p", now_ns, now_ns + 10 * S)


def test_read_ahead_is_limited() -> None:
    paused: set[TopicPartition] = set()
    reader = SimpleNamespace(pause=paused.add, resume=paused.discard)
    feed = feed_of("127.0.0.1:1", "clock")
    partition = TopicPartition("clock", 0)
    share = Share(partition, feed.new_copy(partition, "clock"), ArrivalClock(0))
    feed._shares.append(share)
    share.clock.now_ns = 1_000 * S
    feed.allow_until("slow", 100 * S)
    feed._pause_far_ahead(reader)
    assert paused == {partition}
    feed.allow_until("fast", 1_000 * S - LOOKAHEAD_NS)
    feed._pause_far_ahead(reader)
    assert not paused
    feed.table.dropped = []
    for at in range(0, 1_000, 2):
        feed.table.add(Sample("a", 1, 2, 3, 4, at * S, at))
    feed.table.add(Declared("a", 0, 0, 0, 0))
    feed.allow_until("slow", 700 * S)
    feed._forget_old()
    assert not feed._has_samples_for(600 * S, 700 * S, 0)  # Needed samples can be gone.
    assert feed._has_samples_for(700 * S, 700 * S, 0)
    oldest_ns = (700 - 1 - 300) * S - STEP_BACK_NS
    assert (
        feed.table.acquire_track("a").samples[0].arrival_ns == oldest_ns + S
    )  # The bound is 389 s; samples have even seconds.
    feed.drop_asker("slow")
    feed._forget_old()
    assert feed.table.acquire_track("a").samples[0].arrival_ns > 600 * S


async def test_lagging_partition_rereads(kafka: SharedKafka, unique_name: UniqueName) -> None:
    topic = unique_name("clock")
    kafka.create_topic(topic, 1, LOG_APPEND)
    await write(kafka.bootstrap, topic, *words("a", 100))
    async with feeding(kafka.bootstrap, topic) as feed:
        now_ns = time.time_ns()
        await feed.reach("ahead", now_ns, now_ns)
        feed.allow_until("ahead", now_ns + 3_600 * S)  # as if it had run for an hour
        feed._forget_old()
        assert len(feed.table.acquire_track("a").samples) == KEPT
        feed.drop_asker("ahead")
        await feed.reach("behind", now_ns, now_ns)
        assert len(feed.table.acquire_track("a").samples) == 100


async def test_embedded_topic_is_reread(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName
) -> None:
    """An embedded broker cannot look up times. A small step back needs no second reading."""
    topic = unique_name("clock")
    embedded_broker.make_topic(topic)
    await write(embedded_broker.bootstrap, topic, *words("a", 20))
    async with feeding(embedded_broker.bootstrap, topic, PARTITIONS, is_embedded=True) as feed:
        now_ns = time.time_ns()
        await feed.reach("quiet", now_ns, now_ns + 10 * S)
        feed.allow_until("quiet", now_ns)
        feed._forget_old()
        before = feed.words
        await feed.reach("quiet", now_ns - STEP_BACK_NS // 2, now_ns)
        assert feed.words == before
        feed.allow_until("quiet", now_ns + 3_600 * S)
        feed._forget_old()
        await feed.reach("quiet", now_ns, now_ns + 10 * S)
        assert feed.words == 2 * before
        assert len(feed.table.acquire_track("a").samples) == 20
