"""End to end: a local copy may fail in any way without harm."""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from redis import Redis

from benchmarks.workloads import crowd
from cli.local.poll import wait_until
from infra.redis import RedisServer
from tests.end_to_end.numbered import NUMBERED, TIMEOUT_S, numbered, send_all, worker_of
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender, new_producer
from tests.end_to_end.setting import FUSED, SPLIT, Setting, fused, settle
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.worker import Worker
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOURCES = 1_500
FULL_AT_BYTES = 200_000
HELD = 300_000


def send_at_once(setting: Setting, sources: int, *numbers: int) -> None:
    """In one batch, which the log takes in one instant, so that nothing can be late. In several, a
    busy machine may let time pass in between, and all behind are older than that."""
    arrived_ms = set()

    def confirmed(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        arrived_ms.add(message.timestamp()[1])

    one_batch = {"linger.ms": 60_000, "batch.num.messages": 1_000_000, "batch.size": 64 << 20}
    producer = new_producer(setting.bootstrap, **one_batch, **{"compression.type": "lz4"})
    for source, value, headers in numbered(sources, *numbers):
        key = setting.key(source)
        producer.produce(setting.raw, value, key, headers=list(headers), on_delivery=confirmed)
    assert producer.flush(TIMEOUT_S) == 0
    assert len(arrived_ms) == 1, arrived_ms


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def damage_is_found(setting: Setting, folder: Path, workers: list[Worker], sources: int) -> None:
    worker = worker_of(setting, folder, workers)
    worker.begin()
    send_at_once(setting, sources, 0, 1)
    wait_out(setting, 2 * sources)
    assert worker.stop() == 0, worker.log
    files = list((folder / "state").rglob("*.sst"))
    assert files
    for path in files:
        flip_a_bit(path)
    worker.begin()
    send_at_once(setting, sources, 0, 1)
    first = setting.stages[0]

    def all_seen() -> bool:
        counted = worker.metrics()
        return counted.get(f"records_in:{first}", 0.0) >= 2 * sources

    wait_until(all_seen, TIMEOUT_S, "the records that were sent again")
    found = sum(
        sample.value
        for family in worker.families()
        for sample in family.samples
        if sample.labels.get("reason") == "StoreDamaged" and sample.name.endswith("_total")
    )
    assert found >= 1
    assert worker.stop() == 0, worker.log
    assert "the local copy is damaged and is rebuilt from the changelog" in worker.log
    assert list((folder / "state").rglob("*.damaged-0"))
    verdict = assert_sound(setting)
    assert (verdict.unmarked, verdict.duplicates) == (2 * sources, 2 * sources), verdict


def test_flipped_bits_in_the_local_copy(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    damage_is_found(setting, tmp_path, workers, SOURCES)


@pytest.mark.chaos
@pytest.mark.parametrize("stages", [FUSED, SPLIT])
def test_flipped_bits_in_large_local_copies(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker], stages: str
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=1, stream=NUMBERED)
    damage_is_found(setting, tmp_path, workers, 4 * SOURCES)


@pytest.mark.chaos
def test_a_state_folder_deleted_between_two_runs(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The changelog is sound: all is made anew from it."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    for _ in range(2):
        worker.begin()
        send_all(setting, 20, 0, 1)
        wait_out(setting, 40)
        assert worker.stop() == 0, worker.log
        shutil.rmtree(tmp_path / "state")
    verdict = assert_sound(setting)
    out = verdict.unmarked + sum(verdict.late.values())
    assert (out, verdict.duplicates) == (40, 40), verdict


def test_a_state_folder_deleted_at_work(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(4_000, seed=9).rows
    worker.begin()
    sender = Sender(setting, rows, speed=0.5, epoch=0).start()
    wait_until(lambda: sender.share > 0.3, TIMEOUT_S, "a part of the rows")
    shutil.rmtree(tmp_path / "state")
    sender.finish()
    wait_out(setting, len({(row.source, row.seq) for row in rows}))
    assert worker.stop() == 0, worker.log[-3000:]
    assert "failed" not in worker.log, worker.log[-3000:]
    assert_sound(setting)


@pytest.mark.redis
@pytest.mark.chaos
def test_a_redis_that_is_emptied_at_work(
    kafka: SharedKafka, own_redis: RedisServer, tmp_path: Path, workers: list[Worker]
) -> None:
    """The worker goes on, and so does the next one, from the changelog: the same output."""
    redis = f"redis: {own_redis.url}\n"
    setting = fused(kafka.bootstrap, tmp_path, state="redis", more=redis)
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(6_000, seed=9).rows
    worker.begin()
    sender = Sender(setting, rows, speed=0.3, epoch=0).start()
    wait_until(lambda: sender.share > 0.3, TIMEOUT_S, "a part of the rows")
    with Redis.from_url(own_redis.url) as server:
        wait_until(lambda: server.dbsize() > 0, TIMEOUT_S, "a local copy")
        server.flushall()
        wait_until(lambda: sender.share > 0.6, TIMEOUT_S, "more of the rows")
        assert worker.stop() == 0, worker.log[-3000:]
        server.flushall()
    worker.start()
    sender.finish()
    wait_out(setting, len({(row.source, row.seq) for row in rows}))
    assert worker.stop() == 0, worker.log[-3000:]
    assert_sound(setting)


@pytest.mark.chaos
def test_a_full_disk_at_work(kafka: SharedKafka, tmp_path: Path, workers: list[Worker]) -> None:
    """A limit of the file size stands for it; both stages meet it after some checkpoints. Events
    come slowly: a busy machine makes few checkpoints of such as come at once."""
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, partitions=1)
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(20_000, seed=9).rows
    worker.begin()
    stages = worker.stages()
    for pid in stages:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, FULL_AT_BYTES))
    Sender(setting, rows, speed=0.1, epoch=0).start().finish()
    wait_out(setting, len({(row.source, row.seq) for row in rows}))
    wait_until(lambda: "local copy is no longer used" in worker.log, TIMEOUT_S, "the full disk")
    assert worker.stages() == stages
    assert worker.stop() == 0, worker.log[-3000:]
    assert_sound(setting)


