"""Checks whether the newest records of the input topics can be read as the topology file says.

`inorder doctor` runs the check, whether or not a worker runs. It reads at most `LOOKED_AT` records
of each topic with a client that joins no group and commits nothing. It does not check signatures,
because that would need the master keys. It does not judge topics that the principal may not read;
`cli.doctor.topics` reports the missing right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from typing import Any, Final

from aiokafka.errors import KafkaError

from agents.kafka.brokers import Brokers
from agents.kafka.stage_topics import list_upstream_inputs
from agents.kafka.whole_topic import NoTopic, records_of
from agents.registry.client import RegistryAway, RegistryRefuses
from agents.registry.feed import SchemaFeed
from agents.stage.arrangement import make_input_inlet
from agents.stage.inlet import RawInlet
from agents.watch.deaths import Deaths
from agents.watch.sentences import round_up_to_seconds
from cli.doctor.finding import Finding, Weight, error, warning
from cli.printable import escape_unprintable
from codec.face import Unreadable
from topology.base.event import Event
from topology.base.outcome import Malformed
from topology.config import Topology
from topology.stage.stage import reject_unknown_stream

LOOKED_AT: Final = 200
TIMEOUT_S: Final = 5.0
"""The time to wait for a record of one topic."""

NS_PER_MS: Final = 1_000_000
LEAST_FALL_NS: Final = 100 * NS_PER_MS
"""The smallest fall of timestamps that is reported."""

Numbered = dict[tuple[str, str], list[tuple[int, int, int]]]
"""The epoch, number and timestamp of events, by stream and source."""


def input_findings(topology: Topology, brokers: Brokers) -> list[Finding]:
    """Return the faults of the newest records of each input topic, with their remedies; blocks.

    A fault is a topic whose records are mostly dead letters. Another is a source of a foreign topic
    that is spread over several partitions, and a third one timestamps that fall.
    """
    found = []
    for topic in list_upstream_inputs(topology):
        try:
            deaths, spread, numbered = asyncio.run(_look(topology, brokers, topic))
        except (RegistryAway, RegistryRefuses) as fault:
            what, _, remedy = str(fault).partition("; ")
            found.append(error(topic, what, remedy or "check that it runs"))
            continue
        if spread:
            found.append(_warn_of_spread(topic, spread))
        found += _check_set_back(topology, topic, numbered)
        if (verdict := deaths.verdict()) is not None:
            what, remedy = verdict
            all_dead = deaths.dead == deaths.read
            weight = Weight.ERROR if all_dead else Weight.WARNING
            found.append(
                Finding(weight, topic, f"among its newest {deaths.read:,}, {what}", remedy)
            )
    return found


def _warn_of_spread(topic: str, spread: dict[str, set[int]]) -> Finding:
    source, partitions = min(spread.items())
    named = " and ".join(map(str, sorted(partitions)))
    others = f", and {len(spread) - 1} others as well" if len(spread) > 1 else ""
    return warning(
        topic,
        f"source {escape_unprintable(source)} is in partitions {named}{others}:"
        " each partition is ordered by"
        " itself, and events in another one look missing",
        "copy the topic with the source as key (`inorder dump`, then `inorder produce`), or into"
        " one partition",
    )


def _check_set_back(topology: Topology, topic: str, numbered: Numbered) -> Iterator[Finding]:
    """Yield a warning for each stream with a fall that its `max_set_back` does not cover."""
    largest: dict[str, tuple[int, str]] = {}
    for (stream, source), events in numbered.items():
        fall = largest_fall_ns(events), source
        largest[stream] = max(largest.get(stream, fall), fall)
    for stream, (fall_ns, source) in sorted(largest.items()):
        declared_ns = topology.streams[stream].clock.max_set_back_ns
        if fall_ns > max(declared_ns or 0, LEAST_FALL_NS):
            yield warning(
                topic,
                f"timestamps of source {escape_unprintable(source)} fall by up to"
                f" {fall_ns / 1e9:.1f} s in"
                " the order of its numbers: such events are late, or delay final results",
                f"write clock: {{max_set_back: {round_up_to_seconds(fall_ns)}}} in the stream"
                f" {stream}",
            )


def largest_fall_ns(numbered: list[tuple[int, int, int]]) -> int:
    """Return how far a timestamp is below an earlier one of the same run of numbers, at most.

    `numbered` has the epoch, the number and the timestamp of events, as they arrived. Any number
    but the next one ends a run, because a source without epochs may have restarted there.
    """
    fall_ns = newest_ns = 0
    before: tuple[int, int] | None = None
    for epoch, number, ts_ns in numbered:
        newest_ns = max(newest_ns, ts_ns) if before == (epoch, number - 1) else ts_ns
        fall_ns = max(fall_ns, newest_ns - ts_ns)
        before = epoch, number
    return fall_ns


async def _look(
    topology: Topology, brokers: Brokers, topic: str
) -> tuple[Deaths, dict[str, set[int]], Numbered]:
    """Return what the newest records show: dead letters, sources in several partitions, numbers.

    The second result maps each such source to the numbers of its partitions. It has only sources of
    topics with foreign records. The third one has the events with a number. Reading ends early if
    no record arrives for `TIMEOUT_S`.
    """
    places: dict[str, set[int]] = {}
    numbered: Numbered = {}
    streams = {name: each for name, each in topology.streams.items() if each.input == topic}
    readers: dict[int, RawInlet] = {}
    schemas = SchemaFeed(0.0)
    by_partition: dict[int, Deaths] = {}
    asked = records_of(brokers, topic, newest=LOOKED_AT, stalled_s=TIMEOUT_S)
    with suppress(NoTopic, KafkaError, TimeoutError):
        async with aclosing(asked) as records:
            async for record in records:
                number = record.partition
                deaths = by_partition.setdefault(number, Deaths(f"{topic}/{number}"))
                deaths.read += 1
                if number not in readers:
                    readers[number] = make_input_inlet(topology, topic, (), number, checks=False)
                await _await_schemas(schemas, readers[number], record)
                item = _read(readers[number], record)
                if not isinstance(item, Malformed) and item.stream not in streams:
                    item = reject_unknown_stream(item, streams)
                if isinstance(item, Malformed):
                    deaths.add(item)
                    continue
                places.setdefault(item.source, set()).add(number)
                if topology.streams[item.stream].reorder.numbered and item.is_stamped:
                    events = numbered.setdefault((item.stream, item.source), [])
                    events.append((item.epoch, item.seq, item.ts_ns))
    whole = Deaths()
    for deaths in by_partition.values():
        whole.join(deaths)
    is_foreign = any(each.fields for each in streams.values())
    several = {source: each for source, each in places.items() if len(each) > 1 and is_foreign}
    return whole, several, numbered


async def _await_schemas(schemas: SchemaFeed, reader: RawInlet, record: Any) -> None:
    """Wait for the record's schemas; raise RegistryAway or RegistryRefuses if that fails."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await schemas.resolve_records(reader.registered, [record])
    except TimeoutError:
        registries = ", ".join(table.registry for table in reader.registered)
        raise RegistryAway(f"the schema registry {registries} does not answer") from None


def _read(reader: RawInlet, record: Any) -> Event | Malformed:
    stamp_ns = record.timestamp * NS_PER_MS
    if isinstance(record, Unreadable):
        return record.dead(stamp_ns)
    return reader.one(record, stamp_ns)
