"""Examples: a client of librdkafka fails for good while a SequencedProducer uses it.

librdkafka has a test function that raises such an error, as if a broker had caused it.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, cimpl

from inorder.channel import Channel, Delivery
from inorder.failure import BrokerFatal, DeliveryFailed
from inorder.lasting_client import MAX_RENEWALS, Coordinates
from inorder.sequenced import SequencedProducer
from tests.inorder.records import Topic
from tests.inorder.test_sequenced import FAILS_SOON, to_nobody

_raise_fatal = ctypes.CDLL(cimpl.__file__).rd_kafka_test_fatal_error
_raise_fatal.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)

HANDLE_OFFSET = object.__basicsize__
"""Offset of librdkafka's handle in the object of the Python binding."""

LOST = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
NO_RIGHT = KafkaError.CLUSTER_AUTHORIZATION_FAILED
SLOW = {"linger.ms": 60_000}
"""Records wait in the client until it is flushed or ends."""


def end_client(channel: Channel, code: int) -> None:
    """Make the channel's current client fail with a fatal error."""
    client = channel._client.producer
    handle = ctypes.c_void_p.from_address(id(client) + HANDLE_OFFSET)
    assert _raise_fatal(handle, code, b"by the test") == 0


Ends = Callable[[SequencedProducer], None]


def send_on(producer: SequencedProducer) -> None:
    producer.send(b"after")


@pytest.mark.parametrize("then", [send_on, SequencedProducer.flush])
def test_new_client_resends_records(
    raw: Topic, then: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    reports: list[Delivery] = []
    with SequencedProducer(*raw, "s1", on_delivery=reports.append) as producer:
        producer.send(b"0")
        producer.flush()
        for number in (1, 2):
            producer.send(b"%d" % number)
        end_client(producer._channel, LOST)
        with caplog.at_level(logging.WARNING, logger="inorder.producers"):
            then(producer)
            sent = producer.next_seq
            producer.flush()
    events = raw.events(sent)
    assert [(each.seq, each.epoch) for each in events] == [
        (number, producer.epoch) for number in range(sent)
    ]
    assert [(each.seq, each.error) for each in reports] == [(n, None) for n in range(sent)]
    assert [message for message in caplog.messages if "a new client" in message]


def test_missing_permission_ends_producer(raw: Topic) -> None:
    producer = SequencedProducer(*raw, "s1", settings=SLOW)
    producer.send(b"0")
    end_client(producer._channel, NO_RIGHT)
    with pytest.raises(DeliveryFailed, match="s1/.*/0: .*by the test") as failed:
        producer.send(b"1")
    with pytest.raises(BrokerFatal, match="by the test; repair that, then close this producer"):
        producer.send(b"1")
    producer.close()
    assert (failed.value.count, failed.value.may_stand) == (1, 0)
    assert producer.next_seq == 1


def test_client_renewals_are_bounded() -> None:
    producer = to_nobody(settings=SLOW)
    producer.send(b"0")
    for renewals in range(MAX_RENEWALS + 1):
        client = producer._channel._client
        before = client.producer
        end_client(producer._channel, LOST)
        client.poll(1.0)
        assert (client.producer is not before) == (renewals < MAX_RENEWALS)
    with pytest.raises(DeliveryFailed):
        producer.send(b"1")
    with pytest.raises(BrokerFatal):
        producer.send(b"1")
    producer.close()


def test_abandoned_records_are_reported() -> None:
    producer = to_nobody(limits=FAILS_SOON)
    producer.send(b"0")
    end_client(producer._channel, LOST)
    with pytest.raises(DeliveryFailed, match="1 record"):
        producer.flush(10.0)
    producer.close()


def test_channel_reports_each_failure(raw: Topic) -> None:
    reports: list[Any] = []
    channel = Channel(*raw, settings=SLOW, on_delivery=reports.append)
    channel.send(Coordinates("s1", 7, 0), b"s1", b"0", [])
    end_client(channel, LOST)
    channel.flush(10.0)
    assert [(each.seq, each.may_stand) for each in reports] == [(0, False)]
    with pytest.raises(BrokerFatal, match="by the test"):
        channel.send(Coordinates("s1", 7, 1), b"s1", b"1", [])
