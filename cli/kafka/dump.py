"""`inorder dump`: an input topic as the lines that `inorder replay` reads, with its append times.

If the stream syncs, `clock.offsets` is dumped with it: a clock line precedes the events that
arrived at the same time or later.

Each partition has its own arrival clock (agents.stage.arrival), as in a stage. The lines of several
partitions come in the order (arrival, partition, offset), and end where each ended at the start.
A replay of them gives what a worker gives,
wherever the answer does not depend on how sources lie in partitions: with one partition,
with `rule: fixed` and a known start, or with `rule: time` (the pooled fill times of `rule:
miss`, the first wait for unknown starts, and the bounds on all sources together are per
partition).

Memory: one fetch of each partition.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final

import click
import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from agents.kafka.brokers import Brokers, BrokersUnavailable
from agents.kafka.security import Security
from agents.registry.client import RegistryRefuses
from agents.stage.arrival import ArrivalClock, arrival_clock, no_arrival
from cli.as_json import json_option
from cli.kafka_options import kafka_option, reached, security
from cli.progress import counting
from cli.signing import master_keys
from cli.topology_file import Refused, brokers_option, load, topology_option
from producers.recording.topic_lines import TopicLines
from topology.config import Topology
from topology.wire.json_lines import JsonObject

READ_TIMEOUT_MS: Final = 500
STALLED_TIMEOUT_S: Final = 30.0


@click.command("dump")
@topology_option
@brokers_option
@kafka_option
@click.option("--topic", help="Which input topic, where the topology has several.")
@json_option("DUMP", "How many records, as JSON, last of all.")
def command(
    topology_path: str, brokers: str, kafka_path: str | None, topic: str | None, as_json: bool
) -> None:
    """Print the input topic up to its current end, in order of arrival."""
    topology = load(topology_path)
    name = chosen(topology, topic)
    masters = master_keys(topology, [name])
    access = security(kafka_path)
    try:
        count = asyncio.run(_print(topology, name, brokers, access, masters))
    except (BrokersUnavailable, DumpStalled, RegistryRefuses) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(orjson.dumps({"topic": name, "records": count}), err=True)


def chosen(topology: Topology, topic: str | None) -> str:
    inputs = sorted({stream.input for stream in topology.streams.values()})
    if topic is None and len(inputs) == 1:
        return inputs[0]
    if topic not in inputs:
        raise Refused(f"--topic {topic or 'is missing'}: write one of {', '.join(inputs)}")
    return topic


async def _print(
    topology: Topology, topic: str, servers: str, access: Security, masters: tuple[bytes, ...]
) -> int:
    brokers = await asyncio.to_thread(reached, servers, access)
    synced = {s.clock.sync for s in topology.streams.values() if s.input == topic} != {"none"}
    topics = [topic, topology.topics.clock] if synced else [topic]
    partitions = await asyncio.to_thread(brokers.partitions, topics)
    for name, count in partitions.items():
        if not count:
            raise Refused(f"{servers} has no topic {name}; run `inorder topics create` first")
    out = sys.stdout.buffer
    count = 0
    with counting("records", sys.stderr) as advance:
        lines = TopicLines(topology, [topic], masters)
        async for line in dumped(brokers, topology, topic, partitions, lines):
            out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            advance(1)
            count += 1
    out.flush()
    return count


class DumpStalled(Exception):
    """The brokers do not give what they say they have."""


class _Part:
    """One partition on its way from the log to lines. `rank` says which topic comes first
    at one instant."""

    def __init__(
        self, source: TopicPartition, end: int, rank: int, lines: TopicLines, clock: ArrivalClock
    ) -> None:
        self.source = source
        self.end = end
        self.clock = clock
        self.lines: deque[JsonObject] = deque()
        self._rank = rank
        self._of = lines

    @property
    def order(self) -> tuple[int, int, int]:
        return self.lines[0]["arrival"], self._rank, self.source.partition

    async def take(self, records: Collection[Any]) -> None:
        await self._of.known(records)
        lines = (self._of.line(record, self.clock) for record in records)
        self.lines.extend(line for line in lines if line is not None)


async def dumped(
    brokers: Brokers,
    topology: Topology,
    topic: str,
    partitions: Mapping[str, int],
    lines: TopicLines,
) -> AsyncIterator[JsonObject]:
    """The lines of the topic up to its current end. `partitions`: how many it has, and where its
    streams sync the clock topic, how many that has. DumpStalled if it cannot be read."""
    sources = [TopicPartition(name, at) for name, n in partitions.items() for at in range(n)]
    async with brokers.reader() as reader:
        reader.assign(sources)
        ends = await reader.end_offsets(sources)
        await reader.seek_to_beginning(*sources)
        parts = [
            _Part(
                source,
                ends[source],
                1 if source.topic == topic else 0,
                lines,
                arrival_clock(topology, source.topic, embedded=brokers.is_embedded),
            )
            for source in sources
        ]
        while parts := [part for part in parts if await _filled(reader, part)]:
            least = min(parts, key=_order)
            if least.clock.without_append_time and not brokers.is_embedded:
                without = no_arrival(topology, least.source.topic)
                if without is not None:
                    raise Refused(without)
            yield least.lines.popleft()


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
        await part.take(found.get(part.source, ()))
        await asyncio.sleep(0)
    return True
