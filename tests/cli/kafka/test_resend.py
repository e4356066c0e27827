"""End to end: `inorder resend` skips ledger records that are not gaps. Example: a group without a
coordinator.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from cli.kafka import resend
from cli.kafka.resend import MAX_REPORTED, Asking
from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import inorder, text_file
from tests.services import UniqueName
from topology.config import parse

GAP = {"kind": "gap", "stream": "default", "source": "s1", "epoch": 1, "first": 7, "last": 9}
NONE = (
    b"x",
    b"[1]",
    b'{"kind":"gap"}',
    *(
        orjson.dumps({**GAP, **wrong})
        for wrong in ({"source": ["s1"]}, {"stream": None}, {"last": 6}, {"epoch": "1"})
    ),
)


def test_non_gap_records_are_skipped(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName, tmp_path: Path
) -> None:
    ledger, requests = unique_name("gaps"), unique_name("resend")
    path = text_file(
        tmp_path / "t.yaml",
        f"application: {ledger}\nstreams: {{default: {{input: raw}}}}\n"
        f"topics: {{gaps: {ledger}, resend: {requests}}}\n",
    )
    for topic in (ledger, requests):
        embedded_broker.make_topic(topic)
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap})
    bad = NONE * 3
    for value in (*bad, orjson.dumps({"kind": "late"}), orjson.dumps({**GAP, "reason": "jump"})):
        producer.produce(ledger, value, partition=0)
    assert producer.flush(10) == 0
    asked = ("resend", "--topology", path, "--brokers", embedded_broker.bootstrap)
    done = inorder(*asked, "--json")
    assert (done.code, orjson.loads(done.out)) == (
        0,
        {"gaps": 1, "numbers": 3, "unreadable": len(bad)},
    )
    lines = done.err.splitlines()
    assert len(lines) == MAX_REPORTED < len(bad)
    assert lines[1].startswith(f"{ledger}/0/1 is not a gap and was skipped: a JSON object")
    again = inorder(*asked)
    assert (again.code, again.err) == (0, "asked for 0 numbers in 0 gaps\n")


@pytest.mark.parametrize(
    ("code", "timeout_s", "passes"),
    [
        (KafkaError.NOT_COORDINATOR, 30.0, True),  # the first group of a new broker
        (KafkaError.NOT_COORDINATOR, 0.0, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 30.0, False),
    ],
)
def test_resend_waits_for_coordinator(
    monkeypatch: pytest.MonkeyPatch, code: int, timeout_s: float, passes: bool
) -> None:
    consumer = Mock()
    consumer.list_topics.return_value.topics = {"gaps": Mock(partitions=[0, 1])}
    known = [TopicPartition("gaps", 0, OFFSET_INVALID), TopicPartition("gaps", 1, 7)]
    consumer.committed.side_effect = [KafkaException(KafkaError(code)), known]
    consumer.consume.side_effect = [[Mock(**at_the_end(0)), Mock(**at_the_end(1))]]
    monkeypatch.setattr(resend, "Consumer", Mock(return_value=consumer))
    monkeypatch.setattr(resend, "Producer", Mock(return_value=Mock(flush=Mock(return_value=0))))
    monkeypatch.setattr(resend, "TIMEOUT_S", timeout_s)
    topology = parse("streams: {default: {input: raw}}\ntopics: {gaps: gaps, resend: resend}")
    kafka = Mock(access=Mock(to_librdkafka=Mock(return_value={})))
    asked = Asking(topology, kafka, frozenset()).ask(again=False, follow=False)
    with nullcontext() if passes else pytest.raises(KafkaException):
        assert list(asked) == [[]]
        (begun,) = consumer.assign.call_args.args
        assert [(at.partition, at.offset) for at in begun] == [(0, OFFSET_BEGINNING), (1, 7)]


def at_the_end(partition: int) -> dict[str, Mock]:
    """Return the attributes of a message that marks the end of a partition."""
    about = {"error": KafkaError(KafkaError._PARTITION_EOF), "partition": partition, "offset": 7}
    return {name: Mock(return_value=value) for name, value in about.items()}
