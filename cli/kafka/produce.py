"""`inorder produce` publishes recorded events, or the rows of any file, in file order.

Events get the headers of the contract. The rows of other files are published unchanged, without
headers. A file is read as `inorder replay` reads it, by the options or by the topology's `fields`.

If rows are left out, the exit code is 3 (`UNREADABLE`) although all others are published: the
topic then lacks a part of the file. With --skip-bad that is intended, and the code is 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from agents.exits import Exit
from cli.as_json import json_option
from cli.kafka_options import Kafka, on_kafka
from cli.mapping_options import MappingOptions, mapping_options, reading_alone
from cli.progress import counting
from cli.recordings import readable
from cli.signing import signing_key
from cli.topology_file import Refused, failing, load, refusing, topic_named, topology_named
from cli.value_format import ValueFormat, value_format_options
from inorder import rfc3339
from inorder.failure import ProducerError
from producers.recorded import Malformed
from producers.replayer import Replayer, ReplayPace
from recordings.lines import lines_of
from recordings.rows import NEEDED, NEEDED_BY_TIME, read_rows
from recordings.values import FileMapping, mapped_rows
from topology.config import Topology
from topology.model.event import Event
from topology.model.outcome import Malformed as Dead
from topology.wire.line_reader import Row

MAX_REPORTED: Final = 20
"""The maximum number of malformed rows that are reported one by one."""


@click.command("produce")
@on_kafka()
@topic_named(required=True)
@click.option("--rate", type=float, help="Events per second.")
@click.option("--speed", type=float, help="Multiple of the recorded speed.")
@topology_named(envvar="INORDER_PRODUCE_TOPOLOGY")
@mapping_options
@value_format_options
@click.option(
    "--skip-bad",
    is_flag=True,
    help="Exit with 0 even if rows are left out.",
)
@json_option("PRODUCE")
@click.argument("events", default="-", metavar="[EVENTS | -]")
def command(
    kafka: Kafka,
    topic: str,
    rate: float | None,
    speed: float | None,
    topology_path: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
    skip_bad: bool,
    as_json: bool,
    events: str,
) -> None:
    """Publish recorded EVENTS, by default at full speed.

    With --source, or by the `fields` of the topology file, the rows of any file are published
    as they are, without headers. The file also gives the names of headers, the key, and the
    sources without numbers.
    """
    with refusing(ValueError):
        pace = ReplayPace(rate, speed)
    left_out = LeftOut()
    topology = None if topology_path is None else load(topology_path)
    keying = _keying(topic, topology, topology_path)
    options = mapping.implied(topology, events, value_format)
    values = options.on_file(topology, events, value_format)
    access = kafka.access
    key = signing_key()
    with failing(ProducerError):
        # The producer would wait for an absent topic with each record.
        if not kafka.brokers().partitions([topic])[topic]:
            raise Refused(
                kafka.why_hidden(topic)
                or f"{kafka.servers} has no topic {topic}; create it first (`inorder topics create`"
                " creates those of a topology)"
            )
        replayer = Replayer(
            kafka.servers,
            topic,
            pace=pace,
            on_malformed=left_out.refused,
            settings=access.librdkafka(),
            signing_key=key,
            writes_headers=values is None,
            **keying,
        )
        with readable(), counting("published") as advance:
            if values is None:
                needed = NEEDED_BY_TIME if keying.get("unnumbered") else NEEDED
                rows = read_rows(events, needed=needed, layout=mapping.layout())
                in_ns = "headers" not in keying or keying["headers"].ts_unit == "ns"
                done = replayer.publish(sound(rows, advance, left_out, in_ns))
            else:
                done = replayer.publish(mapped(events, values, topology, advance, left_out))
    for line in left_out.sentences():
        click.echo(line, err=True)
    if as_json:
        summary = {
            "published": done.delivered,
            "seconds": round(done.seconds, 3),
            "malformed": left_out.count,
            "clock": done.clock,
        }
        click.echo(json.dumps(summary), err=True)
    else:
        click.echo(
            f"published {done.delivered} records in {done.seconds:.1f} s"
            f" ({left_out.count} malformed rows and {done.clock} clock rows left out)",
            err=True,
        )
    if left_out.count and not skip_bad:
        raise SystemExit(Exit.UNREADABLE)


def _keying(topic: str, topology: Topology | None, topology_path: str | None) -> dict[str, Any]:
    """Return the topology's settings for the replayer: keys, headers and unnumbered streams."""
    if topology is None:
        return {}
    streams = {name: each for name, each in topology.streams.items() if each.input == topic}
    if not streams:
        raise Refused(f"--topic {topic}: no stream of {topology_path} reads it")
    return {
        "key_by": "stream" if topology.fused else "source",
        "headers": next(iter(streams.values())).headers,
        "unnumbered": frozenset(
            name for name, s in streams.items() if s.reorder.is_mixed or not s.reorder.numbered
        ),
        "unnamed": topology.unnamed_stream,
    }


class LeftOut:
    """A collector of malformed rows, which counts all and reports the first `MAX_REPORTED`."""

    def __init__(self) -> None:
        self.count = 0
        self.row = 0  # The number in the file of the row that is being published.
        self._first: list[Malformed] = []

    def add(self, row: Malformed) -> None:
        self.count += 1
        if len(self._first) < MAX_REPORTED:
            self._first.append(row)

    def refused(self, row: Malformed) -> None:
        """Add a row that the replayer refused, under its number in the file.

        The replayer counts only the rows that it was given.
        """
        self.add(replace(row, row=self.row))

    def sentences(self) -> list[str]:
        lines = [f"row {row.row}: {row.reason}: {row.detail}" for row in self._first]
        if self.count > len(self._first):
            lines.append(f"and {self.count - len(self._first)} more")
        return lines


def sound(
    rows: Iterable[Row], advance: Callable[[int], None], left_out: LeftOut, in_ns: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that could be read, and add the others to `left_out`.

    `in_ns` states that the replayer takes a number in `ts` as nanoseconds.
    """
    for row in rows:
        advance(1)
        left_out.row = row.number
        if row.fault is None and row.ts_is_instant and not in_ns and "ts" in row.values:
            yield {**row.values, "ts": rfc3339.spelled(row.values["ts"])}
        elif row.fault is None:
            yield row.values
        else:
            left_out.add(Malformed(row.number, row.fault.reason, row.fault.detail))


def mapped(
    events: str,
    values: FileMapping,
    topology: Topology | None,
    advance: Callable[[int], None],
    left_out: LeftOut,
) -> Iterator[Event]:
    """Yield an event for each row of a file, with source, number, time and the row's own bytes."""
    reading = reading_alone(values) if topology is None else topology.reading()
    for content in lines_of(mapped_rows(events, values, reading, in_bytes=True), reading):
        advance(1)
        left_out.row = content.offset
        if isinstance(content, Event):
            yield content
        elif isinstance(content, Dead):
            left_out.add(Malformed(content.offset, content.reason, content.detail))
