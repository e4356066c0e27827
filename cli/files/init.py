"""`inorder init` writes a first topology file, with comments, for recorded events or a topic.

Each proposed value comes from the data (`recordings.survey`, and an audit's counts), and a comment
gives the evidence. The file passes `inorder check` before it is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import click

from cli.files.foreign import SHOWN, file_rows, is_foreign, print_mapping, topic_rows
from cli.kafka_options import Kafka, on_kafka
from cli.mapping_options import MappingOptions, mapping_options
from cli.progress import show_count
from cli.recordings import Unreadable, readable
from cli.taken import SAMPLE
from cli.topology_file import Refused, out_option, topic_named, warn, write_new
from cli.value_format import ValueFormat, value_format_options
from inorder.contract import TimeUnit
from recordings.audit.advice import advise
from recordings.audit.counting import TooManyMachines
from recordings.audit.findings import Asked, count
from recordings.audit.judged_clocks import judge
from recordings.audit.mended import mend_rows
from recordings.audit.row import ONE_ORDER, Unread
from recordings.file import STDIN, as_seekable_file
from recordings.plausible import AsRead, Plausibility
from recordings.proposal import (
    FILE_PARTITIONS,
    NAMED,
    WINDOW_NS,
    StreamProposal,
    notes_of,
    queries_of,
    to_yaml_scalar,
    topology_text,
)
from recordings.rows import NEEDED_BY_TIME, read_rows
from recordings.survey import StreamSeen, Survey, survey_rows
from topology.base.paths import format_path, parse_payload_path
from topology.config import TopologyError, parse
from topology.records.checker import Reading
from topology.records.line_reader import Row

if TYPE_CHECKING:
    from cli.files.topic_rows import TopicRows

MAX_LINES: Final = 200_000
FEW: Final = 100
"""Below as many records, waits that are learned from them mean little."""

ONE_WINDOW_NS: Final = 1 << 62
"""Length of a window that contains all records, because `init` does not count wrong windows."""


@click.command("init")
@on_kafka(required=False)
@topic_named()
@out_option
@mapping_options
@value_format_options
@click.argument("events", required=False, metavar="[EVENTS | -]")
def command(
    kafka: Kafka,
    topic: str | None,
    out: str | None,
    events: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
) -> None:
    """Write a first topology file for EVENTS (any table or JSON lines) or for a topic.

    It reads at most the first 200,000 records. For records without the standard headers it
    proposes the places of source, number and time, and reports how certain it is. Options such
    as --source override a proposal.
    """
    if (events is None) == (topic is None) or (topic is not None and not kafka.servers):
        raise Refused("name a file of EVENTS, or give --brokers and --topic")
    if mapping.values or (topic is not None and mapping.arrival):
        option = "--values" if mapping.values else "--arrival"
        raise Refused(f"{option}: is for files that are replayed; leave it out")
    if topic is not None:
        mapping.refuse_layout()
    is_mapped = bool(mapping.places(on_file=topic is None) or mapping.ts_zone)
    how = HowRead()
    with readable(), ExitStack() as opened:
        rows: Iterable[Row]
        if topic is not None:
            from cli.files.topic_rows import TopicRows

            found = TopicRows(kafka.brokers(), topic, MAX_LINES)
            if is_mapped or found.is_foreign:
                rows, how = _read_foreign_topic(found, topic, mapping, value_format)
            else:
                rows, how = found.rows(), HowRead(found.preset)
            how = replace(how, partitions=found.partitions)
        else:
            path = opened.enter_context(as_seekable_file(events or STDIN))
            rows, how = _read_file(path, mapping, value_format, is_mapped=is_mapped)
        now_ns = time.time_ns()
        has_ids = "id" in how.section.get("fields", {})
        survey = survey_rows(_count(islice(rows, MAX_LINES)), now_ns, has_ids=has_ids)
    if how.ts_unit is not None:
        plausibility = Plausibility(AsRead(Reading(), how.ts_unit, option=True), now_ns)
        for row in chain.from_iterable(seen.rows[:SAMPLE] for seen in survey.streams.values()):
            plausibility.count_line(row)
        for word in plausibility.warnings():
            warn(word)
    text = write(survey, topic or events or "-", topic, how)
    try:
        parse(text)
    except TopologyError as error:
        raise Unreadable(f"the records do not yield a valid topology file:\n{error}") from error
    if out is None:
        click.echo(text, nl=False)
    else:
        write_new("--out", out, text)
        click.echo(f"written: {out}; next: inorder check {out}", err=True)


def _read_file(
    path: str, options: MappingOptions, value_format: ValueFormat, *, is_mapped: bool
) -> tuple[Iterator[Row], HowRead]:
    encoding = value_format.encoding_for_file(path)
    if not is_mapped and not is_foreign(path, encoding, options.layout()):
        return read_rows(path, needed=NEEDED_BY_TIME, layout=options.layout()), HowRead()
    mapping, rows = file_rows(path, options, encoding)
    first = list(islice(rows, SHOWN))
    print_mapping(mapping, first)
    section = {**value_format.section_of_file(), **mapping.section()}
    return chain(first, rows), HowRead("", section, mapping.said, mapping.ts_unit)


def _count(rows: Iterable[Row]) -> Iterator[Row]:
    with show_count("lines") as advance:
        for row in rows:
            advance(1)
            yield row


# -- the file --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HowRead:
    """How records are read: by a preset's headers, or by the mapping in a stream's section.

    Attributes:
        section: Keys of the stream, if a mapping is proposed.
        said: Evidence for each field of the mapping.
        ts_unit: The unit of the numbers that the mapping has converted to times, if there are such.
        partitions: The number of partitions of the input topic, or the default for a file.
    """

    preset: str = ""
    section: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    ts_unit: TimeUnit | None = None
    partitions: int = FILE_PARTITIONS


def _read_foreign_topic(
    found: TopicRows, topic: str, options: MappingOptions, value_format: ValueFormat
) -> tuple[list[Row], HowRead]:
    decode, _ = value_format.decoder(topic)
    mapping, rows, faults = topic_rows(found.records, topic, decode, options)
    if len(faults) == min(len(found.records), SAMPLE):
        raise Refused(f"--topic {topic}: none of its values can be read: {faults[0].detail}")
    print_mapping(mapping, rows[:SHOWN])
    arrival = {} if found.has_append_time else {"arrival": "timestamp"}
    section = {**arrival, **value_format.section(topic), **mapping.section()}
    return rows, HowRead("", section, mapping.said, mapping.ts_unit)


def write(survey: Survey, name: str, topic: str | None, how: HowRead) -> str:
    """Return the text of the topology file; `topic` is the input topic, or None for a file."""
    if not survey.streams:
        raise Unreadable(f"{name}: no line is an event{_describe_dead(survey)}")
    apart = len({survey.units.get(stream, "ns") for stream in survey.streams}) > 1
    streams = {}
    for number, (stream, seen) in enumerate(sorted(survey.streams.items())):
        section: dict[str, Any] = {}
        if topic is not None or apart:
            section["input"] = topic or f"events.raw.{number}"
        unit = survey.units.get(stream)
        headers = {"preset": how.preset} if how.preset else {}
        headers |= {"ts_unit": unit} if unit else {}
        if headers and not how.section:
            section["headers"] = headers
        streams[stream] = _propose(survey, seen, section, how)
    partitions = 1 if apart else how.partitions
    text = topology_text(streams, _queries(survey, _list_mapped(how)), partitions, apart=apart)
    return "\n".join([*_format_head(survey, name), text])


def _describe_dead(survey: Survey) -> str:
    if not survey.dead.dead:
        return ""
    reason, first = survey.dead.reasons()[0]
    return f", as {reason} {first.count:,}, the first in line {first.offset}: {first.detail}"


def _format_head(survey: Survey, name: str) -> Iterator[str]:
    yield f"# A first file for {name}, from {survey.lines:,} lines. Comments say what was seen;"
    yield "# all keys with their defaults: inorder check --defaults, or docs/reference/topology.md."
    if survey.lines < FEW:
        yield "# That is few: the waits below fit these lines alone. Give it an hour of your data."
    dead = survey.dead.dead
    if dead:
        yield f"# Dead lines: {dead:,}{_describe_dead(survey)}"
    if survey.clock_lines:
        yield f"# {survey.clock_lines:,} lines are about clocks."


def _propose(
    survey: Survey, seen: StreamSeen, section: dict[str, Any], how: HowRead
) -> StreamProposal:
    arrives = seen.arrives and "arrival" not in how.section
    rows = seen.rows if arrives else [row._replace(arrival_ns=None) for row in seen.rows]
    asked, unread = Asked(ONE_WINDOW_NS, (), ONE_ORDER, arrives), Unread()
    try:
        with count(rows, asked, unread) as (_, counting, spool):
            machines = [*counting.machines.values()]
            clocks = judge(machines)
            corrected = mend_rows(spool, machines, clocks, ONE_WINDOW_NS)
    except TooManyMachines:
        raise Refused(
            "--source: nearly every record has a different value; name another field"
        ) from None
    advice, notes = advise(counting, clocks, corrected), notes_of(counting, clocks)
    if survey.clock_lines:
        advice = replace(advice, wrong_clocks=1)
        notes["clock.unsynced"] = "until a source has synced"
    if unread.count:
        notes[""] += f"; dead, as only some records of their source have numbers: {unread.count:,}"
    return StreamProposal(
        *(advice, {**section, **how.section}, how.said, notes), has_heartbeats=not how.section
    )


def _queries(survey: Survey, mapped: frozenset[str]) -> Iterator[str]:
    if len(survey.streams) == 1:
        yield from queries_of(WINDOW_NS)
    yield "# queries:"
    for name, seen in sorted(survey.streams.items())[:NAMED]:
        types = ", ".join(
            to_yaml_scalar(type_) for type_, _ in seen.types.most_common(NAMED) if type_
        )
        if types:
            yield f"#   types of {to_yaml_scalar(name)}: {types}"
        numbers = (each for each, _ in seen.numbers.most_common() if each not in mapped)
        field = next(numbers, None)
        value = "count()" if field is None else f"avg({format_path(('payload', field))})"
        aggregate = to_yaml_scalar({"v": value})
        stream = to_yaml_scalar(name)
        yield f"#   q: {{stream: {stream}, window: tumbling 10s, aggregate: {aggregate}}}"


def _list_mapped(how: HowRead) -> frozenset[str]:
    """Return the fields of a payload that the mapping names: of the source, number, time and so on.

    Their values identify records, so no query aggregates them.
    """
    places = (parse_payload_path(str(place)) for place in how.section.get("fields", {}).values())
    return frozenset(path[1] for path in places if path is not None and len(path) > 1)
