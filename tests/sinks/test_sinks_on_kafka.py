"""End to end: the command on a real Kafka, with stores that fail and topics that delete records."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from infra.redis import RedisServer
from sinks.dead import DeadLetter, DeadTopic
from sinks.marks import Bookmarks, WhenBehind
from sinks.runner import Runner, RunnerLimits, make_consumer
from sinks.sink import Reader, SinkUnavailable
from tests.as_they_stand import send_with_no_name
from tests.end_to_end.records import read_all
from tests.services import SharedKafka, UniqueName
from tests.sinks.kinds import redis_place
from tests.sinks.results import MemorySink, current_of, result, rows_in, same
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.topic import ResultsProducer, group_has_read, history, never_committed
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka]

TIMEOUT_S = 60.0


@contextmanager
def run_in_thread(
    brokers: str, topic: str, sink: MemorySink, how: WhenBehind = WhenBehind.REFUSE
) -> Iterator[Runner]:
    """Run a runner in a thread, and stop it when the block is left."""
    consumer = make_consumer(brokers, topic)
    marks = Bookmarks(sink, Reader(topic, topic), how)
    runner = Runner(consumer, topic, sink, marks, Mock(), RunnerLimits())
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(runner.run)
        try:
            yield runner
        finally:
            runner.stop()
        ended.result(TIMEOUT_S)


def wait_for_read(brokers: str, topic: str, producer: ResultsProducer) -> None:
    """Wait until the group, which has the topic's name, has read all records."""
    has_read = partial(group_has_read, brokers, topic, topic, producer.next_offsets)
    wait_until(has_read, f"{topic} to be read")


def all_read(brokers: str, topic: str, sink: MemorySink, producer: ResultsProducer) -> Runner:
    with run_in_thread(brokers, topic, sink) as runner:
        wait_for_read(brokers, topic, producer)
    return runner


@pytest.fixture
def topic(kafka: SharedKafka, unique_name: UniqueName) -> str:
    """Return a topic with two partitions."""
    name = unique_name("results")
    kafka.create_topic(name, partitions=2)
    return name


def test_aborted_records_do_not_count(kafka: SharedKafka, topic: str) -> None:
    sink = MemorySink()
    changes = list(history(seed=1, ids=40, changes=1_000))
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.results(changes[:500])
        producer.records([never_committed(f"r{number}") for number in range(40)], abort=True)
        assert all_read(kafka.bootstrap, topic, sink, producer).counts.records == 500
        producer.results(changes[500:])
        counts = all_read(kafka.bootstrap, topic, sink, producer).counts
    assert (counts.records, counts.expired) == (500, 0)
    assert same(sink.current()) == same(current_of(changes))


