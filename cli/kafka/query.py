"""`inorder query`: patterns that come and go while workers run (`live_queries: true`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
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

from agents.kafka.security import Security
from cli.as_json import json_option
from cli.kafka_options import reached, security
from cli.topology_file import Refused, brokers_option, kafka_option, load, topology_option
from topology.config import Topology, TopologyError, query_of

TIMEOUT_S: Final = 15.0


@click.group("query")
def command() -> None:
    """Add and remove patterns while workers run."""


@command.command("add")
@click.argument("name")
@topology_option
@brokers_option
@kafka_option
@click.option("--pattern", required=True, metavar="FILE|TEXT")
@click.option("--stream", help="Where the topology has several.")
@click.option("--finals/--no-finals", help="Emit a match once more when it is final.")
def add_command(
    name: str,
    topology_path: str,
    brokers: str,
    kafka_path: str | None,
    pattern: str,
    stream: str | None,
    finals: bool,
) -> None:
    """Look for a pattern from now on, under NAME."""
    topology = _live(topology_path)
    text = _text(pattern)
    document = {"pattern": text, "finals": finals}
    if stream is not None:
        document["stream"] = stream
    if name in topology.queries:
        raise Refused(f"`{name}` is a query of the topology file; choose another name")
    try:
        query_of(document, topology)
    except TopologyError as error:
        raise Refused(str(error)) from None
    _write(topology, brokers, security(kafka_path), name, orjson.dumps(document))
    click.echo(f"{name}: workers take it between two batches")


@command.command("remove")
@click.argument("name")
@topology_option
@brokers_option
@kafka_option
def remove_command(name: str, topology_path: str, brokers: str, kafka_path: str | None) -> None:
    """Look for NAME no longer; what it has said stays."""
    topology = _live(topology_path)
    access = security(kafka_path)
    known = _read(topology, brokers, access)
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Refused(f"there is no added query `{name}`; there are: {names}")
    _write(topology, brokers, access, name, None)
    click.echo(f"{name}: removed")


@command.command("list")
@topology_option
@brokers_option
@kafka_option
@json_option("QUERY_LIST")
def list_command(topology_path: str, brokers: str, kafka_path: str | None, as_json: bool) -> None:
    """The queries of the topology file, and those added."""
    topology = load(topology_path)
    added = {}
    if topology.live_queries:
        added = dict(sorted(_read(topology, brokers, security(kafka_path)).items()))
    if as_json:
        texts = {name: value.decode(errors="replace") for name, value in added.items()}
        click.echo(orjson.dumps({"file": list(topology.queries), "added": texts}))
        return
    for name in topology.queries:
        click.echo(f"{name}\tof the topology file")
    for name, value in added.items():
        click.echo(f"{name}\t{value.decode(errors='replace')}")


def _live(path: str) -> Topology:
    topology = load(path)
    if not topology.live_queries:
        raise Refused(f"{path}: workers look for added queries with `live_queries: true` only")
    return topology


def _text(pattern: str) -> str:
    try:
        path = Path(pattern)
        return path.read_text(encoding="utf-8") if path.is_file() else pattern
    except (OSError, ValueError):  # no name of a file: it is the pattern
        return pattern


def _write(
    topology: Topology, brokers: str, access: Security, name: str, value: bytes | None
) -> None:
    reached(brokers, access)
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": brokers, "log_level": 0, **access.librdkafka()})
    topic = topology.topics.queries
    producer.produce(
        topic, value, key=name.encode(), on_delivery=lambda error, _: failed.append(error)
    )
    left = producer.flush(TIMEOUT_S)
    if left or failed != [None]:
        why = failed[0].str() if failed and failed[0] is not None else "no answer in time"
        raise click.ClickException(
            f"{brokers}: {topic} could not be written: {why}; has `inorder topics create` run?"
        )


def _read(topology: Topology, brokers: str, access: Security) -> dict[str, bytes]:
    """The queries the topic holds, by name."""
    reached(brokers, access)
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "inorder-query",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            **access.librdkafka(),
        }
    )
    topic = topology.topics.queries
    found: dict[str, bytes] = {}
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        for number in partitions:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
            for record in _to_end(consumer, f"{brokers}: {topic}"):
                name = (record.key() or b"").decode(errors="replace")
                if record.value() is None:
                    found.pop(name, None)
                else:
                    found[name] = record.value() or b""
    except KafkaException as error:
        raise click.ClickException(f"{brokers}: {error}") from None
    finally:
        consumer.close()
    return found


def _to_end(consumer: Consumer, what: str) -> Iterator[Message]:
    while True:
        record = consumer.poll(TIMEOUT_S)
        error = None if record is None else record.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        if record is None or error is not None:
            raise click.ClickException(f"{what} could not be read in time")
        yield record
