"""An input topic as the lines that `inorder replay` reads, with its append times.

Where the stream syncs, `clock.offsets` is dumped with it: a clock line stands before the
events that arrived when it did or later, and bears its own arrival.

Each partition has its own arrival clock, the running maximum of append time, as in a
stage. The lines of several partitions come in the order (arrival, partition, offset), and
end where each partition ended at the start. A replay of them gives what a worker gives,
wherever the answer does not depend on how sources lie in partitions: with one partition,
with `rule: fixed` and a known start, or with `rule: time` (the pooled fill times of `rule:
miss`, the first wait for unknown starts, and the bounds on all sources together are per
partition).

A payload is JSON where the value is; else `{"base64": …}`, which replays as well as the
bytes do, as payloads are only compared. A record that a stage would refuse becomes a line
that a replay refuses, at the same place of the same source: `type` is no text there, and
says why. `ts` is in the unit of the header, as a replay with the same topology reads it; what is
no whole number of it is written as RFC 3339.

Memory: one fetch of each partition.

Proved by: tests/cli/test_units.py, tests/end_to_end/test_same_answer.py,
tests/end_to_end/test_by_time.py, tests/simulation/test_lanes.py
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.kafka.brokers import Brokers
from agents.stage.arrival import ArrivalClock
from agents.stage.clock_feed import word_of
from agents.stage.inlet import RawInlet
from inorder import rfc3339
from topology.clock.sample import Declared
from topology.model.event import DATA, NO_EPOCH, Event
from topology.model.outcome import Malformed
from topology.wire.json_lines import JsonObject

READ_TIMEOUT_MS: Final = 500
STALLED_TIMEOUT_S: Final = 30.0


ReadLine = Callable[[Any, ArrivalClock], JsonObject | None]


class DumpStalled(Exception):
    """The brokers do not give what they say they have."""


class _Part:
    """One partition on its way from the log to lines. `rank` says which topic comes first
    at one instant."""

    def __init__(
        self, source: TopicPartition, end: int, rank: int, read: ReadLine, *, embedded: bool
    ) -> None:
        self.source = source
        self.end = end
        self.clock = ArrivalClock(0, embedded=embedded)
        self.lines: deque[JsonObject] = deque()
        self._rank = rank
        self._read = read

    @property
    def order(self) -> tuple[int, int, int]:
        return self.lines[0]["arrival"], self._rank, self.source.partition

    def take(self, records: Iterable[Any]) -> None:
        lines = (self._read(record, self.clock) for record in records)
        self.lines.extend(line for line in lines if line is not None)


async def dumped(
    brokers: Brokers,
    topic: str,
    partitions: Mapping[str, int],
    inlet: RawInlet,
    activation_ns: int,
    unit_ns: int = 1,
) -> AsyncIterator[JsonObject]:
    """The lines of the topic as it stands now. `partitions`: how many it has, and where its
    streams sync the clock topic, how many that has. `activation_ns` is the shortest of
    the streams', `unit_ns` that of `ts`. DumpStalled if it cannot be read."""
    sources = [TopicPartition(name, at) for name, n in partitions.items() for at in range(n)]
    async with brokers.reader() as reader:
        reader.assign(sources)
        ends = await reader.end_offsets(sources)
        await reader.seek_to_beginning(*sources)
        parts = []
        for source in sources:
            is_clock = source.topic != topic
            read = (
                partial(clock_line, activation_ns)
                if is_clock
                else partial(record_line, inlet, unit_ns)
            )
            rank = 0 if is_clock else 1
            embedded = brokers.is_embedded
            parts.append(_Part(source, ends[source], rank, read, embedded=embedded))
        while parts := [part for part in parts if await _filled(reader, part)]:
            yield min(parts, key=_order).lines.popleft()


def _order(part: _Part) -> tuple[int, int, int]:
    return part.order


async def _filled(reader: AIOKafkaConsumer, part: _Part) -> bool:
    """True if the partition has a line to give, False at its end."""
    deadline_s = time.monotonic() + STALLED_TIMEOUT_S
    while not part.lines:
        position = await reader.position(part.source)
        if position >= part.end:
            return False
        if time.monotonic() > deadline_s:
            raise DumpStalled(
                f"{part.source.topic}/{part.source.partition} gives nothing beyond offset"
                f" {position} of {part.end} for {STALLED_TIMEOUT_S:.0f} s: an open transaction,"
                " or a broker that does not answer"
            )
        found = await reader.getmany(part.source, timeout_ms=READ_TIMEOUT_MS)
        part.take(found.get(part.source, ()))
        await asyncio.sleep(0)
    return True


def clock_line(activation_ns: int, record: Any, clock: ArrivalClock) -> JsonObject | None:
    arrival_ns = clock.arrive(record.timestamp, record.timestamp_type, time.time_ns())
    word = word_of(record, arrival_ns)
    if isinstance(word, str):
        return None  # no word about a clock: a worker passes it over too
    if isinstance(word, Declared):
        arrival_ns += activation_ns  # as in a worker
    return {**orjson.loads(record.value), "clock": word.source, "arrival": arrival_ns}


def record_line(inlet: RawInlet, unit_ns: int, record: Any, clock: ArrivalClock) -> JsonObject:
    read = inlet.read([record], clock)
    if read.dead:
        return _dead_line(read.dead[0], clock.now_ns)
    return _event_line(read.events[0], unit_ns)


def _event_line(event: Event, unit_ns: int) -> JsonObject:
    amount, below_ns = divmod(event.ts_ns, unit_ns)
    line: JsonObject = {
        "source": event.source,
        "seq": event.seq,
        "ts": rfc3339.spelled(event.ts_ns) if below_ns else amount,
        "arrival": event.arrival_ns,
        "stream": event.stream,
        "epoch": None if event.epoch == NO_EPOCH else event.epoch,
        "type": event.type,
        "payload": _payload(event.value),
        "offset": event.offset,
    }
    if event.kind != DATA:
        line["kind"] = event.kind
    return line


def _dead_line(dead: Malformed, arrival_ns: int) -> JsonObject:
    return {
        "source": dead.source,
        "seq": dead.seq,
        "arrival": arrival_ns,
        "stream": dead.stream,
        "epoch": dead.epoch if dead.epoch is not None and dead.epoch >= 0 else None,
        "type": {"dead": dead.reason, "detail": dead.detail},
        "offset": dead.offset,
    }


def _payload(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return {"base64": base64.b64encode(value).decode()}
