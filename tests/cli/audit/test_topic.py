"""End to end: `inorder audit` on foreign topics agrees with brute force, and leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from benchmarks.workloads.machines import S, plant
from recordings.audit.row import AuditRow
from tests.cli.invoking import inorder
from tests.end_to_end.records import read_all
from tests.recordings.audit.oracle import brute_force, pruned
from tests.services import SharedKafka, UniqueName
from topology.config import parse

BOUNDS_NS = (0, 1 * S, 5 * S, 30 * S)
MAPPED = ("--source", "payload.device", "--seq", "payload.n", "--ts", "payload.time")


def published(kafka: SharedKafka, topic: str, partitions: int, stamped: str, rows: Any) -> None:
    """Publish rows as a foreign producer does: JSON values without headers, keyed by machine."""
    kafka.create_topic(topic, partitions, {"message.timestamp.type": stamped})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "consistent_random"})
    for row in rows:
        value = {"device": row.source, "n": row.seq, "time": row.ts_ns // 1_000_000, "kg": 4.5}
        producer.produce(topic, json.dumps(value), row.source)
        producer.poll(0)
    for odd in (b"not JSON", None, b'{"device": "x"}'):
        producer.produce(topic, odd, "odd")
    producer.flush(30)


def stored_records(
    kafka: SharedKafka, topic: str, partitions: int, last: int | None
) -> Iterator[Any]:
    """Yield the records as read by another client, the newest `last` of each partition.

    Each item is the partition's largest timestamp so far, the partition, the offset and the value.
    """
    records = read_all(kafka.bootstrap, topic)
    for number in range(partitions):
        of_partition = [record for record in records if record.partition == number]
        newest = of_partition if last is None else of_partition[-last:]
        clock = 0
        for record in newest:
            clock = max(clock, record.timestamp_ms)
            yield clock, number, record.offset, record.value


def expected(kafka: SharedKafka, topic: str, partitions: int, last: int | None, apart: bool) -> Any:
    rows = []
    by_time = sorted(stored_records(kafka, topic, partitions, last), key=itemgetter(0, 1, 2))
    for _, number, offset, value in by_time:
        found = json.loads(value) if value and value.startswith(b"{") else {}
        if "n" in found:
            ts_ns = found["time"] * 1_000_000
            rows.append(AuditRow(found["device"], found["n"], None, ts_ns, None, number, offset))
    return brute_force(rows, 60 * S, BOUNDS_NS, apart=apart)


def groups_at(admin: AdminClient, topic: str) -> list[str]:
    """Return the consumer groups with committed offsets on the topic."""
    listed = admin.list_consumer_groups().result().valid
    wanted = [ConsumerGroupTopicPartitions(each.group_id) for each in listed]
    asked = [admin.list_consumer_group_offsets([one])[one.group_id] for one in wanted]
    told = [one.result() for one in asked]
    return [one.group_id for one in told if topic in {at.topic for at in one.topic_partitions}]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "stamped", "last"),
    [(1, "LogAppendTime", None), (3, "LogAppendTime", None), (3, "CreateTime", 300)],
)
def test_oracle_audit_is_exact(
    kafka: SharedKafka,
    unique_name: UniqueName,
    tmp_path: Path,
    partitions: int,
    stamped: str,
    last: int | None,
) -> None:
    topic = unique_name("telemetry")
    published(kafka, topic, partitions, stamped, plant(1, 1_200))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    where = ("--brokers", kafka.bootstrap, "--topic", topic)
    only = () if last is None else ("--last", str(last * partitions))
    out = tmp_path / "t.yaml"
    answer = inorder("audit", *where, *MAPPED, *only, "--out", out, "--json").well()
    assert not groups_at(admin, topic)
    said = answer.last
    apart = stamped == "CreateTime"
    like = expected(kafka, topic, partitions, last, apart)
    assert said["unreadable"] == 3
    like["records"] += said["unreadable"]
    assert pruned(said, like) == like
    assert (said["order"], said["clocks_by"]) == (
        ("each partition", "lines") if apart else ("all records", "arrivals")
    )
    # In a topic, records arrive by `append`; `arrival` in `fields` is for files.
    stream = parse(out.read_text()).streams["default"]
    assert stream.fields is not None
    assert stream.fields.arrival is None
    assert stream.arrival == ("timestamp" if apart else None)
    fewer = inorder("audit", *where, *MAPPED, "--since", "1h", "--json")
    assert fewer.last["records"] >= said["records"]


@pytest.mark.kafka
@pytest.mark.slow
def test_topic_needs_no_options(kafka: SharedKafka, unique_name: UniqueName) -> None:
    topic = unique_name("telemetry")
    published(kafka, topic, 1, "LogAppendTime", plant(2, 600))
    where = ("--brokers", kafka.bootstrap, "--topic", topic)
    inorder("audit", *where).well(
        "source payload.device, seq payload.n, ts payload.time (ms)", "unreadable: "
    )
    wrong = inorder("audit", *where, "--source", "header.sourceId", "--ts", "payload.time")
    assert wrong.code == 4
    assert wrong.err.count("  record ") == 3
    assert "source_missing" in wrong.err
    nameless = inorder("audit", *where, "--source", "device")
    assert (nameless.code, "is not a place in a record" in nameless.err) == (2, True)
    absent = inorder("audit", "--brokers", kafka.bootstrap, "--topic", unique_name("absent"))
    assert (absent.code, "no such topic" in absent.err) == (2, True)
