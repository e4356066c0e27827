"""End to end: a changelog that was lost, recreated, moved or cut.

Either events still come exactly once, or the worker is refused with a remedy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from agents.state.changelog import PROGRESS, encode
from tests.end_to_end.numbered import Begun, send_all, send_two_of_each, stop
from tests.end_to_end.oracle import assert_sound, check
from tests.end_to_end.records import deliver, read_all
from tests.end_to_end.setting import Setting
from tests.end_to_end.topics import admin_of, changelogs, delete_topics, forget_groups
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import REFUSED, Worker
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def delete_changelogs(setting: Setting) -> None:
    delete_topics(setting.bootstrap, *changelogs(setting))


def make_changelogs_anew(setting: Setting) -> None:
    delete_changelogs(setting)
    ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 1)


def is_refused(worker: Worker, *says: str) -> None:
    """Start the worker, and assert that it is refused with these words."""
    worker.start()
    worker.ends_refused(*says)


def move_changelog(
    kafka: SharedKafka, setting: Setting, keep: Callable[[bytes], bool] = lambda _: True
) -> None:
    """Move the changelog's content, or what `keep` selects by key, to a topic with another id.

    Its offsets differ and do not begin at 0, as in a backup or a copy on another cluster.
    """
    (topic,) = changelogs(setting)
    found = read_all(setting.bootstrap, topic)
    content = {record.key: record.value for record in found if keep(record.key or b"")}
    delete_changelogs(setting)
    # Records of a topic with compaction alone cannot be deleted.
    kafka.create_topic(topic, config={"cleanup.policy": "compact,delete"})
    deliver(setting.bootstrap, topic, [(b"state/strange", b"of another time", [], 0)] * 3)
    passed = TopicPartition(topic, 0, 3)
    admin = admin_of(setting.bootstrap)
    admin.delete_records([passed])[passed].result(30)
    deliver(setting.bootstrap, topic, ((key, value, [], 0) for key, value in content.items()))


def test_recreated_changelog_is_refused(begun: Begun, tmp_path: Path) -> None:
    """Either the local copy or the group reveals the loss, and without both the outputs do."""
    setting, worker = begun()
    send_two_of_each(setting)
    stop(worker)
    make_changelogs_anew(setting)
    lost = "the changelog was lost or", "begin anew with `application: "
    is_refused(worker, *lost)
    copy = (tmp_path / "state").rename(tmp_path / "aside")
    is_refused(worker, *lost)
    forget_groups(setting)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    copy.rename(tmp_path / "state")
    is_refused(worker, *lost)
    shutil.rmtree(tmp_path / "state")
    is_refused(worker, f"{setting.ordered} holds records")
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
def test_recreated_topic_ends_worker(
    kafka: SharedKafka, begun: Begun, topic: str, sources: int, says: str
) -> None:
    """A worker that continued would write changes to a lost state. `sources` is the number of
    sources that then send another event.
    """
    setting, worker = begun()
    send_two_of_each(setting)
    if topic == "changelog":
        make_changelogs_anew(setting)
    else:
        delete_topics(setting.bootstrap, setting.raw)
        kafka.create_topic(setting.raw, config={"message.timestamp.type": "LogAppendTime"})
    send_all(setting, sources, 2)
    assert worker.exit_code() == REFUSED, worker.log[-3000:]
    assert says in worker.log[-3000:], worker.log[-3000:]
    assert "a copy cannot go back" not in worker.log
    assert "another failure after the first" not in worker.log
    is_refused(worker)
    if topic == "changelog":
        verdict = check(setting)
        assert verdict.unmarked + sum(verdict.late.values()) >= 40, verdict
        assert not verdict.repeated, verdict


def test_whole_changelog_is_enough(kafka: SharedKafka, begun: Begun, tmp_path: Path) -> None:
    """A copy of the changelog with other offsets suffices, without the group and the local copy."""
    setting, worker = begun()
    send_two_of_each(setting)
    stop(worker)
    move_changelog(kafka, setting)
    forget_groups(setting)
    shutil.rmtree(tmp_path / "state")
    worker.begin()
    send_all(setting, 20, 0, 1, 2)
    wait_out(setting, 60)
    stop(worker)
    verdict = assert_sound(setting)
    out = verdict.unmarked + sum(verdict.late.values())
    assert (out, verdict.duplicates) == (60, 40), verdict


def abort_a_checkpoint(setting: Setting, next_offset: int) -> None:
    """Write a checkpoint to the changelog in an aborted transaction, so that it does not count."""
    (topic,) = changelogs(setting)
    producer = Producer({"bootstrap.servers": setting.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, encode({"next_offset": next_offset}), PROGRESS)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)


def move_group(setting: Setting, next_offset: int) -> None:
    (stage,) = setting.stages
    where = TopicPartition(setting.raw, 0, next_offset)
    group = ConsumerGroupTopicPartitions(f"{setting.topology.application}.{stage}", [where])
    admin = admin_of(setting.bootstrap)  # The client has to live until it is answered.
    for answer in admin.alter_consumer_group_offsets([group]).values():
        answer.result(30)


def test_aborted_offset_is_ignored(begun: Begun) -> None:
    """Kafka 4.1.0 gave such an offset after a kill, and the state's own offset is right. Without
    the aborted checkpoint the changelog's end may be lost, so the worker is refused.
    """
    setting, worker = begun()
    send_two_of_each(setting)
    stop(worker)
    send_all(setting, 20, 2)
    move_group(setting, 55)
    is_refused(worker, "is at offset 40, but the group")
    abort_a_checkpoint(setting, 55)
    for number in (3, 4):
        worker.begin()
        send_all(setting, 20, number)
        wait_out(setting, 20 * (number + 1))
        stop(worker)
        assert ("was aborted; the state is at 40" in worker.log) == (number == 3), worker.log
    verdict = assert_sound(setting)
    assert (verdict.unmarked + sum(verdict.late.values()), verdict.duplicates) == (100, 0), verdict


@pytest.mark.chaos
def test_partial_state_is_refused(kafka: SharedKafka, begun: Begun, tmp_path: Path) -> None:
    """A changelog that was recreated at work has only the last changes. It is refused with the
    former local copy, and without it.
    """
    setting, worker = begun()
    send_two_of_each(setting)
    stop(worker)
    move_changelog(kafka, setting, lambda key: key == PROGRESS or key.endswith(b"/s7"))
    for _ in range(2):
        is_refused(worker, "a part of it was lost")
        shutil.rmtree(tmp_path / "state")
    assert_sound(setting)
