"""End to end: a state that was damaged, lost or made anew; a local copy that fails.

What is promised: exactly once, or a refusal that says what to do; and the local copy may
fail in any way without harm.
"""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from agents.kafka.declared import declared
from agents.kafka.topics import create
from agents.state.changelog import PROGRESS
from benchmarks.workloads import crowd
from infra.poll import wait_until
from infra.redis import RedisServer
from tests.end_to_end.oracle import judge
from tests.end_to_end.records import Headers, Reader, Sender, contract, new_producer, send
from tests.end_to_end.setting import FUSED, SPLIT, Setting, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 60.0
SOURCES = 1_500
FULL_AT_BYTES = 200_000
HELD = 300_000
NUMBERED = "reorder: {start: zero}, merge: {idle_after: 1s}"


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    """To be ended, whatever becomes of the test."""
    started: list[Worker] = []
    with running(may_start=started):
        yield started
        for worker in started:
            worker.close()


def worker_of(setting: Setting, folder: Path, workers: list[Worker]) -> Worker:
    worker = Worker("a", setting.path, setting.bootstrap, folder)
    workers.append(worker)
    return worker


def numbered(sources: int, *numbers: int) -> list[tuple[str, bytes, Headers]]:
    now_ns = time.time_ns()
    return [
        (f"s{source}", b"%d" % seq, contract(f"s{source}", seq, now_ns + seq, 0))
        for seq in numbers
        for source in range(sources)
    ]


def send_all(setting: Setting, sources: int, *numbers: int) -> None:
    send(setting, numbered(sources, *numbers))


def send_at_once(setting: Setting, sources: int, *numbers: int) -> None:
    """In one batch, which the log takes in one instant, so that nothing can be late. In several, a
    busy machine may let a second pass in between, and all behind are older than that."""
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


def wait_out(setting: Setting, count: int) -> None:
    emitted = Emitted(setting)
    emitted.wait_for(count, TIMEOUT_S)
    emitted.close()


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def damage_is_found(setting: Setting, folder: Path, workers: list[Worker], sources: int) -> None:
    worker = worker_of(setting, folder, workers)
    worker.start()
    worker.wait_ready()
    send_at_once(setting, sources, 0, 1)
    wait_out(setting, 2 * sources)
    assert worker.stop() == 0, worker.log
    files = list((folder / "state").rglob("*.sst"))
    assert files
    for path in files:
        flip_a_bit(path)
    worker.start()
    worker.wait_ready()
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
    assert "the local copy is damaged and is made anew from the changelog" in worker.log
    assert list((folder / "state").rglob("*.damaged-0"))
    verdict = judge(setting)
    assert not verdict.faults, verdict
    assert (verdict.unmarked, verdict.duplicates) == (2 * sources, 2 * sources), verdict


def test_flipped_bits_in_the_local_copy(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    damage_is_found(setting, tmp_path, workers, SOURCES)


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("stages", [FUSED, SPLIT])
def test_flipped_bits_in_large_local_copies(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker], stages: str
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=stages, partitions=1, stream=NUMBERED)
    damage_is_found(setting, tmp_path, workers, 4 * SOURCES)


def changelogs(setting: Setting, admin: AdminClient) -> list[str]:
    topics = admin.list_topics(timeout=30).topics
    application = setting.topology.application
    mine = [name for name in topics if name.endswith(".changelog") if application in name]
    assert mine
    return mine


def delete_changelogs(setting: Setting) -> None:
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    mine = changelogs(setting, admin)
    for answer in admin.delete_topics(mine).values():
        answer.result(30)

    def gone() -> bool:
        return not set(mine) & set(admin.list_topics(timeout=30).topics)

    wait_until(gone, TIMEOUT_S, "the end of the changelogs")


def make_changelogs_anew(setting: Setting) -> None:
    delete_changelogs(setting)
    create(declared(setting.topology), setting.bootstrap, 1)


def forget_groups(setting: Setting) -> None:
    """What brokers do of themselves after `offsets.retention.minutes`."""
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    for stage in setting.stages:
        group = f"{setting.topology.application}.{stage}"

        def deleted(group: str = group) -> bool:
            try:
                admin.delete_consumer_groups([group])[group].result(30)
            except KafkaException as failed:
                if failed.args[0].code() == KafkaError.NON_EMPTY_GROUP:
                    return False
                raise
            return True

        wait_until(deleted, TIMEOUT_S, f"the end of {group}")