@pytest.mark.redis
@pytest.mark.chaos
def test_a_frozen_redis_stops_nothing(
    kafka: SharedKafka, own_redis: RedisServer, tmp_path: Path, workers: list[Worker]
) -> None:
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages=FUSED,
        partitions=2,
        state="redis",
        more=f"redis: {own_redis.url}\n",
    )
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(40_000, seed=9).rows
    worker.begin()
    sender = Sender(setting, rows, speed=1.0, epoch=0).start()
    emitted = Emitted(setting)
    while sender.share < 0.2:
        emitted.poll()
    own_redis.process.pause()
    try:
        emitted.longest_silence_s = 0.0
        until_s = time.monotonic() + 25.0
        while time.monotonic() < until_s and sender.share < 1.0:
            emitted.poll()
        silence_s = emitted.longest_silence_s
    finally:
        own_redis.process.resume()
    sender.finish()
    emitted.wait_for(len({(row.source, row.seq) for row in rows}))
    emitted.close()
    print(f"longest silence while Redis was frozen: {silence_s:.2f} s")
    assert silence_s < 2.0  # on a busy machine; it was 16 s
    assert worker.stop() == 0, worker.log[-3000:]
    assert_sound(setting)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_restore_of_very_many_held_events(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The process answers all the while, and says how far it is."""
    hole = "reorder: {start: zero, max_wait: 1h, max_held: 2000000}"
    more = "spill_after: 1h\n"
    setting = fused(kafka.bootstrap, tmp_path, stream=hole, more=more)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
    for first in range(1, HELD // SOURCES + 1, 20):  # number 0 is missing everywhere
        send_all(setting, SOURCES, *range(first, first + 20))

    def held() -> float:
        return worker.metrics().get(f"records_held:{setting.stages[0]}", 0.0)

    wait_until(lambda: held() >= HELD, 240.0, "all to be held")
    assert worker.stop() == 0, worker.log[-3000:]
    worker.start()
    began_s = time.monotonic()
    longest_s, told = 0.0, set()
    while True:
        asked_s = time.monotonic()
        status, answer = worker.ask("ready")
        if "restoring" in str(answer):
            longest_s = max(longest_s, time.monotonic() - asked_s)
            told.add(str(answer))
        if status == 200:
            break
        assert time.monotonic() - began_s < 240.0
        time.sleep(0.05)
    print(f"{HELD} held events: ready after {time.monotonic() - began_s:.1f} s, longest answer")
    print(f"{longest_s:.2f} s, {len(told)} different answers")
    # A worker's figures are those of its last look.
    wait_until(lambda: held() >= HELD, TIMEOUT_S, "the held events to be told")
    assert f"with {HELD} buffered events" in worker.log
    assert len(told) >= 5
    assert longest_s < 2.0
    assert worker.stop() == 0, worker.log[-3000:]
