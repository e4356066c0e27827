"""Write raw records within a time limit, and read topics back while records keep coming."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from benchmarks.workloads.rows import Row
from tests.end_to_end.setting import Setting
from tests.waiting import Patience, wait_until

FLUSH_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 60.0
POLL_S = 0.2
AT_END_MS = 10
"""Time that a broker waits for more at the end of a topic that is read once."""

CHUNK = 2_000
GATHER_S = 0.01
"""Time that a reader with the first of some records waits for the next ones."""

Headers = list[tuple[str, bytes | None]]


class Read(NamedTuple):
    """A record as a reader gets it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> str | None:
        for known, value in self.headers:
            if known == name:
                return None if value is None else value.decode()
        return None

    def number(self, name: str) -> int:
        text = self.header(name)
        assert text is not None, f"{self} has no header {name}"
        return int(text)

    @property
    def is_control(self) -> bool:
        return any(self.header(name) is not None for name in ("kind", "ce_kind"))

    @property
    def name(self) -> tuple[str, int, int]:
        """Return source, epoch and number of the event."""
        return self.header("sourceId") or "", int(self.header("epoch") or 0), self.number("seqNum")


def contract(
    source: str,
    seq: int,
    ts_ns: int | None = None,
    epoch: int | None = None,
    stream: str = "",
) -> Headers:
    """Return the headers of an ordinary event."""
    headers: Headers = [("sourceId", source.encode()), ("seqNum", b"%d" % seq)]
    if stream:
        headers.append(("streamId", stream.encode()))
    if epoch is not None:
        headers.append(("epoch", b"%d" % epoch))
    if ts_ns is not None:
        headers.append(("ts", b"%d" % ts_ns))
    return headers


class Sender:
    """A sender of rows to the raw topic, in its own thread, each at its due time.

    Workload time is mapped to the wall clock and runs `speed` times as fast. An event is sent at
    its arrival, and its `ts` lies as long before as in the workload. Without `speed` rows are sent
    as fast as possible.
    """

    def __init__(
        self,
        setting: Setting,
        rows: Sequence[Row],
        *,
        speed: float | None = None,
        epoch: int | None = None,
        value: Callable[[Row], bytes] = lambda row: b"%s %d" % (row.source.encode(), row.seq),
        stream: Callable[[Row], str] = lambda _: "",
    ) -> None:
        self._setting = setting
        self._rows = rows
        self._speed = speed
        self._epoch = epoch
        self._value = value
        self._stream = stream
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self.sent = 0

    @property
    def different(self) -> int:
        """Return the number of events that were sent, without duplicates."""
        return len({(row.source, row.seq) for row in self._rows[: self.sent]})

    @property
    def share(self) -> float:
        """Return the share of the rows that is sent.

        Raises the error that has ended the thread, if any.
        """
        if self._failure is not None:
            raise self._failure
        return self.sent / max(1, len(self._rows))

    def start(self) -> Sender:
        self._thread.start()
        return self

    def finish(self) -> None:
        """Wait until all rows are in the topic."""
        wait_until(lambda: not self._thread.is_alive(), "all rows to be sent", lambda: self.sent)
        if self._failure is not None:
            raise self._failure

    def await_share(self, share: float, look: Callable[[], object] = lambda: None) -> None:
        """Wait until that share of the rows is sent, and call `look` meanwhile."""
        what = f"{share:.0%} of the rows"
        wait_until(lambda: self.share >= share, what, lambda: (self.sent, look()))

    def stop(self) -> None:
        """Send no more, and wait until all that was sent is in the topic."""
        self._stopping.set()
        self.finish()

    def record_of(self, row: Row, ts_ns: int) -> tuple[bytes, Headers]:
        """Return the value and headers of a row's record with timestamp `ts_ns`."""
        headers = contract(row.source, row.seq, ts_ns, self._epoch, self._stream(row))
        return self._value(row), headers

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as failure:  # noqa: BLE001 - raised by `finish`
            self._failure = failure

    def _send_all(self) -> None:
        producer = new_producer(self._setting.bootstrap)
        rows, speed = self._rows, self._speed
        began_ns = time.time_ns()
        first_ns = rows[0].arrival_ns
        for row in rows:
            due_ns = began_ns + int((row.arrival_ns - first_ns) / (speed or 1.0))
            while speed is not None and time.time_ns() < due_ns and not self._stopping.is_set():
                producer.poll(0)
                time.sleep(0.001)
            if self._stopping.is_set():
                break
            ts_ns = row.ts_ns
            if speed is not None:
                ts_ns = began_ns + int((row.ts_ns - first_ns) / speed)
            value, headers = self.record_of(row, ts_ns)
            key = self._setting.key(row.source)
            producer.produce(self._setting.raw, value, key, headers=list(headers))
            self.sent += 1
        assert producer.flush(FLUSH_TIMEOUT_S) == 0


