"""Examples on the embedded broker: a producer answers requests to send records again."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from inorder import JournalError, Resend, SequencedProducer
from inorder.resending import Request, request_of
from tests.inorder.records import Topic, event_of, headers_of
from tests.services import UniqueName
from tests.waiting import wait_until

TIMEOUT_S = 20.0
QUICK_PER_SECOND = 100_000.0

Build = Callable[..., SequencedProducer]


@pytest.fixture
def requests(unique_name: UniqueName) -> str:
    return unique_name("resend")


@pytest.fixture
def build(raw: Topic, requests: str, tmp_path: Path) -> Build:
    def built(first_epoch: int = 7) -> SequencedProducer:
        resend = Resend(requests, tmp_path / "s1.kept", per_second=QUICK_PER_SECOND)
        return SequencedProducer(*raw, "s1", resend=resend, first_epoch=first_epoch)

    # The first request creates the topic.
    ask(raw, requests, Request("default", "nobody", 0, 0, 0))
    return built


def ask(raw: Topic, topic: str, *wanted: Request | bytes) -> None:
    producer = Producer({"bootstrap.servers": raw.bootstrap, "log_level": 0})
    for each in wanted:
        key, value = ("s1", each) if isinstance(each, bytes) else (each.source, each.value())
        producer.produce(topic, value, key.encode())
    assert producer.flush(TIMEOUT_S) == 0


def wait_listening(producer: SequencedProducer) -> None:
    """Wait until the producer reads the topic of requests, so that it misses no later request."""
    kept = producer._sent_records
    assert kept is not None
    wait_until(lambda: kept.next_offset_of(0) is not None, "the first look at the topic")


def after(producer: SequencedProducer, requests: int) -> None:
    status = producer.resend
    assert status is not None
    wait_until(
        lambda: status.resent + status.unknown > 0 and status.requests >= requests, "answers"
    )
    producer.flush()


def as_sent(messages: list[Message]) -> list[tuple[object, ...]]:
    return [(m.key(), headers_of(m), m.value()) for m in messages]


def test_requested_records_are_resent(build: Build, raw: Topic, requests: str) -> None:
    with build() as producer:
        wait_listening(producer)
        for seq in range(5):
            producer.send(b"%d" % seq, type="A", ts_ns=1_000 + seq)
        producer.heartbeat(ts_ns=2_000)
        producer.flush()
        ask(raw, requests, Request("default", "s1", 7, 1, 2))
        ask(raw, requests, Request("default", "s1", 7, 5, 5))
        after(producer, 2)
        assert producer.next_seq == 6
        found = raw.messages(9)
    first, again = as_sent(found[:6]), as_sent(found[6:])
    assert again == [first[1], first[2], first[5]]
    assert [event_of(message).seq for message in found[6:]] == [1, 2, 5]


def test_bad_requests_are_counted(
    build: Build, raw: Topic, requests: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "inorder.producers"), build() as producer:
        wait_listening(producer)
        producer.send(b"x")
        of_others = (Request("other", "s1", 7, 0, 0), Request("default", "s2", 7, 0, 0))
        places = ({"epoch": 7, "first": 2, "last": 1}, {"epoch": 2**64, "first": 0, "last": 1})
        named = {"stream": "default", "source": "s1"}
        wrong = (json.dumps({**named, **place}).encode() for place in places)
        mine = Request("default", "s1", 7, 0, 9)
        ask(raw, requests, b"no JSON", *wrong, *of_others, mine)
        after(producer, 1)
        status = producer.resend
        assert status is not None
        assert (status.requests, status.resent, status.unknown) == (1, 1, 9)
        assert status.unreadable == 3
    assert "is not a request: first is greater than last" in caplog.text
    assert "1 of the numbers 0 to 9 were sent again; the others are not stored" in caplog.text


def test_request_is_answered_once(build: Build, raw: Topic, requests: str) -> None:
    with build() as producer:
        wait_listening(producer)
        producer.send(b"x")
    ask(raw, requests, Request("default", "s1", 7, 0, 0))
    with build(first_epoch=8) as producer:
        after(producer, 1)
    with build(first_epoch=9) as producer:
        producer.send(b"y")
        ask(raw, requests, Request("default", "s1", 9, 0, 0))  # The key is the same.
        after(producer, 1)
        assert producer.resend is not None
        assert producer.resend.requests == 1
    assert len(raw.messages(4)) == 4


def test_full_store_reuses_no_number(build: Build, raw: Topic) -> None:
    with build() as producer:
        assert producer._sent_records is not None
        producer._sent_records._db.execute("PRAGMA max_page_count = 1")
        sent = [producer.send(b"%d" % at * 5_000) for at in range(600)]
        assert sent == list(range(600))
    found = {event_of(m).seq for m in raw.messages(600)}
    assert found == set(range(600))


def test_refused_store_frees_journal(tmp_path: Path) -> None:
    mine = {"resend": Resend("r", tmp_path / "kept"), "journal": tmp_path / "journal"}
    SequencedProducer("127.0.0.1:1", "raw", "other", resend=mine["resend"]).close(0.1)  # type: ignore[arg-type]
    with pytest.raises(JournalError, match="keeps what source 'other' sent"):
        SequencedProducer("127.0.0.1:1", "raw", "s1", **mine)  # type: ignore[arg-type]
    SequencedProducer("127.0.0.1:1", "raw", "s1", journal=tmp_path / "journal").close(0.1)


@pytest.mark.parametrize("bound", [{"per_second": 0.0}, {"keep_bytes": 0}])
def test_zero_bound_is_refused(bound: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Resend("r", Path("kept"), **bound)


def test_unreachable_broker_delays_no_send(tmp_path: Path) -> None:
    began_s = time.monotonic()
    resend = Resend("requests", tmp_path / "kept")
    producer = SequencedProducer("127.0.0.1:1", "raw", "s1", resend=resend)
    producer.send(b"x")
    with pytest.raises(Exception, match="not delivered"):
        producer.close(0.5)
    assert time.monotonic() - began_s < TIMEOUT_S


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "empty document"),
        (b"[1]", "a JSON object with stream, source, epoch, first, last was expected"),
        (b'{"stream": "d", "source": "s", "epoch": 1, "first": "2", "last": 3}', "first is not an"),
    ],
)
def test_bad_request_is_refused(value: bytes | None, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        request_of(value)
