"""`inorder read` prints a topic that a worker wrote, as the lines that `replay` would print.

The events of ordered topics are printed as lines of kind `event`, without watermarks. Records whose
values are JSON with a `kind` are printed too: results, gaps, dead letters. The lines of late events
differ: they have the payload, and no `by`, `at` and `line`.

Only committed records are read, from the beginning, each partition in its order. A stream is in one
partition, so its order is preserved. The command joins no group and commits nothing, so any number
of them can run. Use `inorder dump` for an input topic.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from contextlib import aclosing
from typing import Any, Final

import click
import orjson
from aiokafka.errors import KafkaError

from agents.kafka.brokers import Brokers
from agents.kafka.whole_topic import NoTopic, records_of
from cli.kafka_options import Kafka, on_kafka
from cli.topology_file import Refused, follow_option, load, topic_named, topology_named
from inorder.contract import HeaderNames, retraction_line
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.late import CAUSES
from topology.config import HeaderConfig
from topology.records.header_reader import HeaderReader
from topology.records.json_lines import encode_line, make_event_line

NS_PER_MS: Final = 1_000_000
REF_TS: Final = "refTs"
REASONS: Final = {name.encode(): name for name in CAUSES}
"""The last header of a late event's record; a producer may write other reasons."""


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
    reader = RecordReader(_find_headers(topic, topology_path))
    try:
        asyncio.run(_print(kafka.brokers(), topic, reader, follow, count))
    except NoTopic as error:
        raise Refused(
            f"--topic {topic}: {kafka.servers} has no such topic; `inorder check` lists those"
            " of a topology, and `inorder topics create` creates them"
        ) from error
    except (KafkaError, TimeoutError) as error:
        raise click.ClickException(f"{topic}: {error}") from error
    except KeyboardInterrupt:
        pass


def _find_headers(topic: str, topology_path: str | None) -> list[HeaderConfig]:
    """Return the headers that the topic's records may have; late events are of all streams."""
    if topology_path is None:
        return []
    topology = load(topology_path)
    return [
        stream.headers
        for stream in topology.streams.values()
        if topic in (stream.output, topology.topics.late)
    ]


async def _print(
    brokers: Brokers, topic: str, reader: RecordReader, follow: bool, count: int | None
) -> None:
    number = 0
    async with aclosing(records_of(brokers, topic, follow=follow)) as records:
        async for record in records:
            line = reader.to_line(record)
            if line is None:
                continue
            sys.stdout.buffer.write(encode_line(line, orjson.OPT_APPEND_NEWLINE))
            sys.stdout.buffer.flush()
            number += 1
            if number == count:
                return


class RecordReader:
    """Makes lines of records whose headers have the names of one of the configurations."""

    def __init__(self, headers: Sequence[HeaderConfig]) -> None:
        self._readers = {each.names(): HeaderReader(each) for each in headers or [HeaderConfig()]}

    def to_line(self, record: Any) -> dict[str, Any] | None:
        """Return the record as a line; None for a control record."""
        value = record.value
        if record.headers and record.headers[-1][0] == "reason":
            reason = REASONS.get(record.headers[-1][1])
            if reason is not None:
                return self._to_late_line(record, reason)
        if any(name == REF_TS for name, _ in record.headers):
            _, reader = self._choose({name for name, _ in record.headers})
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

    def _to_late_line(self, record: Any, reason: str) -> dict[str, Any]:
        """Return the line of a late event, which is its input record with a reason at the end.

        Fields that the headers lack are null, as with a stream that has its `fields` in the value.
        """
        headers = record.headers[:-1]
        found = {name for name, _ in headers}
        names, reader = self._choose(found)
        stamp_ns = record.timestamp * NS_PER_MS
        event = reader.read(headers, stamp_ns, stamp_ns, record.offset, None, record.value)
        # A stage that read the record before has settled the epoch; it leaves the first one out.
        first = 0 if REF_TS in found else None
        return {
            "kind": "late",
            "stream": event.stream if names.stream in found else None,
            "source": event.source,
            "epoch": first if event.epoch in (None, NO_EPOCH) else event.epoch,
            "seq": event.seq,
            "reason": reason,
            "ts": event.ts_ns if isinstance(event, Event) else None,
            "payload": _parse(record.value),
        }

    def _choose(self, found: Collection[str]) -> tuple[HeaderNames, HeaderReader]:
        """Return the reader of records with these headers, or the first one."""
        readers = self._readers.items()
        return next((each for each in readers if each[0].source in found), next(iter(readers)))


def _parse(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value.decode(errors="replace")
