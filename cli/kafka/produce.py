"""`inorder produce` publishes recorded events, or the rows of any file, in file order.

Events get the headers of the contract. The rows of other files are published unchanged, without
headers. A file is read as `inorder replay` reads it, by the options or by the topology's `fields`.

If rows are left out, the exit code is 3 (`UNREADABLE`) although all others are published: the
topic then lacks a part of the file. With --skip-bad that is intended, and the code is 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agents.exits import Exit
from cli.as_json import json_option
from cli.kafka.as_now import NS_PER_S, Shift, extent_of, shift_of, step_of
from cli.kafka_options import Kafka, on_kafka
from cli.mapping_options import MappingOptions, mapping_options, reading_of_mapping
from cli.progress import show_count
from cli.recordings import readable
from cli.signing import signing_key
from cli.topology_file import Refused, failing, load, refusing, topic_named, topology_named
from cli.value_format import ValueFormat, value_format_options
from inorder import rfc3339
from inorder.failure import ProducerError
from inorder.playback import describe_staleness
from producers.recorded import Malformed
from producers.replayer import Replayer, ReplayPace
from recordings.audit.verdicts import format_short
from recordings.lines import contents_of
from recordings.rows import NEEDED, NEEDED_BY_TIME, read_rows
from recordings.values import FileMapping
from topology.base.event import Event
from topology.base.outcome import Malformed as Dead
from topology.config import Topology
from topology.records.line_reader import Content, Row

if TYPE_CHECKING:
    from agents.kafka.brokers import Brokers

FINE_STEP_NS: Final = NS_PER_S
"""The step of a shift where arrivals are those of the broker."""

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
    "--as-now",
    is_flag=True,
    help="Shift stamps and arrivals so that the last record is now; on `inorder dev` at any"
    " speed, elsewhere with --speed 1.",
)
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
    as_now: bool,
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
    keying = _find_settings(topic, topology, topology_path)
    options = mapping.with_implied_values(topology, events, value_format)
    values = options.find_file_mapping(topology, events, value_format)
    if as_now and values is not None and (form := values.fields.ts_format):
        raise Refused(f"--as-now: cannot move times in the form {form}; leave it out")
    access = kafka.access
    key = signing_key()
    with failing(ProducerError):
        brokers = kafka.brokers()
        # The producer would wait for an absent topic with each record.
        if not brokers.count_partitions([topic])[topic]:
            raise Refused(
                kafka.why_hidden(topic)
                or f"{kafka.servers} has no topic {topic}; create it first (`inorder topics create`"
                " creates those of a topology)"
            )
        replayer = Replayer(
            kafka.servers,
            topic,
            pace=pace,
            on_malformed=left_out.refuse,
            settings=access.to_librdkafka(),
            signing_key=key,
            writes_headers=values is None,
            keeps_arrivals=as_now and brokers.is_embedded,
            **keying,
        )
        reading = reading_of_mapping(values) if topology is None else topology.reading()
        in_ns = "headers" not in keying or keying["headers"].ts_unit == "ns"
        contents = partial(contents_of, events, values, reading, mapping.layout(), in_bytes=True)
        with readable(), show_count("published") as advance:
            if as_now:
                shift = _find_shift(events, contents(), values, topology, pace, brokers)
                done = replayer.publish(shift_rows(contents(), shift, advance, left_out, in_ns))
            elif values is None:
                needed = NEEDED_BY_TIME if keying.get("unnumbered") else NEEDED
                rows = read_rows(events, needed=needed, layout=mapping.layout())
                done = replayer.publish(select_sound(rows, advance, left_out, in_ns))
            else:
                done = replayer.publish(map_contents(contents(), advance, left_out))
    if not as_now and (stale := describe_staleness(done.newest_ns, time.time_ns())):
        click.echo(f"WARNING: {stale}", err=True)
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


def _find_settings(
    topic: str, topology: Topology | None, topology_path: str | None
) -> dict[str, Any]:
    """Return the topology's settings for the replayer: keys, headers and unnumbered streams."""
    if topology is None:
        return {}
    streams = {name: each for name, each in topology.streams.items() if each.input == topic}
    if not streams:
        raise Refused(f"--topic {topic}: no stream of {topology_path} reads it")
    return {
        "key_by": "stream" if _is_by_stream(topology) else "source",
        "headers": next(iter(streams.values())).headers,
        "unnumbered": frozenset(
            name for name, s in streams.items() if s.reorder.is_mixed or not s.reorder.numbered
        ),
        "unnamed": topology.unnamed_stream,
    }


