"""`inorder dump`: an input topic as JSON lines that `inorder replay` reads."""

from __future__ import annotations

import asyncio
import sys

import click
import orjson

from agents.dump import DumpStalled, dumped
from agents.kafka.brokers import BrokersUnavailable
from agents.kafka.security import Security
from agents.stage.arrangement import input_reader
from cli.as_json import json_option
from cli.kafka_options import kafka_option, reached, security
from cli.progress import counting
from cli.signing import master_keys
from cli.topology_file import Refused, brokers_option, load, topology_option
from inorder.contract import UNIT_NS
from topology.config import Topology


@click.command("dump")
@topology_option
@brokers_option
@kafka_option
@click.option("--topic", help="Which input topic, where the topology has several.")
@json_option("DUMP", "How many records, as JSON, last of all.")
def command(
    topology_path: str, brokers: str, kafka_path: str | None, topic: str | None, as_json: bool
) -> None:
    """Print the input topic as it stands now, in order of arrival."""
    topology = load(topology_path)
    name = chosen(topology, topic)
    masters = master_keys(topology, [name])
    access = security(kafka_path)
    try:
        count = asyncio.run(_print(topology, name, brokers, access, masters))
    except (BrokersUnavailable, DumpStalled) as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        sys.stderr.close()  # whoever reads has seen enough
        raise SystemExit(1) from None
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
        inlet = input_reader(topology, topic, masters)
        activation_ns = min(stream.clock.activation_ns for stream in topology.streams.values())
        unit_ns = UNIT_NS[topology.headers_of(topic).ts_unit]
        async for line in dumped(brokers, topic, partitions, inlet, activation_ns, unit_ns):
            out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            advance(1)
            count += 1
    out.flush()
    return count
