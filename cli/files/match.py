"""`inorder match` runs pattern queries on recorded events, in the pattern engine alone.

There is no REORDER and no MERGE before the engine: events enter it as they arrive. A line's `ts` is
the corrected timestamp, and its `error` is the time error. The engine corrects results that it has
emitted.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from cli.as_json import json_option
from cli.durations import duration_ns
from cli.files.replay import NEWLINE, warn_without_time
from cli.mapping_options import MappingOptions, mapping_options, reading_of_mapping
from cli.printable import escape_unprintable
from cli.progress import show_count
from cli.recordings import readable
from cli.topology_file import Refused, refusing, warn
from cli.value_format import ValueFormat, value_format_options
from inorder.contract import DEFAULT_STREAM, MAX_INT64
from recordings.plausible import Plausibility, warn_of_units
from recordings.rows import read_rows
from topology.base.event import DATA, NO_EPOCH, Event
from topology.base.late import BELOW_FRONTIER
from topology.base.outcome import Duplicate, Late, Malformed, Step, make_dead_letter
from topology.base.result import RETRACT
from topology.queries.pattern.compile.scope import Environment
from topology.queries.pattern.language.check import check
from topology.queries.pattern.language.parse import parse
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.run import admit
from topology.queries.pattern.run.engine import MAX_RETAINED, Engine
from topology.queries.pattern.sql.parse import parse_sql
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.tree.chained_queries import find_chain_errors
from topology.queries.pattern.tree.errors import QueryRefused
from topology.records import json_lines
from topology.records.json_lines import JsonObject
from topology.records.line_reader import Content, LineReader
from topology.spelling.values import NS_PER, in_unit
from topology.stage.batches import BATCH
from topology.stage.unmet import Unmet, pattern_requirements

if TYPE_CHECKING:
    from recordings.values import FileMapping

LENGTH: Final = partial(in_unit, unit_sizes=NS_PER, example="500ms")
LINES: Final = ("match", "overflow", "late", "duplicate", "dead")
SETS: Final = "match_set"
"""Kind of a line with a set of matches; the summary counts it only if there are any."""

DEAD: Final = {
    admit.UNSURE: (
        "error_too_large",
        "`error` is {error_ns} ns, beyond --max-error (one hour, if it is not set)",
    ),
    admit.REFUSED: (
        "retention_full",
        "the number of events kept is at --max-retained; raise it, or shorten WITHIN",
    ),
    admit.FAR: (
        "time_huge",
        f"its time is beyond {admit.FARTHEST_NS} ns from 1970; write nanoseconds",
    ),
}
"""Reason and detail of the dead letter, for each answer of the engine that causes one."""

MATCHES: Final = frozenset({"match", SETS})


@click.command("match")
@click.option(
    "--query", metavar="FILE|TEXT", help="One or several patterns, with `;` between them."
)
@click.option("--sql", metavar="FILE|TEXT", help="A MATCH_RECOGNIZE instead of --query.")
@click.option("--default-within", metavar="LENGTH", help="Time limit for --sql without WITHIN.")
@click.option("--correct", is_flag=True, help="Accept every late event until the input ends.")
@click.option(
    "--final-only", is_flag=True, help="Print the current matches at the end, sorted by id."
)
@click.option("--expand", is_flag=True, help="Print sets of matches (AS SETS) as single matches.")
@click.option("--param", multiple=True, metavar="NAME=VALUE", help="Value for $NAME in the query.")
@click.option(
    "--max-retained",
    type=click.IntRange(min=1),
    default=MAX_RETAINED,
    help="Most events to keep; further events are dead letters.",
)
@click.option(
    "--max-error",
    metavar="LENGTH",
    help="Largest time error, such as 20ms; events with a larger one are dead letters.",
)
@mapping_options
@value_format_options
@json_option("MATCH")
@click.argument("events", default="-", metavar="[EVENTS | -]")
def command(
    query: str | None,
    sql: str | None,
    default_within: str | None,
    correct: bool,
    final_only: bool,
    expand: bool,
    param: tuple[str, ...],
    max_retained: int,
    max_error: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
    as_json: bool,
    events: str,
) -> None:
    """Find patterns in the recorded EVENTS (JSON lines or array, CSV, Parquet, also .gz)."""
    values = dict(_parse_param(each) for each in param)
    if (query is None) == (sql is None):
        raise Refused("give the patterns by --query, or one MATCH_RECOGNIZE by --sql")
    if query is not None:
        queries = compile_queries(query, values, expand=expand)
    else:
        queries = compile_sql(sql or "", default_within)
    engine = Engine(
        queries,
        DEFAULT_STREAM,
        max_retained=max_retained,
        max_error_ns=_length_ns("--max-error", max_error),
    )
    if mapping.id:
        raise Refused("--id has no effect, because match looks for no copies; leave it out")
    any_file = mapping.find_file_mapping(None, events, value_format)
    if any_file is not None:
        warn_without_time(mapping, any_file, events)
    asked = {each.name: pattern_requirements(each.query, DEFAULT_STREAM) for each in queries}
    unmet = Unmet(asked, [DEFAULT_STREAM])
    found: set[str] = set()
    counts: Counter[str] = Counter()
    out = sys.stdout.buffer
    current: dict[str, JsonObject] = {}
    with readable():
        with show_count("events") as advance:
            contents = _count_contents(
                _read_contents(events, any_file, mapping), unmet, counts, advance
            )
            for line in match(engine, contents, correct=correct):
                counts[line["kind"]] += 1
                found.update([line["query"]] if line["kind"] in MATCHES else ())
                if not final_only or line["kind"] not in MATCHES:
                    out.write(json_lines.encode_line(line, NEWLINE))
                elif line["op"] == RETRACT:
                    current.pop(line["id"], None)
                else:
                    current[line["id"]] = line
        for id_ in sorted(current):
            out.write(json_lines.encode_line(current[id_] | {"final": True}, NEWLINE))
        out.flush()
    for name in asked.keys() - found:
        for word in unmet.words(name):
            click.echo(f"query {name}: {escape_unprintable(word)}", err=True)
    kinds = LINES if SETS not in counts else (SETS, *LINES)
    totals = {"in": counts["in"], **{kind: counts[kind] for kind in kinds}, **engine.counts}
    said = ", ".join(f"{value} {name}" for name, value in totals.items() if value)
    click.echo(orjson.dumps(totals) if as_json else said, err=True)


def compile_queries(
    query: str, params: Mapping[str, Any], *, expand: bool = False
) -> list[Compiled]:
    """Compile the queries of a file, or of the text itself; raise `Refused` if they have faults.

    With `expand`, every match is reported by itself, even with AS SETS.
    """
    text = _text(query)
    with refusing(QueryRefused):
        queries = parse(text)
        for each in queries:
            for warning in check(each, text, params=params):
                click.echo(str(warning), err=True)
    named = [
        replace(each, name=each.name or f"q{number}", sets=each.sets and not expand)
        for number, each in enumerate(queries, start=1)
    ]
    for error in find_chain_errors(named):
        raise Refused(f"query {error.query}: {error.message}; {error.hint}")
    return [Compiled(each, Environment(params)) for each in named]


def compile_sql(sql: str, default_within: str | None) -> list[Compiled]:
    """Compile the SQL query of a file, or of the text itself; raise `Refused` if it has faults."""
    text = _text(sql)
    default_ns = _length_ns("--default-within", default_within)
    with refusing(QueryRefused):
        query = parse_sql(text, default_within_ns=default_ns)
        check(query, text, params={})
    return [Compiled(replace(query, name="q1"))]


def _text(query: str) -> str:
    try:
        path = Path(query)
        is_file, is_there = path.is_file(), path.exists()
    # The text is too long for a file name, or has characters that no name has, so it is a query.
    except (OSError, ValueError):
        return query
    if not is_file:
        if is_there:
            raise Refused(f"{query}: is not a file")
        if len(query.split()) == 1:
            raise Refused(f"{query}: there is no such file; a query has several words")
        return query
    with refusing(OSError, UnicodeDecodeError, at=f"{query}: cannot be read as text: "):
        return path.read_text(encoding="utf-8-sig")


def _length_ns(option: str, text: str | None) -> int | None:
    return None if text is None else duration_ns(f"{option} {text}", text, LENGTH)


def _parse_param(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise Refused(f"--param {text}: write NAME=VALUE, like --param limit=30")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _read_contents(
    path: str, values: FileMapping | None, options: MappingOptions
) -> Iterator[Event | Malformed]:
    """Yield the events of a file without its clock lines, which have no effect here."""
    reading = reading_of_mapping(values)
    if values is None:
        rows = read_rows(path, layout=options.layout())
    else:
        from recordings.values import mapped_rows

        rows = mapped_rows(path, values, reading)
    reader = LineReader(reading)
    contents: Iterable[Content] = map(reader.read, rows)
    if values is not None:
        plausibility = Plausibility(options.describe_reading(values, reading), time.time_ns())
        contents = warn_of_units(contents, plausibility, warn)
    for content in contents:
        if isinstance(content, Malformed):
            yield content
        elif isinstance(content, Event) and content.kind == DATA:
            error_ns = content.record.get("error") or 0
            if type(error_ns) is not int or not 0 <= error_ns <= MAX_INT64:
                detail = "`error` is not an integer of at least 0; write nanoseconds"
                yield make_dead_letter(content, content.at_ns, "error_unreadable", detail)
                continue
            content.error_ns = error_ns
            if content.epoch == NO_EPOCH:
                content.epoch = 0
            yield content


def _count_contents(
    contents: Iterable[Event | Malformed],
    unmet: Unmet,
    counts: Counter[str],
    advance: Callable[[int], None],
) -> Iterator[Event | Malformed]:
    """Yield the contents unchanged, count them, and pass them to `unmet`."""
    events: list[Event] = []
    for content in contents:
        advance(1)
        counts["in"] += 1
        yield content
        if isinstance(content, Event):
            events.append(content)
            if len(events) >= BATCH:
                unmet.observe_stream(DEFAULT_STREAM, events)
                events = []
    unmet.observe_stream(DEFAULT_STREAM, events)


def match(
    engine: Engine, contents: Iterable[Event | Malformed], *, correct: bool
) -> Iterator[JsonObject]:
    """Yield the engine's output for the contents, as lines."""
    at_ns = 0
    for event in contents:
        at_ns = event.at_ns
        if isinstance(event, Malformed):
            yield json_lines.make_report_line(event, replayed=True)
            continue
        word = engine.accept(Entry(event, event.value), at_ns)
        if word == admit.EXPIRED:
            by_ns = engine.frontier_ns - event.ref_time_ns
            late = Late(at_ns, event, BELOW_FRONTIER, by_ns)
            yield json_lines.make_report_line(late, replayed=True)
        elif word in (admit.DUPLICATE, admit.CONFLICT):
            copy = Duplicate(at_ns, event, word == admit.CONFLICT)
            yield json_lines.make_report_line(copy, replayed=True)
        elif word in DEAD:
            reason, detail = DEAD[word]
            dead = make_dead_letter(event, at_ns, reason, detail.format(error_ns=event.error_ns))
            yield json_lines.make_report_line(dead, replayed=True)
        yield from _take_output(engine)
        if not correct and word in (admit.STORED, admit.IRRELEVANT):
            engine.advance(event.ref_time_ns, at_ns)
            yield from _take_output(engine)
    engine.end(at_ns)
    yield from _take_output(engine)


def _take_output(engine: Engine) -> Iterator[JsonObject]:
    step = Step(0)
    engine.flush(step)
    yield from map(json_lines.make_result_line, step.results)