def test_deleted_records_are_counted(
    kafka: SharedKafka, unique_name: UniqueName, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique_name("results")
    kafka.create_topic(topic)
    sink = MemorySink()
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.results([result("a", 0)])
        all_read(kafka.bootstrap, topic, sink, producer)
        for revision in range(1, 5):
            producer.results([result("a", revision)])
        first_kept = TopicPartition(topic, 0, producer.next_offsets[0] - 1)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.delete_records([first_kept]).values():
            future.result(TIMEOUT_S)
        runner = all_read(kafka.bootstrap, topic, sink, producer)
    # Each transaction takes two offsets: a record and a marker. Offsets 1 to 7 are deleted.
    assert runner.counts.expired == 7
    assert "the next offset to read, 1, no longer exists" in caplog.text
    assert sink.known["a"].revision == 4


def test_refill_passes_marker_at_end(kafka: SharedKafka, unique_name: UniqueName) -> None:
    """A user has moved the group to the end, which is after the last transaction's marker."""
    topic = unique_name("results")
    kafka.create_topic(topic)
    sink = MemorySink()
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.results([result("a", 0)])
        all_read(kafka.bootstrap, topic, sink, producer)
        assert sink.positions == {0: 1}
        place = TopicPartition(topic, 0, 2)
        group = ConsumerGroupTopicPartitions(topic, [place])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.alter_consumer_group_offsets([group])[topic].result(TIMEOUT_S)
        with run_in_thread(kafka.bootstrap, topic, sink, WhenBehind.REFILL):
            wait_until(lambda: sink.positions == {0: 2}, "the mark to pass the marker")
        producer.results([result("a", 1)])
        all_read(kafka.bootstrap, topic, sink, producer)
    assert sink.known["a"].revision == 1


def test_sinks_of_a_group_share_a_topic(kafka: SharedKafka, unique_name: UniqueName) -> None:
    topic = unique_name("results")
    kafka.create_topic(topic, partitions=4)
    one, other = MemorySink(), MemorySink()
    other.positions = one.positions  # one store has one set of marks
    changes = list(history(seed=2, ids=60, changes=2_000))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def is_shared() -> bool:
        group = admin.describe_consumer_groups([topic])[topic].result(TIMEOUT_S)
        return [len(each.assignment.topic_partitions) for each in group.members] == [2, 2]

    with (
        ResultsProducer(kafka.bootstrap, topic) as producer,
        run_in_thread(kafka.bootstrap, topic, one) as first,
    ):
        producer.results(changes[:1_000])
        wait_for_read(kafka.bootstrap, topic, producer)
        with run_in_thread(kafka.bootstrap, topic, other) as second:
            wait_until(is_shared, "the second to have a part")
            producer.results(changes[1_000:])
            wait_for_read(kafka.bootstrap, topic, producer)
        assert 0 < second.counts.records < 1_000
        assert first.counts.records + second.counts.records >= 2_000
        assert first.counts.commit_failures == second.counts.commit_failures == 0
    known = [*one.known.values(), *other.known.values()]
    assert same(current_of(known)) == same(current_of(changes))


@pytest.mark.redis
def test_sink_waits_for_killed_store(
    kafka: SharedKafka, own_redis: RedisServer, topic: str, tmp_path: Path
) -> None:
    place = redis_place(own_redis, topic)
    changes = list(history(seed=3, ids=200, changes=6_000))
    sink = SinkProcess(
        "sink",
        tmp_path / "sink",
        *("redis", "--brokers", kafka.bootstrap, "--topic", topic, "--batch", "20"),
        *("--group", topic),
        env={"INORDER_REDIS": own_redis.url},
    )
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.results(changes[:3_000])
        with served([sink]):
            sink.wait_until_written(100)
            own_redis.kill()
            producer.results(changes[3_000:])
            sink.process.wait_until(lambda: sink.ask("ready")[0] == 503, TIMEOUT_S)
            assert "Redis failed" in sink.ask("ready")[1]["reasons"][0]
            own_redis.restart()
            wait_for_read(kafka.bootstrap, topic, producer)
            sink.process.wait_until(lambda: sink.ask("ready")[0] == 200, TIMEOUT_S)
            assert sink.metrics()["waits"] >= 1
            assert sink.process.stop() == 0
    assert "the store answers again" in sink.log
    assert "6000 records: 6000 written, 0 dead, 0 control" in sink.log
    assert same(place.current()) == same(current_of(changes))


@contextmanager
def run_file_sink(brokers: str, topic: str, folder: Path, *more: str) -> Iterator[SinkProcess]:
    """Run a sink that writes to `out` in this folder."""
    where = ("--brokers", brokers, "--topic", topic, "--group", topic)
    output = ("--folder", str(folder / "out"), "--format", "jsonl")
    sink = SinkProcess("sink", folder / "sink", "files", *where, *output, *more)
    with served([sink]):
        yield sink
        assert sink.process.stop() == 0


def test_dead_letters_reach_their_topic(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    topic, dead = unique_name("results"), unique_name("dead")
    kafka.create_topic(topic)
    kafka.create_topic(dead)
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.records(
            [
                (b"a", result("a", 0).record, {}),
                (b"a", b"{", {}),
                (b"", None, {"kind": b"frontier"}),
                (b"wrong", result("a", 1).record, {}),
            ]
        )
        with run_file_sink(kafka.bootstrap, topic, tmp_path, "--dead-topic", dead) as sink:
            wait_for_read(kafka.bootstrap, topic, producer)
            assert sink.metrics()["control"] == 1
    assert rows_in(tmp_path / "out") == [result("a", 0)]
    letters = [orjson.loads(each.value or b"") for each in read_all(kafka.bootstrap, dead)]
    told = [(each["kind"], each["topic"], each["offset"], each["reason"]) for each in letters]
    assert told == [("dead", topic, 1, "not_json"), ("dead", topic, 3, "key_not_id")]


def test_sink_survives_bad_header_names(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    """Reading a header whose name is not UTF-8 breaks the client. A sink reads the headers of
    records without a value.
    """
    topic = unique_name("results")
    kafka.create_topic(topic)
    changes = [result(f"r{number}", 0) for number in range(200)]
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        producer.results(changes[:100])
        for number in range(5):
            stranger = result(f"stranger{number}", 0)
            send_with_no_name(kafka.bootstrap, topic, stranger.id.encode(), stranger.record)
            for _ in range(4):  # enough calls for Python's specialized call path
                send_with_no_name(kafka.bootstrap, topic, b"gone", None, (b"op", b"retract"))
        producer.results(changes[100:])
        with run_file_sink(kafka.bootstrap, topic, tmp_path) as sink:
            wait_for_read(kafka.bootstrap, topic, producer)
    ids = {each.id for each in rows_in(tmp_path / "out")}
    assert ids == {*(each.id for each in changes), *(f"stranger{n}" for n in range(5))}
    assert [each["reason"] for each in sink.dead_letters] == ["value_missing"] * 20


def test_unreachable_side_topic_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sinks.dead.DELIVERY_TIMEOUT_S", 1.0)
    letters = DeadTopic("127.0.0.1:1", "dead", {"log_level": 0})
    with pytest.raises(SinkUnavailable, match="topic dead"):
        letters.write([DeadLetter("results", 0, 1, "not_json", "not JSON")])
    letters.close()
