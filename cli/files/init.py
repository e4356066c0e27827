"""`inorder init`: a first topology file for recorded events, or for a topic, with comments.

What it proposes it has seen (`producers.recording.survey`), and the comment beside it says what:
the unit of `ts`, whether sources number their events, `max_wait` above the longest that an event
was overtaken, `idle_after` above the longest silence of a source, and `unsynced` by whether the
stamps can be right. The file is sound by `inorder check` before it is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from cli.files.foreign import (
    SAMPLE,
    SHOWN,
    file_rows,
    is_foreign,
    told,
    topic_rows,
)
from cli.kafka_options import reached, security
from cli.mapping_options import MappingOptions, mapping_options
from cli.progress import counting
from cli.recordings import Unreadable, readable
from cli.topology_file import Refused, kafka_option
from cli.value_format import ValueFormat, value_format_options
from producers.recording.audit.advice import LEAST_IDLE_NS, ROOM, stepped
from producers.recording.file import STDIN, at_rest
from producers.recording.rows import NEEDED_BY_TIME, read_rows
from producers.recording.survey import MAX_SOURCES, StreamSeen, Survey, surveyed
from topology.config import TopologyError, parse
from topology.wire.line_reader import Row

if TYPE_CHECKING:
    from cli.files.topic_rows import TopicRows

MAX_LINES: Final = 200_000
MS: Final = 1_000_000
S: Final = 1_000 * MS
LEAST_WAIT_NS: Final = 100 * MS
FAR_OFF_NS: Final = 1 * S
"""A clock that differs so much from the others is taken to be wrong."""

NAMED: Final = 3


@click.command("init")
@click.option("--brokers", metavar="HOST:PORT[,…]", help="With --topic: look at a topic instead.")
@kafka_option
@click.option("--topic", help="An input topic, read from its beginning.")
@click.option("--lines", default=MAX_LINES, show_default=True, help="At most so many are read.")
@click.option("--out", type=click.Path(dir_okay=False), help="Where to write; default: print it.")
@mapping_options
@value_format_options
@click.argument("events", required=False, metavar="[EVENTS | -]")
def command(
    brokers: str | None,
    kafka_path: str | None,
    topic: str | None,
    lines: int,
    out: str | None,
    events: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
) -> None:
    """Write a first topology file for EVENTS (any table or JSON lines), or for a topic.

    Where records are not of the header contract, it proposes where they have source, number and
    time, and says how sure it is; what --source, --seq, --ts and the like name is taken."""
    if (events is None) == (topic is None) or (topic is None) != (brokers is None):
        raise Refused("give a file of EVENTS, or --brokers and --topic")
    if out is not None and Path(out).exists():
        raise Refused(f"--out {out}: is there already; name another file")
    if mapping.values or (topic is not None and mapping.arrival):
        option = "--values" if mapping.values else "--arrival"
        raise Refused(f"{option}: is for files that are replayed; leave it out")
    mapping.refuse_zone()
    is_mapped = bool(mapping.places(on_file=topic is None) or mapping.ts_zone)
    how = HowRead()
    with readable(), ExitStack() as opened:
        rows: Iterable[Row]
        if topic is not None and brokers is not None:
            from cli.files.topic_rows import TopicRows

            found = TopicRows(reached(brokers, security(kafka_path)), topic, lines)
            if is_mapped or found.is_foreign:
                rows, how = _foreign_topic(found, topic, mapping, value_format)
            else:
                rows, how = found.rows(), HowRead(found.preset)
            how = replace(how, partitions=found.partitions)
        else:
            path = opened.enter_context(at_rest(events or STDIN))
            rows, how = _file(path, mapping, value_format, is_mapped=is_mapped)
        survey = surveyed(_counted(islice(rows, lines)), time.time_ns())
    text = written(survey, topic or events or "-", topic, how)
    try:
        parse(text)
    except TopologyError as error:
        raise Unreadable(f"what was seen makes no sound file:\n{error}") from error
    if out is None:
        click.echo(text, nl=False)
    else:
        try:
            Path(out).write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"--out {out}: {error.strerror or error}") from error
        click.echo(f"written: {out}; next: inorder check {out}", err=True)


def _file(
    path: str, options: MappingOptions, value_format: ValueFormat, *, is_mapped: bool
) -> tuple[Iterator[Row], HowRead]:
    encoding = value_format.of_file(path)
    if not is_mapped and not is_foreign(path, encoding):
        return read_rows(path, needed=NEEDED_BY_TIME), HowRead()
    mapping, rows = file_rows(path, options, encoding)
    first = list(islice(rows, SHOWN))
    told(mapping, first)
    section = {**value_format.section_of_file(), **mapping.section()}
    return chain(first, rows), HowRead(section=section, said=mapping.said)


def _counted(rows: Iterable[Row]) -> Iterator[Row]:
    import sys

    with counting("lines", sys.stderr) as advance:
        for row in rows:
            advance(1)
            yield row


# -- the file --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HowRead:
    """By which headers, or by which mapping: the keys of a stream, and what is said of each
    field. `partitions`: of the topic, where it is one."""

    preset: str = ""
    section: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 4


def _foreign_topic(
    found: TopicRows, topic: str, options: MappingOptions, value_format: ValueFormat
) -> tuple[list[Row], HowRead]:
    values = [message.value for message in found.messages]
    decode, _ = value_format.decoder(topic)
    mapping, rows, faults = topic_rows(found.messages, topic, decode, options)
    if len(faults) == min(len(values), SAMPLE):
        raise Refused(f"--topic {topic}: no value of it can be read: {faults[0].detail}")
    told(mapping, rows[:SHOWN])
    arrival = {} if found.has_append_time else {"arrival": "timestamp"}
    section = {**arrival, **value_format.section(topic), **mapping.section()}
    return rows, HowRead(section=section, said=mapping.said)


def written(survey: Survey, name: str, topic: str | None = None, how: HowRead | None = None) -> str:
    """The text; `topic`: the input, where it was one."""
    how = how or HowRead()
    if not survey.streams:
        raise Unreadable(f"{name}: no line is an event{_dead(survey)}")
    return "\n".join([*_head(survey, name), *_streams(survey, topic, how), *_queries(survey, how)])


def _dead(survey: Survey) -> str:
    if not survey.dead:
        return ""
    reason, first = survey.dead.reasons()[0]
    return f", as {reason} {first.count:,}, the first in line {first.offset}: {first.detail}"


def _head(survey: Survey, name: str) -> Iterator[str]:
    yield f"# A first file for {name}, from {survey.lines:,} lines. Comments say what was seen;"
    yield "# all keys with their defaults: inorder check --defaults, or docs/topology.md."
    dead = survey.dead.dead
    if dead:
        yield f"# Dead lines: {dead:,}{_dead(survey)}"
    if survey.clock_lines:
        yield f"# {survey.clock_lines:,} lines are words about clocks."


def _units_differ(survey: Survey) -> bool:
    """Return whether the streams cannot share a topic, so that reorder and merge share a stage."""
    return len({survey.units.get(stream, "ns") for stream in survey.streams}) > 1


def _streams(survey: Survey, topic: str | None, how: HowRead) -> Iterator[str]:
    yield "streams:"
    apart = _units_differ(survey)
    for number, (name, seen) in enumerate(sorted(survey.streams.items())):
        more = " or more" if seen.more_sources else ""
        yield f"  {_scalar(name)}:  # events: {seen.events:,}; sources: {len(seen.sources)}{more}"
        if topic is not None or apart:
            yield f"    input: {_scalar(topic or f'events.raw.{number}')}"
        unit = survey.units.get(name)
        if how.section:
            yield from _mapping(how)
        elif unit or how.preset:
            entries = [*([f"preset: {how.preset}"] if how.preset else [])]
            entries += [f"ts_unit: {unit}"] if unit else []
            yield f"    headers: {{{', '.join(entries)}}}"
        yield from _reorder(seen)
        yield from _clock(survey, seen, by_stamps="arrival" in how.section)
        yield from _merge(seen, without_heartbeats=bool(how.section))
    if apart:
        yield "# Streams with different units cannot share a topic."
        yield "stages: [reorder+merge, window, pattern, join]"


def _mapping(how: HowRead) -> Iterator[str]:
    for key, value in how.section.items():
        if key != "fields":
            yield f"    {key}: {_scalar(value)}"
    yield "    fields:"
    for name, place in how.section["fields"].items():
        said = f"  # {how.said[name]}" if name in how.said else ""
        yield f"      {name}: {_scalar(place)}{said}"


def _scalar(text: Any) -> str:
    spelled: str = yaml.safe_dump(text, default_flow_style=True, allow_unicode=True)
    return spelled.removesuffix("...\n").strip()


def max_wait_ns(seen: StreamSeen) -> int:
    longest_ns = seen.longest_behind_ns if seen.by_time else seen.longest_fill_ns
    if seen.is_mixed:
        longest_ns = max(longest_ns, seen.longest_behind_ns)
    return stepped(max(LEAST_WAIT_NS, longest_ns * ROOM))


def _reorder(seen: StreamSeen) -> Iterator[str]:
    yield "    reorder:"
    wait = _duration(max_wait_ns(seen))
    without = seen.events - seen.numbered
    if seen.by_time:
        yield f"      rule: time  # without a number: {without:,}; what is lost is not seen"
        yield f"      # older than one before them of their source: {seen.behind_in_time:,}"
        yield f"      max_wait: {wait}  # the most {_duration(seen.longest_behind_ns)}"
        return
    if seen.is_mixed:
        yield f"      without_seq: by_time  # without a number: {without:,}"
    elif without:
        yield f"      # without a number, and so dead: {without:,}"
    missing = sum(len(source.holes) for source in seen.sources.values())
    yield f"      # came after a later number: {seen.overtaken:,}; never came: {missing:,}"
    yield f"      max_wait: {wait}  # the longest took {_duration(seen.longest_fill_ns)}"


def _clock(survey: Survey, seen: StreamSeen, *, by_stamps: bool = False) -> Iterator[str]:
    yield "    clock:"
    if by_stamps:
        yield "      unsynced: trust  # the topic has no append time to judge clocks by"
        return
    if survey.clock_lines:
        yield "      unsynced: estimate  # until a source has synced"
        return
    if seen.with_arrival < seen.events:
        yield "      # `arrival` is not on every line, so nothing can be said about clocks"
        yield "      unsynced: trust"
        return
    off = wrong_clocks(seen)
    if not off:
        yield "      unsynced: trust  # all stamps can be right: none is after its arrival"
        return
    worst = sorted(off.items(), key=lambda each: -abs(each[1]))[:NAMED]
    clocks = ", ".join(f"{_scalar(name)} {_signed(ns)}" for name, ns in worst)
    more = f" and {len(off) - NAMED} more" if len(off) > NAMED else ""
    yield f"      # stamps against arrival: {clocks}{more}; time sync would measure them"
    yield "      unsynced: estimate"


def wrong_clocks(seen: StreamSeen) -> dict[str, int]:
    """By source, how far its stamps are ahead (or behind, below 0): those after their arrival, and
    those whose quickest event took far longer than the quickest of all."""
    ahead = {name: source.ahead_ns for name, source in seen.sources.items()}
    sound = [ns for ns in ahead.values() if ns <= MS]
    nearest_ns = max(sound, default=0)
    return {name: ns for name, ns in ahead.items() if ns > MS or nearest_ns - ns > FAR_OFF_NS}


def _merge(seen: StreamSeen, *, without_heartbeats: bool = False) -> Iterator[str]:
    if len(seen.sources) < 2:
        return
    wait_ns = max_wait_ns(seen)
    idle_ns = stepped(max(LEAST_IDLE_NS, 2 * wait_ns, seen.longest_silence_ns * ROOM))
    yield "    merge:"
    yield f"      max_wait: {_duration(wait_ns)}"
    yield (
        f"      idle_after: {_duration(idle_ns)}  # the longest silence was"
        f" {_duration(seen.longest_silence_ns)}, of {_scalar(seen.silent_source)}"
    )
    if without_heartbeats:
        yield f"      newcomers: {_duration(wait_ns)}  # so long a result stays open for others"
        final = _duration(idle_ns + wait_ns)
        yield f"      # no source sends heartbeats: one that is silent is waited for {final}, then"
        yield "      # results are final without it"
    if len(seen.sources) < MAX_SOURCES and len(seen.sources) <= NAMED:
        names = ", ".join(_scalar(name) for name in sorted(seen.sources))
        yield f"      # expected_sources: [{names}]  # waited for before they are first heard"


def _queries(survey: Survey, how: HowRead) -> Iterator[str]:
    yield "# queries:"
    for name, seen in sorted(survey.streams.items())[:NAMED]:
        types = ", ".join(_scalar(type_) for type_, _ in seen.types.most_common(NAMED) if type_)
        if types:
            yield f"#   types of {_scalar(name)}: {types}"
        field = next((each for each, _ in seen.numbers.most_common(1) if each.isidentifier()), "")
        value = f"avg(payload.{field})" if field else "count()"
        yield (
            f"#   q: {{stream: {_scalar(name)}, window: tumbling 10s, aggregate: {{v: {value}}}}}"
        )
    yield f"topics: {{partitions: {1 if _units_differ(survey) else how.partitions}}}"
    yield ""


def _duration(amount_ns: int) -> str:
    """As the file spells it; in thousandths of its unit where it is no whole number."""
    for unit, size in (("h", 3_600 * S), ("min", 60 * S), ("s", S), ("ms", MS)):
        if amount_ns >= size or unit == "ms":
            return f"{round(amount_ns / size, 3):g}{unit}"
    raise AssertionError(amount_ns)


def _signed(amount_ns: int) -> str:
    return f"{_duration(abs(amount_ns))} {'ahead' if amount_ns > 0 else 'behind'}"