def move_changelog(
    kafka: SharedKafka, setting: Setting, keep: Callable[[bytes], bool] = lambda _: True
) -> None:
    """Its content, or what is to be kept of it by key, in a topic of another id, at other offsets
    and behind a first one that is not 0: a backup, or what is copied to another cluster."""
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    (topic,) = changelogs(setting, admin)
    where = TopicPartition(topic, 0)
    reader = Consumer({"bootstrap.servers": setting.bootstrap, "group.id": "backup"})
    reader.assign([TopicPartition(topic, 0, 0)])
    _, end = reader.get_watermark_offsets(where, timeout=30)
    content = {}
    while reader.position([where])[0].offset < end:
        record = reader.poll(1.0)
        if record is not None:
            assert record.error() is None, record.error()
            if keep(record.key() or b""):
                content[record.key()] = record.value()
    reader.close()
    delete_changelogs(setting)
    # Of a topic that is compacted alone no records can be deleted.
    kafka.create_topic(topic, config={"cleanup.policy": "compact,delete"})
    producer = Producer({"bootstrap.servers": setting.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"of another time", b"state/strange")
    producer.flush(30)
    admin.delete_records([TopicPartition(topic, 0, 3)])[where].result(30)
    for key, value in content.items():
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("copy", ["kept", pytest.param("deleted", marks=pytest.mark.chaos)])
def test_a_changelog_made_anew_is_refused(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker], copy: str
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    make_changelogs_anew(setting)
    if copy == "deleted":
        shutil.rmtree(tmp_path / "state")
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    told = worker.log[-3000:]
    assert "the changelog was lost or made anew" in told, told
    assert "another `application:`" in told
    verdict = judge(setting)
    assert not verdict.faults, verdict


@pytest.mark.parametrize(
    ("topic", "sources", "says"),
    [
        pytest.param("changelog", 2, "went back from offset", id="a changelog, and it is shorter"),
        pytest.param(
            "changelog",
            0,
            "was deleted and made anew while this stage was at work",
            id="a changelog",
            marks=pytest.mark.chaos,
        ),
        pytest.param("input", 60, "made anew", id="an input", marks=pytest.mark.chaos),
    ],
)
def test_a_topic_of_the_state_made_anew_at_work_ends_the_worker(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker], topic: str, sources: int, says: str
) -> None:
    """What it would write from then on are differences to a state that is gone. `sources` send
    something then: more than the state has come to, or less than it has written."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    if topic == "changelog":
        make_changelogs_anew(setting)
    else:
        admin = AdminClient({"bootstrap.servers": setting.bootstrap})
        admin.delete_topics([setting.raw])[setting.raw].result(30)
        wait_until(
            lambda: setting.raw not in admin.list_topics(timeout=30).topics, TIMEOUT_S, "its end"
        )
        kafka.create_topic(setting.raw, config={"message.timestamp.type": "LogAppendTime"})
    send_all(setting, sources, 2)
    assert worker.exit_code() == 2, worker.log[-3000:]
    assert says in worker.log[-3000:], worker.log[-3000:]
    assert "a copy never goes back" not in worker.log
    assert "after a failure, another one" not in worker.log
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    assert "Traceback" not in worker.log
    if topic == "changelog":
        verdict = judge(setting)
        assert verdict.unmarked >= 40, verdict
        assert not verdict.repeated, verdict


def test_a_copy_knows_what_a_forgotten_group_does_not(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The changelog was made anew as well. To begin anew on purpose is to delete the copy too."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    make_changelogs_anew(setting)
    forget_groups(setting)
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    told = worker.log[-3000:]
    assert "and the local copy of it has come to offset 40" in told, told
    assert "--state-dir" in told
    assert not judge(setting).faults
    shutil.rmtree(tmp_path / "state")
    worker.start()
    reader = Reader(setting.bootstrap, setting.ordered)

    def events_out() -> int:
        reader.poll(0.1)
        return sum(not record.is_control for record in reader.records)

    wait_until(lambda: events_out() == 80, TIMEOUT_S, "all once more")
    reader.close()
    assert worker.stop() == 0, worker.log


def test_a_whole_changelog_is_enough(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """Be it another topic with another beginning, and the group and the local copy forgotten."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    move_changelog(kafka, setting)
    forget_groups(setting)
    shutil.rmtree(tmp_path / "state")
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1, 2)
    wait_out(setting, 60)
    assert worker.stop() == 0, worker.log
    verdict = judge(setting)
    assert not verdict.faults, verdict
    out = verdict.unmarked + sum(verdict.late.values())
    assert (out, verdict.duplicates) == (60, 40), verdict


