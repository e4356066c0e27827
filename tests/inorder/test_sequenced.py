"""Examples and laws: records that a SequencedProducer sends to the embedded broker."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from cli.local.embedded import PARTITIONS
from inorder.channel import ChannelLimits, Delivery
from inorder.contract import Contract, HeaderContract
from inorder.failure import CallbackError, DeliveryFailed, ProducerError, QueueFull, RecordRefused
from inorder.sequenced import SequencedProducer
from tests import ROOT
from tests.inorder.records import Topic, event_of, headers_of
from tests.waiting import calm_s, wait_until
from topology.base.event import BYE, DATA, HEARTBEAT
from topology.config import HeaderConfig

FAILS_SOON = ChannelLimits(queue_records=5, queue_wait_s=0.2, delivery_timeout_s=0.3)

Build = Callable[..., SequencedProducer]


@pytest.fixture
def build(raw: Topic) -> Build:
    def built(source: str = "s1", **arguments: object) -> SequencedProducer:
        return SequencedProducer(*raw, source, **arguments)  # type: ignore[arg-type]

    return built


def to_nobody(**arguments: object) -> SequencedProducer:
    """Return a producer whose broker's port has no listener."""
    return SequencedProducer("127.0.0.1:1", "raw", "s1", **arguments)  # type: ignore[arg-type]


def test_reader_gets_fields_as_sent(build: Build, raw: Topic) -> None:
    with build(stream="pitch", first_epoch=7, clock=lambda: 1_700_000_000_123_456_789) as producer:
        assert producer.send(b'{"x": 1}', type="A") == 0
        assert producer.send(b"", ts_ns=5) == 1
        assert [producer.heartbeat(), producer.bye(ts_ns=9)] == [2, 3]
    first, second, third, last = raw.events(4)
    assert (first.stream, first.source, first.epoch, first.seq) == ("pitch", "s1", 7, 0)
    assert (first.ts_ns, first.type, first.kind) == (1_700_000_000_123_456_789, "A", DATA)
    assert first.value == b'{"x": 1}'
    assert (second.seq, second.ts_ns, second.type, second.value) == (1, 5, "", b"")
    assert (third.seq, third.kind, third.value) == (2, HEARTBEAT, None)
    assert (last.seq, last.kind, last.value, last.ts_ns) == (3, BYE, None, 9)


def test_default_epoch_is_the_start_time(build: Build, raw: Topic) -> None:
    """Without settings, records have the headers for source, number, timestamp and epoch."""
    before = int(time.time())
    with build() as producer:
        assert before <= producer.epoch <= int(time.time())
        assert producer.send(b"x") == 0
    (message,) = raw.messages(1)
    assert [name for name, _ in headers_of(message)] == ["sourceId", "seqNum", "ts", "epoch"]


@pytest.mark.parametrize(
    ("config", "ts_ns"),
    [
        pytest.param(HeaderConfig(ts_unit="ms"), 1_700_000_000_123_000_000, id="ms"),
        pytest.param(HeaderConfig(preset="cloudevents"), 1_700_000_000_123_456_789, id="ce"),
        pytest.param(HeaderContract(source="device"), 1_700_000_000_123_456_789, id="renamed"),
    ],
)
def test_header_contract_is_written(build: Build, raw: Topic, config: Contract, ts_ns: int) -> None:
    with build(headers=config, stream="pitch", clock=lambda: 1_700_000_000_123_456_789) as producer:
        producer.send(b"x", type="A")
        producer.heartbeat()
    events = raw.events(2, config)
    assert [(e.source, e.stream, e.seq, e.ts_ns) for e in events] == [
        ("s1", "pitch", 0, ts_ns),
        ("s1", "pitch", 1, ts_ns),
    ]
    assert (events[0].type, events[1].kind) == ("A", HEARTBEAT)


