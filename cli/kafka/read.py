"""`inorder read` prints a topic that a worker wrote, as the lines that `replay` would print.

The events of ordered topics are printed as lines of kind `event`, without watermarks. Those of the
topic of late events are lines of kind `late` with their payload. Records whose values are JSON with
a `kind` are printed too: results, gaps, dead letters. Only committed records
are read, from the beginning, each partition in its order. A stream is in one partition, so its
order is preserved. The command joins no group and commits nothing, so any number of them can run.
Use `inorder dump` for an input topic.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Any, Final

import click
import orjson
from aiokafka.errors import KafkaError

from agents.kafka.brokers import Brokers
from agents.kafka.whole_topic import NoTopic, records_of
from cli.kafka_options import Kafka, on_kafka
from cli.topology_file import Refused, follow_option, load, topic_named, topology_named
from inorder.contract import retraction_line
from topology.base.event import DATA, NO_EPOCH, Event
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader
from topology.records.json_lines import encode_line, make_event_line

NS_PER_MS: Final = 1_000_000


@click.command("read")
@on_kafka()
@topic_named(required=True)
@topology_named(envvar="INORDER_READ_TOPOLOGY")
@follow_option
@click.option("--count", type=click.IntRange(min=1), help="Stop after this number of lines.")
def command(
    kafka: Kafka, topic: str, topology_path: str | None, follow: bool, count: int | None
) -> None:
    """Print a topic of a worker as JSON lines, up to its current end or continuously.

    --topology gives the names of headers if they differ.
    """
    headers = _find_headers(topic, topology_path)
    try:
        asyncio.run(_print(kafka.brokers(), topic, headers, follow, count))
    except NoTopic as error:
        raise Refused(
            f"--topic {topic}: {kafka.servers} has no such topic; `inorder check` lists those"
            " of a topology, and `inorder topics create` creates them"
        ) from error
    except (KafkaError, TimeoutError) as error:
        raise click.ClickException(f"{topic}: {error}") from error
    except KeyboardInterrupt:
        pass


def _find_headers(topic: str, topology_path: str | None) -> HeaderConfig:
    if topology_path is None:
        return HeaderConfig()
    streams = load(topology_path).streams.values()
    return next((s.headers for s in streams if s.output == topic), HeaderConfig())


async def _print(
    brokers: Brokers, topic: str, headers: HeaderConfig, follow: bool, count: int | None
) -> None:
    reader, number = HeaderReader(headers), 0
    async with aclosing(records_of(brokers, topic, follow=follow)) as records:
        async for record in records:
            line = _to_line(record, reader)
            if line is None:
                continue
            sys.stdout.buffer.write(encode_line(line, orjson.OPT_APPEND_NEWLINE))
            sys.stdout.buffer.flush()
            number += 1
            if number == count:
                return


def _to_line(record: Any, reader: HeaderReader) -> dict[str, Any] | None:
    """Return the record as a line; None for a control record."""
    value = record.value
    if record.headers and record.headers[-1][0] == "reason":
        return _to_late_line(record, reader)
    if any(name == "refTs" for name, _ in record.headers):
        arrival_ns = record.timestamp * NS_PER_MS
        event = reader.read_ordered(record.headers, arrival_ns, 0, None, value)
        if not isinstance(event, Event) or event.kind != DATA:
            return None
        event.value = _parse(value)
        return make_event_line(event)
    if value is None:
        return retraction_line(record.key, record.headers)
    line = _parse(value)
    if not isinstance(line, dict) or "kind" not in line:
        raise Refused(
            f"--topic {record.topic}: has neither ordered events nor results;"
            " for an input topic use `inorder dump`"
        )
    return line


def _to_late_line(record: Any, reader: HeaderReader) -> dict[str, Any]:
    """Return the line of a late event, which is its input record with a reason at the end.

    Fields that the headers lack are null, as with a stream that has its `fields` in the value.
    """
    *headers, (_, reason) = record.headers
    stamp_ns = record.timestamp * NS_PER_MS
    event = reader.read(headers, stamp_ns, stamp_ns, record.offset, None, record.value)
    return {
        "kind": "late",
        "stream": event.stream,
        "source": event.source,
        "epoch": None if event.epoch == NO_EPOCH else event.epoch,
        "seq": event.seq,
        "reason": reason.decode(),
        "ts": event.ts_ns if isinstance(event, Event) else None,
        "payload": _parse(record.value),
    }


def _parse(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value.decode(errors="replace")