def new_producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
            **settings,
        }
    )


def send(setting: Setting, records: Iterable[tuple[str, bytes | None, Headers]]) -> None:
    """Send (source for the key, value, headers) in this order, and wait until all are confirmed."""
    keyed = (
        (setting.key(source), value, headers, ANY_PARTITION) for source, value, headers in records
    )
    deliver(setting.bootstrap, setting.raw, keyed)


ANY_PARTITION = -1
"""A partition that the key determines."""


def deliver(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None, Headers, int]],
) -> None:
    """Send (key, value, headers, partition) in this order, and wait until all are confirmed."""
    failed: list[KafkaError] = []
    # One request at a time also keeps the order, and saves half a second for a producer id.
    one_by_one = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    producer = new_producer(bootstrap, **one_by_one, **{"message.max.bytes": 32 << 20})

    def confirmed(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for key, value, headers, partition in records:
        producer.produce(topic, value, key, partition, on_delivery=confirmed, headers=list(headers))
    assert producer.flush(FLUSH_TIMEOUT_S) == 0
    assert not failed, failed[0]


class Reader:
    """A reader of a topic's committed records, from the beginning; each poll continues after the
    last one.
    """

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-of-{topic}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 16 << 20,
                "log_level": 0,
                **settings,
            }
        )
        found = self._consumer.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions
        assert found, f"there is no topic {topic}"
        self._consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in found])
        self._partitions = set(found)
        self.records: list[Read] = []

    def poll(self, timeout_s: float = POLL_S) -> set[int]:
        """Take the records that have arrived, and return the partitions that have reached their
        ends.
        """
        ends: set[int] = set()
        first = self._consumer.poll(timeout_s)
        more = self._consumer.consume(CHUNK, GATHER_S) if first is not None else []
        for message in ([first] if first is not None else []) + more:
            error = message.error()
            place = message.partition()
            assert place is not None
            if error is None:
                self.records.append(_read(message))
                ends.discard(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.add(place)
            elif not error.retriable() and error.code() not in _PASSING:
                raise KafkaException(error)
        return ends

    def to_end(self) -> list[Read]:
        """Return all records that are there now."""
        patience = Patience()
        missing = set(self._partitions)
        while missing:
            patience.look(len(self.records), lambda: "the ends of partitions")
            missing -= self.poll()
        return self.records

    def close(self) -> None:
        self._consumer.close()


_PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})
"""Errors of a broker that is away for a while, which are no fault of the reader."""


def _read(message: Any) -> Read:
    headers = [(name, value) for name, value in message.headers() or []]
    stamp_ms = message.timestamp()[1]
    key, value = message.key(), message.value()
    return Read(message.partition(), message.offset(), stamp_ms, key, value, headers)


def read_all(bootstrap: str, topic: str) -> list[Read]:
    """Return all committed records of a topic, each partition in log order."""
    reader = Reader(bootstrap, topic, **{"fetch.wait.max.ms": AT_END_MS})
    try:
        return reader.to_end()
    finally:
        reader.close()


def events_of(setting: Setting) -> list[Read]:
    """Return all events of the ordered topic, without control records."""
    return [each for each in read_all(setting.bootstrap, setting.ordered) if not each.is_control]


def letters_of(setting: Setting) -> list[dict[str, Any]]:
    """Return all dead letters."""
    letters = read_all(setting.bootstrap, setting.topology.topics.dead)
    return [orjson.loads(letter.value or b"") for letter in letters]