@pytest.mark.parametrize("key_by", ["source", "stream"])
def test_partition_is_by_murmur2(build: Build, raw: Topic, key_by: str) -> None:
    for source in ("a", "b", "press-7", "Z"):
        with build(source, stream=f"stream-{source}", key_by=key_by) as producer:
            for _ in range(3):
                producer.send(b"x")
    murmur2 = importlib.import_module("aiokafka.partitioner").murmur2
    messages = raw.messages(12)
    assert len({message.partition() for message in messages}) > 1
    for message in messages:
        event = event_of(message)
        key = (event.source if key_by == "source" else event.stream).encode()
        assert message.key() == key
        assert message.partition() == (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def test_clean_restart_leaves_no_gap(build: Build, raw: Topic, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s1.journal"
    for _ in range(3):
        with build(journal=path, first_epoch=40) as producer:
            producer.send(b"x")
            producer.heartbeat()
    events = raw.events(6)
    assert [(e.epoch, e.seq) for e in events] == [(40, seq) for seq in range(6)]


SENDS_UNTIL_KILLED = """
import sys
from pathlib import Path
from inorder.sequenced import SequencedProducer
brokers, topic, journal = sys.argv[1:]
producer = SequencedProducer(brokers, topic, "s1", journal=Path(journal), first_epoch=40)
for number in range(5_000):  # the broker keeps but a few megabytes
    producer.send(b"x")
    if number == 20:
        producer.flush()
        print("on the way", flush=True)
sys.stdin.read()
"""


def test_kill_starts_new_epoch(build: Build, raw: Topic, tmp_path: Path) -> None:
    path = tmp_path / "s1.journal"
    arguments = [*raw, str(path)]
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", SENDS_UNTIL_KILLED, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            line = child.stdout.readline()
            child.kill()
            child.wait(30)
        assert line == b"on the way\n"
    with build(journal=path) as producer:
        assert (producer.epoch, producer.next_seq) == (42, 0)
        producer.send(b"x")
    seen = [(event.epoch, event.seq) for event in raw.events()]
    assert (42, 0) in seen
    assert len(set(seen)) == len(seen)
    for epoch in (40, 41):
        numbers = [seq for e, seq in seen if e == epoch]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 20


def test_forked_child_cannot_send(build: Build, raw: Topic, tmp_path: Path) -> None:
    path = tmp_path / "s1.journal"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.inorder.forking", *raw, path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        told = [parent.stdout.readline().rstrip() for _ in range(5)]
        parent.kill()
        parent.wait(30)
    living = int(told.pop())
    try:
        assert [line.split()[0] for line in told[:3]] == ["send", "heartbeat", "flush"]
        assert all(
            "which forked this one; create another producer here" in line for line in told[:3]
        )
        assert told[3] == "child ended with 0"
        # The parent was killed, so its numbers must not be continued. Its child is alive.
        with build(journal=path) as producer:
            assert (producer.epoch, producer.next_seq) == (41, 0)
            producer.send(b"x")
    finally:
        os.kill(living, signal.SIGKILL)
    events = raw.events(5)
    assert [(e.epoch, e.seq) for e in events] == [(40, 0), (40, 1), (40, 2), (40, 3), (41, 0)]


def test_threads_share_numbers(build: Build, raw: Topic) -> None:
    taken: list[int] = []
    with build() as producer:

        def sends() -> None:
            taken.extend(producer.send(b"x") for _ in range(300))

        with ThreadPoolExecutor(4) as threads:
            for _ in range(4):
                threads.submit(sends)
    assert sorted(taken) == list(range(1200))
    events = raw.events(1200)
    assert [e.seq for e in events] == list(range(1200))
    assert all(a.ts_ns <= b.ts_ns for a, b in pairwise(events))


def test_each_delivery_is_reported(build: Build) -> None:
    told: list[Delivery] = []
    with build(on_delivery=told.append, first_epoch=3) as producer:
        producer.send(b"x")
        producer.send(b"y")
        producer.flush()
        assert [(d.epoch, d.seq, d.offset, d.error) for d in told] == [
            (3, 0, 0, None),
            (3, 1, 1, None),
        ]


def test_failure_is_raised_once() -> None:
    told: list[Delivery] = []
    producer = to_nobody(limits=FAILS_SOON, first_epoch=3, on_delivery=told.append)
    assert [producer.send(b"a"), producer.send(b"b")] == [0, 1]
    with pytest.raises(DeliveryFailed, match="s1/3/0") as failed:
        producer.flush(10)
    assert failed.value.count == 2
    assert [f.seq for f in failed.value.failures] == [0, 1]
    assert [d.seq for d in told if d.error] == [0, 1]
    assert producer.send(b"c") == 2
    with pytest.raises(DeliveryFailed, match="s1/3/2"):
        producer.close(10)
    producer.close()


def test_timed_out_record_is_uncertain() -> None:
    """After a time-out, delivery is unknown; records that were never sent are not in the topic."""
    told: list[Delivery] = []
    producer = to_nobody(limits=FAILS_SOON)
    producer.send(b"a")
    producer.send(b"b")
    with pytest.raises(DeliveryFailed, match="2 of them may still be in the topic") as x:
        producer.close(10)
    assert x.value.may_stand == 2
    assert all(failure.may_stand for failure in x.value.failures)
    producer = to_nobody(on_delivery=told.append)
    producer.send(b"a")
    with pytest.raises(DeliveryFailed, match="stay unused.*send the payloads again") as y:
        producer.close(0.1)
    assert (y.value.count, y.value.may_stand) == (1, 0)
    assert [each.may_stand for each in told] == [False]


def test_raising_send_uses_no_number() -> None:
    producer = to_nobody(limits=ChannelLimits(queue_records=10_000, delivery_timeout_s=0.3))
    numbers: list[int] = []

    def fails() -> bool:
        numbers.append(producer.send(b"x"))
        return False

    with pytest.raises(DeliveryFailed) as failed:
        wait_until(fails, "a failure that is told")
    assert failed.value.failures[0].seq == 0
    assert numbers == list(range(producer.next_seq))
    assert producer.send(b"x") == len(numbers)
    with pytest.raises(DeliveryFailed):
        producer.close(0.1)


def test_all_failures_are_counted() -> None:
    limits = ChannelLimits(queue_records=1000, queue_wait_s=0.1, delivery_timeout_s=0.3)
    producer = to_nobody(limits=limits)
    for _ in range(300):
        producer.send(b"x")
    with pytest.raises(DeliveryFailed) as failed:
        producer.close(10)
    assert failed.value.count == 300
    assert len(failed.value.failures) == 100


def test_full_queue_leaves_no_gap() -> None:
    limits = ChannelLimits(queue_records=3, queue_wait_s=0.3, delivery_timeout_s=60)
    producer = to_nobody(limits=limits)
    assert [producer.send(b"x") for _ in range(3)] == [0, 1, 2]
    started_s = time.monotonic()
    with pytest.raises(QueueFull, match="bounds: 3 records"):
        producer.send(b"x")
    assert time.monotonic() - started_s > 0.25
    assert calm_s(started_s) < 3
    assert producer.next_seq == 3
    with pytest.raises(DeliveryFailed) as failed:
        producer.close(0.1)  # The producer gives up the records that it has not sent yet.
    assert failed.value.count == 3


def test_failed_close_stores_number(tmp_path: Path) -> None:
    path = tmp_path / "s1.journal"
    for numbers in ([0, 1], [2, 3]):
        producer = to_nobody(journal=path, limits=FAILS_SOON)
        assert [producer.send(b"x"), producer.send(b"x")] == numbers
        with pytest.raises(DeliveryFailed):
            producer.close(0.1)


def test_refused_record_has_no_number(build: Build) -> None:
    with build() as producer:
        with pytest.raises(RecordRefused, match="s1/"):
            producer.send(bytes(2_000_000))
        assert producer.send(b"x") == 0


def test_callback_error_is_raised(build: Build) -> None:
    def breaks(_: Delivery) -> None:
        raise ZeroDivisionError

    producer = build(on_delivery=breaks)
    producer.send(b"x")
    with pytest.raises(CallbackError, match="ZeroDivisionError"):
        producer.flush()
    producer.close()


def test_callback_must_not_send(build: Build) -> None:
    producers: list[SequencedProducer] = []
    producer = build(on_delivery=lambda _: producers[0].send(b"again") and None)
    producers.append(producer)
    producer.send(b"x")
    with pytest.raises(CallbackError, match="must not call"):
        producer.flush()
    assert producer.next_seq == 1
    producer.close()


def test_closed_producer_is_unusable(build: Build) -> None:
    producer = build()
    producer.close()
    for call in (lambda: producer.send(b"x"), producer.heartbeat, producer.flush):
        with pytest.raises(ProducerError, match="closed"):
            call()


BAD_SETTINGS: list[tuple[dict[str, object], str]] = [
    ({"acks": 1}, "guarantees"),
    ({"default.topic.config": {"acks": 1}}, "guarantees"),  # indirectly
    ({"no.such.setting": 1}, "librdkafka"),
    ({"max.in.flight.requests.per.connection": 100}, "idempoten"),
    ({"delivery.report.only.error": True}, "guarantees"),
    ({"queuing.strategy": "lifo"}, "guarantees"),
    ({"transactional.id": "t"}, "guarantees"),
]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({"source": ""}, "empty", id="no source"),
        pytest.param({"source": "s" * 300}, "256 bytes", id="a long source"),
        pytest.param({"source": "müller"}, "ASCII", id="not ASCII"),
        pytest.param({"source": "a\nb"}, "ASCII", id="a line break"),
        pytest.param({"stream": ""}, "empty", id="no stream"),
        pytest.param({"stream": "s" * 250}, "too long", id="a long stream"),
        pytest.param({"first_epoch": -1}, "epoch", id="a negative epoch"),
        pytest.param({"first_epoch": 2**63}, "epoch", id="a huge epoch"),
        *(
            pytest.param({"settings": settings}, says, id=next(iter(settings)))
            for settings, says in BAD_SETTINGS
        ),
    ],
)
def test_bad_argument_is_refused(build: Build, arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build(**arguments)


def test_refusal_keeps_the_journal(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "s1.journal"
    with build(journal=path, first_epoch=5) as producer:
        producer.send(b"x")
    with pytest.raises(ValueError, match="guarantees"):
        build(journal=path, settings={"acks": 1})
    with build(journal=path) as producer:
        assert (producer.epoch, producer.next_seq) == (5, 1)