def _is_by_stream(topology: Topology) -> bool:
    """Return whether all events of a stream must go to the same partition of its input.

    They must if `keyed_by` says so, and they do anyhow if the input has one partition.
    """
    keyed = {stream.keyed_by for stream in topology.streams.values()}
    return topology.fused and (keyed == {"stream"} or topology.topics.partitions == 1)


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

    def refuse(self, row: Malformed) -> None:
        """Add a row that the replayer refused, under its number in the file.

        The replayer counts only the rows that it was given.
        """
        self.add(replace(row, row=self.row))

    def sentences(self) -> list[str]:
        lines = [f"row {row.row}: {row.reason}: {row.detail}" for row in self._first]
        if self.count > len(self._first):
            lines.append(f"and {self.count - len(self._first)} more")
        return lines


def select_sound(
    rows: Iterable[Row], advance: Callable[[int], None], left_out: LeftOut, in_ns: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that could be read, and add the others to `left_out`.

    `in_ns` states that the replayer takes a number in `ts` as nanoseconds.
    """
    for row in rows:
        advance(1)
        left_out.row = row.number
        if row.fault is None and row.ts_is_instant and not in_ns and "ts" in row.values:
            yield {**row.values, "ts": rfc3339.format_ns(row.values["ts"])}
        elif row.fault is None:
            yield row.values
        else:
            left_out.add(Malformed(row.number, row.fault.reason, row.fault.detail))


def map_contents(
    contents: Iterable[Content], advance: Callable[[int], None], left_out: LeftOut
) -> Iterator[Event | Mapping[str, Any]]:
    """Yield the events and clock rows of a file, and add what cannot be read to `left_out`."""
    for content in contents:
        advance(1)
        left_out.row = content.offset
        if isinstance(content, Event):
            yield content
        elif isinstance(content, Dead):
            left_out.add(Malformed(content.offset, content.reason, content.detail))
        else:
            yield {"clock": content.source}


def shift_rows(
    contents: Iterable[Content],
    shift: Shift,
    advance: Callable[[int], None],
    left_out: LeftOut,
    in_ns: bool,
) -> Iterator[Event | Mapping[str, Any]]:
    """Yield the events of a file with their times moved, and its clock rows."""
    for event in map_contents(contents, advance, left_out):
        if not isinstance(event, Event):
            yield event
        else:
            yield shift.row(event, in_ns=in_ns) if shift.values is None else shift.event(event)


def _find_shift(
    events: str,
    contents: Iterable[Content],
    values: FileMapping | None,
    topology: Topology | None,
    pace: ReplayPace,
    brokers: Brokers,
) -> Shift:
    """Return the shift of a file to the present, and say by how much it is moved."""
    if not Path(events).is_file():
        raise Refused("--as-now reads EVENTS twice: name a file")
    encoding = None if values is None else values.encoding
    if encoding is not None and encoding.decode is not None:
        raise Refused(
            f"--as-now: the times of {encoding.format} values cannot be rewritten; publish"
            " JSON lines, CSV, Parquet or an Avro file"
        )
    extent = extent_of(contents)
    if extent is None:
        return Shift(0, values)
    step_ns = step_of(topology) if brokers.is_embedded else FINE_STEP_NS
    by_ns = shift_of(extent, time.time_ns(), pace, step_ns)
    click.echo(f"all times are shifted by {format_short(abs(by_ns))}", err=True)
    if not brokers.is_embedded and pace.speed != 1:
        click.echo(
            f"WARNING: {brokers.servers} sets arrival times itself (LogAppendTime), so clocks and"
            " waits are not those of the recording; use --speed 1, or `inorder dev`",
            err=True,
        )
    return Shift(by_ns, values)
