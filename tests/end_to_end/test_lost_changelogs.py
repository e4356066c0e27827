"""End to end: a changelog that was lost, made anew, moved or cut.

What is promised: exactly once, or a refusal that says what to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from agents.kafka.declared import declared
from agents.kafka.topics import create
from agents.state.changelog import PROGRESS, encode
from cli.local.poll import wait_until
from tests.end_to_end.numbered import NUMBERED, TIMEOUT_S, send_all, worker_of
from tests.end_to_end.oracle import assert_sound, check
from tests.end_to_end.setting import Setting, fused
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import Worker
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


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
    # No records of a topic that is compacted alone can be deleted.
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
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    make_changelogs_anew(setting)
    if copy == "deleted":
        shutil.rmtree(tmp_path / "state")
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    told = worker.log[-3000:]
    assert "the changelog was lost or" in told, told
    assert "begin anew with `application: " in told
    assert_sound(setting)


@pytest.mark.parametrize(
    ("topic", "sources", "says"),
    [
        pytest.param("changelog", 2, "went back from offset", id="a changelog, and it is shorter"),
        pytest.param(
            "changelog",
            0,
            "was deleted and recreated while this stage was running",
            id="a changelog",
            marks=pytest.mark.chaos,
        ),
        pytest.param("input", 60, "recreated", id="an input", marks=pytest.mark.chaos),
    ],
)
def test_a_topic_of_the_state_made_anew_at_work_ends_the_worker(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker], topic: str, sources: int, says: str
) -> None:
    """What it would write from then on are differences to a state that is gone. `sources` send
    something then: more than the state has come to, or less than it has written."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
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
    assert "a copy cannot go back" not in worker.log
    assert "another failure after the first" not in worker.log
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    assert "Traceback" not in worker.log
    if topic == "changelog":
        verdict = check(setting)
        assert verdict.unmarked >= 40, verdict
        assert not verdict.repeated, verdict


def test_a_copy_knows_what_a_forgotten_group_does_not(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """The changelog was made anew as well. Without the copy the outputs tell it."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    make_changelogs_anew(setting)
    forget_groups(setting)
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    told = worker.log[-3000:]
    assert "the changelog was lost or" in told, told
    assert not check(setting).faults
    shutil.rmtree(tmp_path / "state")
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    assert f"{setting.ordered} holds records" in worker.log[-3000:]
    assert not check(setting).faults


def test_a_whole_changelog_is_enough(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """Be it another topic with another beginning, and the group and the local copy forgotten."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    move_changelog(kafka, setting)
    forget_groups(setting)
    shutil.rmtree(tmp_path / "state")
    worker.begin()
    send_all(setting, 20, 0, 1, 2)
    wait_out(setting, 60)
    assert worker.stop() == 0, worker.log
    verdict = assert_sound(setting)
    out = verdict.unmarked + sum(verdict.late.values())
    assert (out, verdict.duplicates) == (60, 40), verdict


def abort_a_checkpoint(setting: Setting, next_offset: int) -> None:
    """The changelog holds it, and it counts for nothing."""
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    (topic,) = changelogs(setting, admin)
    producer = Producer({"bootstrap.servers": setting.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, encode({"next_offset": next_offset}), PROGRESS)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)


def move_group(setting: Setting, next_offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    (stage,) = setting.stages
    where = TopicPartition(setting.topology.streams["default"].input, 0, next_offset)
    group = ConsumerGroupTopicPartitions(f"{setting.topology.application}.{stage}", [where])
    for answer in admin.alter_consumer_group_offsets([group]).values():
        answer.result(30)


def test_an_offset_of_an_aborted_transaction_is_passed_over(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """As Kafka 4.1.0 gave it when it had been killed: the state's own offset is right. Without the
    aborted checkpoint in the changelog its end may be lost, and that is refused."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
    send_all(setting, 20, 0, 1)
    wait_out(setting, 40)
    assert worker.stop() == 0, worker.log
    send_all(setting, 20, 2)
    move_group(setting, 55)
    worker.start()
    assert worker.exit_code() == 2, worker.log[-3000:]
    assert "is at offset 40, but the group" in worker.log[-3000:], worker.log[-3000:]
    abort_a_checkpoint(setting, 55)
    for number in (3, 4):
        worker.begin()
        send_all(setting, 20, number)
        wait_out(setting, 20 * (number + 1))
        assert worker.stop() == 0, worker.log
        assert ("was aborted; the state is at 40" in worker.log) == (number == 3), worker.log
    verdict = assert_sound(setting)
    assert (verdict.unmarked + sum(verdict.late.values()), verdict.duplicates) == (100, 0), verdict


@pytest.mark.chaos
def test_a_part_of_a_state_is_refused(
    kafka: SharedKafka, tmp_path: Path, workers: list[Worker]
) -> None:
    """As a changelog made anew at work holds it, that had only the last changes: with the
    former local copy, and without."""
    setting = fused(kafka.bootstrap, tmp_path, stream=NUMBERED)
    worker = worker_of(setting, tmp_path, workers)
    worker.begin()
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
    assert_sound(setting)
