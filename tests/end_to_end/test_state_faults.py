"""End to end: a local copy can fail in any way without harm."""

from __future__ import annotations

import resource
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from redis import Redis

from benchmarks.workloads import crowd
from cli.local.poll import share_of_processors
from infra.redis import RedisServer
from tests.end_to_end.numbered import TIMEOUT_S, Begun, numbered, send_all, stop
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender, new_producer
from tests.end_to_end.setting import FUSED, SPLIT, Setting
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.worker import Worker
from tests.waiting import Patience, calm_s, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MANY = 1_500
"""Number of sources."""

FULL_AT_BYTES = 200_000
HELD = 300_000


def send_at_once(setting: Setting, sources: int, *numbers: int) -> None:
    """Send the events in one batch, which the log takes in one instant, so that nothing can be
    late.

    Between several batches a busy machine could let time pass, and later events would be late.
    """
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


@pytest.mark.parametrize(
    ("stages", "sources"),
    [
        (FUSED, MANY),
        pytest.param(FUSED, 4 * MANY, marks=pytest.mark.chaos),
        pytest.param(SPLIT, 4 * MANY, marks=pytest.mark.chaos),
    ],
)
def test_flipped_bits_are_found(begun: Begun, tmp_path: Path, stages: str, sources: int) -> None:
    setting, worker = begun(stages=stages)
    send_at_once(setting, sources, 0, 1)
    wait_out(setting, 2 * sources)
    stop(worker)
    files = list((tmp_path / "state").rglob("*.sst"))
    assert files
    for path in files:
        flip_a_bit(path)
    worker.begin()
    send_at_once(setting, sources, 0, 1)
    records_in = f"records_in:{setting.stages[0]}"

    def read() -> float:
        return worker.metrics().get(records_in, 0.0)

    wait_until(lambda: read() >= 2 * sources, "the records that were sent again", read)
    found = sum(
        sample.value
        for family in worker.families()
        for sample in family.samples
        if sample.labels.get("reason") == "StoreDamaged" and sample.name.endswith("_total")
    )
    assert found >= 1
    stop(worker)
    assert "the local copy is damaged and is rebuilt from the changelog" in worker.log
    assert list((tmp_path / "state").rglob("*.damaged-0"))
    verdict = assert_sound(setting)
    assert (verdict.unmarked, verdict.duplicates) == (2 * sources, 2 * sources), verdict


class Flow(Sender):
    """A sender of rows while the worker runs."""

    def __init__(self, setting: Setting, count: int, speed: float) -> None:
        super().__init__(setting, crowd(count, seed=9).rows, speed=speed, epoch=0)
        self.start()

    def all_come_out(self, worker: Worker) -> None:
        """Assert that all events are emitted once and in order, and that the worker stops."""
        self.finish()
        wait_out(self._setting, self.different)
        stop(worker)
        assert_sound(self._setting)


def test_state_folder_can_be_deleted(begun: Begun, tmp_path: Path) -> None:
    setting, worker = begun()
    flow = Flow(setting, 4_000, 0.5)
    flow.await_share(0.3)
    shutil.rmtree(tmp_path / "state")
    flow.all_come_out(worker)
    assert "failed" not in worker.log, worker.log[-3000:]


@pytest.mark.redis
@pytest.mark.chaos
def test_redis_can_be_emptied(begun: Begun, own_redis: RedisServer) -> None:
    """A worker continues from the changelog, and so does the next one, with the same output."""
    setting, worker = begun(stream="", state="redis", more=f"redis: {own_redis.url}\n")
    flow = Flow(setting, 6_000, 0.3)
    flow.await_share(0.3)
    with Redis.from_url(own_redis.url) as server:
        wait_until(lambda: server.dbsize() > 0, "a local copy")
        server.flushall()
        flow.await_share(0.6)
        stop(worker)
        server.flushall()
    worker.start()
    flow.all_come_out(worker)


@pytest.mark.chaos
def test_full_disk_is_survived(begun: Begun) -> None:
    """A file size limit stands in for a full disk; both stages reach it after some checkpoints.
    Events come slowly, since a busy machine makes few checkpoints for events that come at once.
    """
    setting, worker = begun(stages=SPLIT, stream="")
    stages = worker.stages()
    for pid in stages:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, FULL_AT_BYTES))
    flow = Flow(setting, 20_000, 0.1)
    flow.finish()
    worker.await_said("local copy is no longer used")
    assert worker.stages() == stages
    flow.all_come_out(worker)


@pytest.mark.redis
@pytest.mark.chaos
def test_frozen_redis_stops_nothing(begun: Begun, own_redis: RedisServer) -> None:
    shape = {"partitions": 2, "state": "redis", "more": f"redis: {own_redis.url}\n"}
    setting, worker = begun(stream="", **shape)
    flow = Flow(setting, 80_000, 0.1)
    emitted = Emitted(setting)
    flow.await_share(0.1, emitted.poll)
    own_redis.process.pause()
    try:
        emitted.longest_silence_s = 0.0
        until_s = time.monotonic() + 25.0
        while time.monotonic() < until_s:
            emitted.poll()
        silence_s = emitted.longest_silence_s
        assert flow.share < 1.0, "else nothing is to come"
    finally:
        own_redis.process.resume()
    emitted.close()
    print(f"longest silence while Redis was frozen: {silence_s:.2f} s")
    assert silence_s / share_of_processors() < 2.0  # An earlier version took 16 s.
    flow.stop()
    flow.all_come_out(worker)


@pytest.mark.chaos
def test_long_restore_keeps_answering(begun: Begun) -> None:
    """A restore of very many buffered events reports its progress throughout."""
    hole = "reorder: {start: zero, max_wait: 1h, max_held: 2000000}"
    setting, worker = begun(stream=hole, more="spill_after: 1h\n")
    for first in range(1, HELD // MANY + 1, 20):  # Number 0 is missing everywhere.
        send_all(setting, MANY, *range(first, first + 20))

    def held() -> float:
        return worker.metrics().get(f"records_held:{setting.stages[0]}", 0.0)

    wait_until(lambda: held() >= HELD, "all to be held", held)
    stop(worker)
    worker.start()
    began_s = time.monotonic()
    longest_s, told, status, patience = 0.0, set[str](), 0, Patience()
    while status != 200:
        patience.look(len(told), lambda: "the end of the restore")
        time.sleep(0.05)
        asked_s = time.monotonic()
        status, answer = worker.ask("ready")
        if "restoring" in str(answer):
            longest_s = max(longest_s, calm_s(asked_s))
            told.add(str(answer))
    print(f"{HELD} held events: ready after {time.monotonic() - began_s:.1f} s, longest answer")
    print(f"{longest_s:.2f} s, {len(told)} different answers")
    # A worker's metrics can lag behind its state.
    wait_until(lambda: held() >= HELD, "the held events to be told", held)
    assert f"with {HELD} buffered events" in worker.log
    assert len(told) >= 5
    assert longest_s < 2.0
    stop(worker)
