"""Publishes a recording again: the same events with the same numbers, in file order.

The pace is a rate, a multiple of the recorded speed, or full speed (`ReplayPace`). If an arrival
time is below an earlier one, the largest earlier one is used. A row without an arrival time is
published at its `ts`. A row without either is published together with the row before it. If the
pace cannot be kept, no record is dropped; `Published.behind_s` is the delay.

The order of the file holds within each partition. The producer is idempotent, or sends one request
at a time (`inorder.channel`). The key is the source or the stream, as with `SequencedProducer`.

Malformed rows are given to `on_malformed`, counted and skipped. Clock readings are counted and
skipped, because they belong to another topic. All other rows are delivered. A record that the
broker does not accept stops the run, because a recording with gaps is a different recording. The
errors are QueueFull, DeliveryFailed, FlushTimeout and BrokerFatal. RecordRefused is raised for a
record that is too large, or a source that the signing key does not cover. Memory: one row and the
channel's bounded queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from inorder import playback
from inorder.channel import Channel, ChannelLimits, Settings
from inorder.contract import DEFAULT_STREAM, UNIT_NS, Contract, HeaderContract
from inorder.failure import RecordRefused
from inorder.header_writer import Headers, HeaderWriter
from inorder.lasting_client import Coordinates
from inorder.signing_keys import SigningKey
from producers.recorded import ClockRow, Malformed, Record, Recorded, record_of

PROGRESS_EVERY_S: Final = 0.2
POLL_EVERY_RECORDS: Final = 256
SHORTEST_WAIT_S: Final = 0.001
LONGEST_WAIT_S: Final = 0.1
FLUSH_TIMEOUT_S: Final = 60.0
NS_PER_MS: Final = 1_000_000
NO_NUMBER: Final = -1
"""Sequence number in the coordinates of a record that has none."""


@dataclass(frozen=True, slots=True)
class ReplayPace:
    """The pace of a replay: records per second, or recorded seconds per second, or full speed."""

    rate_per_s: float | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        if self.rate_per_s is not None and self.speed is not None:
            raise ValueError("give a rate or a speed, not both")
        for name, value in (("rate", self.rate_per_s), ("speed", self.speed)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} {value} is not above 0; leave it out for full speed")


FULL_SPEED: Final = ReplayPace()


@dataclass(slots=True)
class Published:
    """The progress of a replay: rows = sent + malformed + clock.

    `newest_ns` is the latest `ts` that was sent, or 0.
    """

    rows: int = 0
    sent: int = 0
    delivered: int = 0
    malformed: int = 0
    clock: int = 0
    seconds: float = 0.0
    behind_s: float = 0.0
    newest_ns: int = 0


class Replayer:
    """A publisher of recordings to one topic; calls `on_progress` about every 0.2 s and at the end.

    `unnumbered` has the streams whose rows need no sequence number; `unnamed` is the stream of rows
    that name none. A row's `ts` is in the unit that `headers` sets. `now_s` is a monotonic clock.
    `wait_s` waits for a number of seconds; by default it polls the Kafka client meanwhile. With
    `signing_key` each record is signed; a source that the key does not cover stops the run. Without
    `writes_headers` records have no headers, like those of producers that do not use inorder. If
    it `keeps_arrivals`, a record's timestamp is its arrival time, and a header says that more
    follow (`inorder.playback`). Each record is then sent once the row after it has been read.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        pace: ReplayPace = FULL_SPEED,
        key_by: Literal["source", "stream"] = "source",
        headers: Contract | None = None,
        unnumbered: Container[str] = (),
        unnamed: str = DEFAULT_STREAM,
        limits: ChannelLimits | None = None,
        settings: Settings | None = None,
        signing_key: SigningKey | None = None,
        writes_headers: bool = True,
        keeps_arrivals: bool = False,
        on_malformed: Callable[[Malformed], None] | None = None,
        on_progress: Callable[[Published], None] | None = None,
        now_s: Callable[[], float] = time.monotonic,
        wait_s: Callable[[float], None] | None = None,
    ) -> None:
        self._channel = Channel(
            brokers, topic, limits=limits, settings=settings, is_idempotent=signing_key is None
        )
        headers = headers or HeaderContract()
        self._writer = HeaderWriter(headers, signing_key)
        self._signing_key = signing_key
        self._writes_headers = writes_headers
        self._keeps_arrivals = keeps_arrivals
        self._unit_ns = UNIT_NS[headers.ts_unit]
        self._unnumbered = unnumbered
        self._unnamed = unnamed
        self._key_by_stream = key_by == "stream"
        self._pace = pace
        self._on_malformed = on_malformed
        self._on_progress = on_progress
        self._now_s = now_s
        self._wait_s = wait_s or self._channel.poll
        self._logged_s = 0.0

    def publish(
        self, rows: Iterable[Recorded], *, flush_timeout_s: float = FLUSH_TIMEOUT_S
    ) -> Published:
        """Publish all `rows`, wait until they are delivered, and return the counts."""
        count = Published()
        started_s = self._logged_s = self._now_s()
        schedule = _Schedule(self._pace)
        records = self._records(rows, count, started_s)
        if self._keeps_arrivals:
            self._send_in_time(records, schedule, started_s, count)
        else:
            for record in records:
                self._wait_until(started_s + schedule.due_s(record, count.sent), started_s, count)
                self._send(record, count)
        self._channel.flush(flush_timeout_s)
        self._channel.raise_failures()
        self._log_progress(started_s, count, now=True)
        return count

    def _records(
        self, rows: Iterable[Recorded], count: Published, started_s: float
    ) -> Iterator[Record]:
        for row in rows:
            count.rows += 1
            taken = record_of(row, count.rows, self._unnumbered, self._unit_ns, self._unnamed)
            if isinstance(taken, Record):
                yield taken
            else:
                self._skip(taken, count)
                self._log_progress(started_s, count)

    def _send_in_time(
        self, records: Iterator[Record], schedule: _Schedule, started_s: float, count: Published
    ) -> None:
        """Send the records with their arrival times, each once the next one is known.

        All others are delivered before the last one, which ends the playback for every partition.
        """
        record = next(records, None)
        due_s = 0.0 if record is None else started_s + schedule.due_s(record, 0)
        while record is not None:
            self._wait_until(due_s, started_s, count)
            following = next(records, None)
            until_ms = playback.OVER
            if following is None:
                self._channel.flush(FLUSH_TIMEOUT_S)
            else:
                due_s = started_s + schedule.due_s(following, count.sent + 1)
                ahead_ms = round(max(0.0, due_s - self._now_s()) * 1e3)
                until_ms = time.time_ns() // NS_PER_MS + ahead_ms + playback.GRACE_MS
            arrival_ms = (record.arrival_ns or 0) // NS_PER_MS
            self._send(record, count, [playback.encode(until_ms)], arrival_ms)
            record = following

    def _wait_until(self, due_s: float, started_s: float, count: Published) -> None:
        while True:
            self._log_progress(started_s, count)
            ahead_s = due_s - self._now_s()
            if ahead_s < SHORTEST_WAIT_S:
                count.behind_s = max(0.0, -ahead_s) if self._pace != FULL_SPEED else 0.0
                return
            self._wait_s(min(ahead_s, LONGEST_WAIT_S))

    def _send(
        self, record: Record, count: Published, more: Headers | None = None, timestamp_ms: int = 0
    ) -> None:
        if count.sent % POLL_EVERY_RECORDS == 0:
            self._channel.poll()
        if self._channel.failed:
            self._channel.raise_failures()
        if self._signing_key is not None and not self._signing_key.speaks_for(record.source):
            raise RecordRefused(
                f"{self._signing_key!r} does not cover source {record.source!r}; give the key"
                " of a prefix that all sources of the recording have"
            )
        headers = self._writer.write(
            record.source,
            record.seq,
            ts_ns=record.ts_ns,
            epoch=record.epoch,
            stream=record.stream,
            type=record.type,
            kind=record.kind,
            value=record.value,
        )
        key = record.stream if self._key_by_stream else record.source
        number = NO_NUMBER if record.seq is None else record.seq
        coordinates = Coordinates(record.source, record.epoch or 0, number)
        headers = [*(headers if self._writes_headers else []), *(more or [])]
        self._channel.send(coordinates, key.encode(), record.value, headers, timestamp_ms)
        count.sent += 1
        count.newest_ns = max(count.newest_ns, record.ts_ns or 0)

    def _skip(self, taken: ClockRow | Malformed, count: Published) -> None:
        if isinstance(taken, ClockRow):
            count.clock += 1
            return
        count.malformed += 1
        if self._on_malformed is not None:
            self._on_malformed(taken)

    def _log_progress(self, started_s: float, count: Published, *, now: bool = False) -> None:
        now_s = self._now_s()
        if now or now_s - self._logged_s >= PROGRESS_EVERY_S:
            self._logged_s = now_s
            count.seconds = now_s - started_s
            count.delivered = self._channel.delivered
            if self._on_progress is not None:
                self._on_progress(count)


class _Schedule:
    """The due times of records, in seconds from the start."""

    def __init__(self, pace: ReplayPace) -> None:
        self._pace = pace
        self._first_ns: int | None = None
        self._newest_ns = 0

    def due_s(self, record: Record, number: int) -> float:
        if self._pace.rate_per_s is not None:
            return number / self._pace.rate_per_s
        if self._pace.speed is None:
            return 0.0
        if record.arrival_ns is not None:
            if self._first_ns is None:
                self._first_ns = self._newest_ns = record.arrival_ns
            self._newest_ns = max(self._newest_ns, record.arrival_ns)
        return (self._newest_ns - (self._first_ns or 0)) / 1e9 / self._pace.speed
