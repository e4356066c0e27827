"""`inorder dump` prints an input topic, with arrival times, as lines for `inorder replay`.

If the stream syncs clocks, `clock.offsets` is dumped with the topic. A clock line precedes the
events that arrived at the same time or later.

Each line has the topic, partition and offset of its record. So a replay keeps the partitions apart,
and gives a worker's results (`recordings.laned`). Without `partition`, all sources count as those
of one partition. Then three things can differ: the waits that `rule: miss` learns, the first wait
for unknown starts, and the bounds on all sources together.
"""

from __future__ import annotations

import asyncio
import sys

import click
import orjson

from agents.kafka.brokers import BrokersUnavailable
from agents.registry.client import RegistryRefuses
from cli.as_json import json_option
from cli.kafka_options import Kafka, on_kafka
from cli.progress import show_count
from cli.signing import master_keys
from cli.topology_file import Refused, failing, load, refusing, topic_named, topology_option
from recordings.topic_dump import DumpRefused, DumpStalled, dump
from topology.config import Topology


@click.command("dump")
@topology_option
@on_kafka()
@topic_named()
@json_option("DUMP")
def command(topology_path: str, kafka: Kafka, topic: str | None, as_json: bool) -> None:
    """Print the input topic up to its current end, in order of arrival.

    --topic chooses one of several.
    """
    topology = load(topology_path)
    name = choose(topology, topic)
    masters = master_keys(topology, [name])
    with refusing(DumpRefused), failing(BrokersUnavailable, DumpStalled, RegistryRefuses):
        count = asyncio.run(_print(topology, name, kafka, masters))
    if as_json:
        click.echo(orjson.dumps({"topic": name, "records": count}), err=True)


def choose(topology: Topology, topic: str | None) -> str:
    inputs = sorted({stream.input for stream in topology.streams.values()})
    if topic is None and len(inputs) == 1:
        return inputs[0]
    if topic not in inputs:
        raise Refused(f"--topic {topic or 'is missing'}: write one of {', '.join(inputs)}")
    return topic


async def _print(topology: Topology, topic: str, kafka: Kafka, masters: tuple[bytes, ...]) -> int:
    brokers = await asyncio.to_thread(kafka.brokers)
    out = sys.stdout.buffer
    count = 0
    with show_count("records") as advance:
        async for line in dump(brokers, topology, [topic], masters):
            out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            advance(1)
            count += 1
    out.flush()
    return count