@pytest.mark.chaos
def test_a_part_of_a_state_is_refused(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """As a changelog made anew at work holds it, that had only the last changes: with the
    former local copy, and without."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    move_changelog(kafka, setting, lambda key: key == PROGRESS or key.endswith(b"/s7"))
    for _ in range(2):
        worker.start()
        assert worker.exit_code() == 2, worker.log[-3000:]
        assert "a part of it was lost" in worker.log[-3000:], worker.log[-3000:]
        shutil.rmtree(tmp_path / "state")
    assert "Traceback" not in worker.log
    verdict = judge(setting)
    assert not verdict.faults, verdict


@pytest.mark.chaos
def test_a_state_folder_deleted_between_two_runs(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The changelog is sound: all is made anew from it."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    for _ in range(2):
        worker.start()
        worker.wait_ready()
        send_all(setting, 20, 0, 1)
        wait_out(setting, 40)
        assert worker.stop() == 0, worker.log
        shutil.rmtree(tmp_path / "state")
    verdict = judge(setting)
    assert not verdict.faults, verdict
    out = verdict.unmarked + sum(verdict.late.values())
    assert (out, verdict.duplicates) == (40, 40), verdict


def test_a_state_folder_deleted_at_work(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(4_000, seed=9).rows
    worker.start()
    worker.wait_ready()
    sender = Sender(setting, rows, speed=0.5, epoch=0).start()
    wait_until(lambda: sender.share > 0.3, TIMEOUT_S, "a part of the rows")
    shutil.rmtree(tmp_path / "state")
    sender.finish()
    wait_out(setting, len({(row.source, row.seq) for row in rows}))
    assert worker.stop() == 0, worker.log[-3000:]
    assert "failed" not in worker.log, worker.log[-3000:]
    verdict = judge(setting)
    assert not verdict.faults, verdict


@pytest.mark.chaos
def test_a_full_disk_at_work(kafka: SharedKafka, tmp_path: Path, workers: list[Worker]) -> None:
    """A limit of the file size stands for it; both stages meet it."""
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, partitions=1)
    worker = worker_of(setting, tmp_path, workers)
    rows = crowd(20_000, seed=9).rows
    worker.start()
    worker.wait_ready()
    stages = worker.stages()
    for pid in stages:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, FULL_AT_BYTES))
    Sender(setting, rows, speed=1.0, epoch=0).start().finish()
    wait_out(setting, len({(row.source, row.seq) for row in rows}))
    wait_until(lambda: "local copy is given up" in worker.log, TIMEOUT_S, "the full disk")
    assert worker.stages() == stages
    assert worker.stop() == 0, worker.log[-3000:]
    verdict = judge(setting)
    assert not verdict.faults, verdict


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
    worker.start()
    worker.wait_ready()
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
    emitted.wait_for(len({(row.source, row.seq) for row in rows}), TIMEOUT_S)
    emitted.close()
    print(f"longest silence while Redis was frozen: {silence_s:.2f} s")
    assert silence_s < 2.0  # on a busy machine; it was 16 s
    assert worker.stop() == 0, worker.log[-3000:]
    verdict = judge(setting)
    assert not verdict.faults, verdict


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_restore_of_very_many_held_events(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The process answers all the while, and says how far it is."""
    hole = "reorder: {start: zero, max_wait: 1h, max_held: 2000000}"
    more = "spill_after: 1h\n"
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED, partitions=1, stream=hole, more=more)
    worker = worker_of(setting, tmp_path, workers)
    worker.start()
    worker.wait_ready()
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
    assert f"with {HELD} events held" in worker.log
    assert len(told) >= 5
    assert longest_s < 2.0
    assert worker.stop() == 0, worker.log[-3000:]
