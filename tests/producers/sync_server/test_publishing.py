"""Examples: samples are published to an embedded broker, an unreachable one, and a stream."""

from __future__ import annotations

import io
import json
import time

import pytest

from cli.local.embedded import EmbeddedBroker
from inorder.sync.packet import REPORT, UNKNOWN_MONO, Packet
from producers.sync_server import publishing as module
from producers.sync_server.publishing import LinePublishing, Publishing, TopicPublishing
from tests.inorder.records import read_messages
from tests.services import UniqueName
from tests.waiting import calm_s, wait_until

NOWHERE = "127.0.0.1:1"
"""A port with no listener."""


def sample(source: str = "s1", number: int = 0, mono_ns: int = 5) -> Packet:
    return Packet(REPORT, 0, 0, number, 0, 2, number, 1, 20, 30, 4, mono_ns, source)


PLAIN = {"t1": 1, "t2": 20, "t3": 30, "t4": 4, "server": "here", "segment": 2}
"""The fields of a sample, without its source and its mono."""


def test_samples_are_keyed_by_source(
    embedded_broker: EmbeddedBroker, unique_name: UniqueName
) -> None:
    topic = unique_name("clock")
    embedded_broker.make_topic(topic)
    publishing = TopicPublishing(embedded_broker.bootstrap, topic, "here")
    for number in range(20):
        assert publishing.take(sample(f"s{number % 4}", number))
    assert publishing.take(sample("quiet", mono_ns=UNKNOWN_MONO))
    publishing.close()
    assert (publishing.taken, publishing.delivered, publishing.lost) == (21, 21, 0)
    assert publishing.trouble() == ""
    records = read_messages(embedded_broker.bootstrap, topic, 21)
    values = {record.key(): json.loads(record.value() or b"") for record in records}
    assert set(values) == {b"s0", b"s1", b"s2", b"s3", b"quiet"}
    assert values[b"quiet"] == PLAIN
    assert values[b"s0"] == {**PLAIN, "mono": 5}
    places = {(record.key(), record.partition()) for record in records}
    assert len(places) == 5  # Each source is in one partition.


def test_unreachable_broker_never_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_RECORDS", 10)
    monkeypatch.setattr(module, "DELIVERY_TIMEOUT_S", 0.3)
    monkeypatch.setattr(module, "FLUSH_TIMEOUT_S", 0.2)
    monkeypatch.setattr(module, "STUCK_S", 0.0)
    publishing = TopicPublishing(NOWHERE, "clock", "here")
    began_s = time.monotonic()
    had_room = [publishing.take(sample(number=number)) for number in range(500)]
    assert calm_s(began_s) < 5.0
    assert 0 < sum(had_room) < 500
    assert publishing.taken == sum(had_room)
    assert publishing.refused == had_room.count(False)
    assert "samples wait for clock; check the brokers" in publishing.trouble()

    def lost() -> bool:
        publishing.update_counts()
        return publishing.lost == publishing.taken

    wait_until(lost, "what waited to be given up")
    assert publishing.trouble() == ""
    publishing.take(sample())
    publishing.close()
    assert publishing.taken == publishing.delivered + publishing.lost


def test_sample_is_written_as_clock_line() -> None:
    stream = io.BytesIO()
    publishing: Publishing = LinePublishing(stream, "here")
    assert publishing.take(sample())
    publishing.update_counts()
    publishing.close()
    assert json.loads(stream.getvalue()) == {"clock": "s1", **PLAIN, "mono": 5}
    assert (publishing.taken, publishing.delivered, publishing.trouble()) == (1, 1, "")
