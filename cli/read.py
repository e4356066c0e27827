"""`inorder read`: what a worker wrote to a topic, as the lines that `replay` would print.

Takes topics of ordered events (told as lines of kind `event`; watermarks are left out) and those
whose values are JSON of a kind: results, gaps, dead letters. Read committed, from the beginning,
each partition in its order; a stream lies in one partition, so its order is kept. Without a group:
nothing is committed, and any number may read. For an input topic there is `inorder dump`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import click
import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from agents.kafka.security import Security
from cli.kafka_options import kafka_option, reached, security
from cli.topology_file import Refused, brokers_option, load
from topology.config import HeaderConfig
from topology.model.event import DATA, Event
from topology.wire.header_reader import HeaderReader
from topology.wire.json_lines import event_line, line_json

AT_ONCE: Final = 1_000
WAIT_S: Final = 0.2
ASK_TIMEOUT_S: Final = 10.0


@click.command("read")
@brokers_option
@kafka_option
@click.option("--topic", required=True, help="A topic that a worker writes.")
@click.option(
    "--topology", "topology_path", envvar="INORDER_READ_TOPOLOGY", help="For its header names."
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many lines.")
def command(
    brokers: str,
    kafka_path: str | None,
    topic: str,
    topology_path: str | None,
    follow: bool,
    count: int | None,
) -> None:
    """Print a topic of a worker as JSON lines: as it stands now, or on and on."""
    headers = _headers(topic, topology_path)
    access = security(kafka_path)
    try:
        reached(brokers, access)
        for number, line in enumerate(_lines(brokers, access, topic, headers, follow), start=1):
            sys.stdout.buffer.write(line_json(line, orjson.OPT_APPEND_NEWLINE))
            sys.stdout.buffer.flush()
            if number == count:
                break
    except KafkaException as error:
        raise click.ClickException(f"{topic}: {error.args[0].str()}") from error
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        sys.stderr.close()  # whoever reads has seen enough
        raise SystemExit(1) from None


def _headers(topic: str, topology_path: str | None) -> HeaderConfig:
    if topology_path is None:
        return HeaderConfig()
    streams = load(topology_path).streams.values()
    return next((s.headers for s in streams if s.output == topic), HeaderConfig())


def _lines(
    brokers: str, access: Security, topic: str, headers: HeaderConfig, follow: bool
) -> Iterator[dict[str, Any]]:
    reader = HeaderReader(headers)
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "inorder-read",  # the client wants one; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
            **access.librdkafka(),
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=ASK_TIMEOUT_S).topics[topic].partitions
        if not known:
            raise Refused(
                f"--topic {topic}: {brokers} has no such topic; `inorder check` names those"
                " of a topology, `inorder topics create` makes them"
            )
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in known])
        unread = set(known)
        while unread or follow:
            for message in consumer.consume(AT_ONCE, WAIT_S):
                error = message.error()
                if error is None:
                    yield from _told(message, reader)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def _told(message: Message, reader: HeaderReader) -> Iterator[dict[str, Any]]:
    headers: Any = message.headers() or []
    value: Any = message.value()
    if any(name == "refTs" for name, _ in headers):
        event = reader.read_ordered(headers, message.timestamp()[1] * 1_000_000, 0, None, value)
        if isinstance(event, Event) and event.kind == DATA:
            event.value = _parsed(value)
            yield event_line(event)
        return
    line = None if value is None else _parsed(value)
    if isinstance(line, dict) and "kind" in line:
        yield line
    elif value is not None:
        raise Refused(
            f"--topic {message.topic()}: holds neither ordered events nor results;"
            " for an input topic there is `inorder dump`"
        )


def _parsed(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value.decode(errors="replace")
