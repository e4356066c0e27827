"""`inorder match`: pattern queries over recorded events, straight into the pattern engine.

No reorder and no merge before it: events go in as they arrive, `ts` is their reference time,
an `error` on the line its half-width, and the engine corrects what it has said.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
from pydantic import TypeAdapter, ValidationError

from cli.as_json import json_option
from cli.files.replay import NEWLINE
from cli.mapping_options import MappingOptions, mapping_options
from cli.printable import printable
from cli.progress import counting
from cli.recordings import readable
from cli.topology_file import Refused
from cli.value_format import ValueFormat, value_format_options
from inorder.contract import DEFAULT_STREAM, MAX_INT64
from recordings.rows import read_rows
from topology.flow.batches import BATCH
from topology.flow.unmet import Unmet, asked_by_pattern
from topology.model.event import DATA, NO_EPOCH, Event
from topology.model.late import BELOW_FRONTIER
from topology.model.outcome import Duplicate, Late, Malformed, dead_letter
from topology.model.result import RETRACT
from topology.pattern.compile.scope import Environment
from topology.pattern.language.check import check
from topology.pattern.language.parse import parse
from topology.pattern.run import admit
from topology.pattern.run.chained import engine_class
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.engine import MAX_RETAINED, Engine
from topology.pattern.sql.parse import parse_sql
from topology.pattern.store.entry import Entry
from topology.pattern.tree.chains import chain_errors
from topology.pattern.tree.errors import QueryRefused
from topology.spelling.values import DurationNs
from topology.wire.json_lines import (
    JsonObject,
    dead_line,
    duplicate_line,
    late_line,
    line_json,
    result_line,
)
from topology.wire.line_reader import LineReader, Reading

if TYPE_CHECKING:
    from recordings.values import FileMapping

LENGTH: Final = TypeAdapter(DurationNs)
LINES: Final = ("match", "overflow", "late", "duplicate", "dead")
SETS: Final = "match_set"
"""In the summary where there are any."""

DEAD: Final = {
    admit.UNSURE: (
        "error_too_large",
        "`error` is {error_ns} ns, beyond --max-error (one hour, if it is not set)",
    ),
    admit.REFUSED: (
        "retention_full",
        "as many events are kept as --max-retained allows; raise it, or shorten WITHIN",
    ),
    admit.FAR: (
        "time_huge",
        f"its time is beyond {admit.FARTHEST_NS} ns from 1970; write nanoseconds",
    ),
}
"""By what the engine says of an event: the reason, and the detail."""

MATCHES: Final = frozenset({"match", SETS})


@click.command("match")
@click.option("--query", metavar="FILE|TEXT", help="One or several, `;` between.")
@click.option("--sql", metavar="FILE|TEXT", help="A MATCH_RECOGNIZE in place of --query.")
@click.option("--default-within", metavar="LENGTH", help="For --sql without WITHIN.")
@click.option("--correct", is_flag=True, help="Nothing is too late until the input ends.")
@click.option("--final-only", is_flag=True, help="At the end, the matches that stand, by id.")
@click.option("--expand", is_flag=True, help="Sets of matches (AS SETS) as single matches.")
@click.option("--param", multiple=True, metavar="NAME=VALUE", help="For $NAME in the query.")
@click.option(
    "--max-retained",
    type=click.IntRange(min=1),
    default=MAX_RETAINED,
    help="Events kept; more are dead.",
)
@click.option(
    "--max-error",
    metavar="LENGTH",
    help="The largest error of a time, like 20ms, known beforehand; events beyond are dead.",
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
    """Find patterns in the recorded EVENTS (JSON lines, CSV, Parquet, also .gz)."""
    values = dict(_param(each) for each in param)
    if (query is None) == (sql is None):
        raise Refused("give the patterns by --query, or one MATCH_RECOGNIZE by --sql")
    if query is not None:
        queries = compiled(query, values, expand=expand)
    else:
        queries = compiled_sql(sql or "", default_within)
    engine = engine_class(queries)(
        queries,
        DEFAULT_STREAM,
        max_retained=max_retained,
        max_error_ns=None if max_error is None else _length_ns("--max-error", max_error),
    )
    matching = Matching(engine, correct=correct)
    any_file = mapping.on_file(None, events, value_format)
    asked = {each.name: asked_by_pattern(each.query, DEFAULT_STREAM) for each in queries}
    unmet = Unmet(asked, [DEFAULT_STREAM])
    found: set[str] = set()
    counts: Counter[str] = Counter()
    out = sys.stdout.buffer
    current: dict[str, JsonObject] = {}
    with readable():
        with counting("events", sys.stderr) as advance:
            for line in matching.lines(_seen(_content(events, any_file), unmet), advance):
                counts[line["kind"]] += 1
                found.update([line["query"]] if line["kind"] in MATCHES else ())
                if final_only and line["kind"] in MATCHES:
                    _update(current, line)
                else:
                    out.write(line_json(line, NEWLINE))
        for id_ in sorted(current):
            out.write(line_json(current[id_] | {"final": True}, NEWLINE))
        out.flush()
    for name in asked.keys() - found:
        for word in unmet.words(name):
            click.echo(f"query {name}: {printable(word)}", err=True)
    kinds = LINES if SETS not in counts else (SETS, *LINES)
    totals = {"in": matching.read, **{kind: counts[kind] for kind in kinds}, **engine.counts}
    if as_json:
        click.echo(orjson.dumps(totals), err=True)
    else:
        click.echo(
            ", ".join(f"{value} {name}" for name, value in totals.items() if value), err=True
        )


def compiled(query: str, params: Mapping[str, Any], *, expand: bool = False) -> list[Compiled]:
    """The queries of a file, or of the text itself; `Refused` shows what is wrong with them.
    `expand`: they say each match by itself, AS SETS or not."""
    text = _text(query)
    with _refused():
        queries = parse(text)
        for each in queries:
            for warning in check(each, text, params=params):
                click.echo(str(warning), err=True)
    named = [
        replace(each, name=each.name or f"q{number}", sets=each.sets and not expand)
        for number, each in enumerate(queries, start=1)
    ]
    for error in chain_errors(named):
        raise Refused(f"query {error.query}: {error.message}; {error.hint}")
    return [Compiled(each, Environment(params)) for each in named]


def compiled_sql(sql: str, default_within: str | None) -> list[Compiled]:
    """The one query of a file, or of the text itself, in SQL's spelling."""
    text = _text(sql)
    default_ns = None
    if default_within is not None:
        default_ns = _length_ns("--default-within", default_within)
    with _refused():
        query = parse_sql(text, default_within_ns=default_ns)
        check(query, text, params={})
    return [Compiled(replace(query, name="q1"))]


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except QueryRefused as refused:
        raise Refused(str(refused)) from None


def _text(query: str) -> str:
    try:
        path = Path(query)
        if not path.is_file():
            return query
    except (OSError, ValueError):  # too long, or holding what no name may: it is a query
        return query
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{query}: cannot be read as text: {error}") from None


def _length_ns(option: str, text: str) -> int:
    try:
        return LENGTH.validate_python(text)
    except ValidationError as error:
        fault = error.errors()[0]["ctx"]["faults"][0]
        raise Refused(f"{option} {text}: {fault.message}; {fault.remedy}") from None


def _param(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise Refused(f"--param {text}: write NAME=VALUE, like --param limit=30")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _update(current: dict[str, JsonObject], line: JsonObject) -> None:
    if line["op"] == RETRACT:
        current.pop(line["id"], None)
    else:
        current[line["id"]] = line


def _content(path: str, values: FileMapping | None) -> Iterator[Event | Malformed]:
    """The events of a file; clock lines have no meaning here."""
    numbered = values is None or values.fields.seq is not None
    reading = Reading() if numbered else Reading(frozenset({DEFAULT_STREAM}))
    if values is None:
        rows = read_rows(path)
    else:
        from recordings.values import mapped_rows

        rows = mapped_rows(path, values, reading)
    reader = LineReader(reading)
    for row in rows:
        content = reader.read(row)
        if isinstance(content, Malformed):
            yield content
        elif isinstance(content, Event) and content.kind == DATA:
            error_ns = row.values.get("error") or 0
            if type(error_ns) is not int or not 0 <= error_ns <= MAX_INT64:
                detail = "`error` is no integer from 0 on; write nanoseconds"
                yield dead_letter(content, content.at_ns, "error_unreadable", detail)
                continue
            content.error_ns = error_ns
            if content.epoch == NO_EPOCH:
                content.epoch = 0
            yield content


def _seen(contents: Iterable[Event | Malformed], unmet: Unmet) -> Iterator[Event | Malformed]:
    """The same, shown to `unmet`."""
    events: list[Event] = []
    for content in contents:
        yield content
        if isinstance(content, Event):
            events.append(content)
            if len(events) >= BATCH:
                unmet.look_in(DEFAULT_STREAM, events)
                events = []
    unmet.look_in(DEFAULT_STREAM, events)


class Matching:
    """Events into the engine, and what it says of them out, as lines."""

    def __init__(self, engine: Engine, *, correct: bool) -> None:
        self._engine = engine
        self._correct = correct
        self.read = 0

    def lines(
        self, events: Iterable[Event | Malformed], advance: Any = lambda _: None
    ) -> Iterator[JsonObject]:
        engine, at_ns = self._engine, 0
        for event in events:
            advance(1)
            self.read += 1
            at_ns = event.at_ns
            if isinstance(event, Malformed):
                yield dead_line(event, event.offset)
                continue
            yield from self._take(event)
        engine.end(at_ns)
        yield from self._output()

    def _take(self, event: Event) -> Iterator[JsonObject]:
        engine = self._engine
        word = engine.accept(Entry(event, event.value), event.at_ns)
        if word == admit.LATE:
            by_ns = engine.frontier_ns - event.ref_time_ns
            late = Late(event.at_ns, event, BELOW_FRONTIER, by_ns)
            yield late_line(late, event.offset)
        elif word in (admit.DUPLICATE, admit.CONFLICT):
            copy = Duplicate(event.at_ns, event, word == admit.CONFLICT)
            yield duplicate_line(copy, event.offset)
        elif word in DEAD:
            reason, detail = DEAD[word]
            dead = dead_letter(event, event.at_ns, reason, detail.format(error_ns=event.error_ns))
            yield dead_line(dead, event.offset)
        yield from self._output()
        if not self._correct and word in (admit.STORED, admit.IRRELEVANT):
            engine.advance(event.ref_time_ns, event.at_ns)
            yield from self._output()

    def _output(self) -> Iterator[JsonObject]:
        findings = list(self._engine.findings)
        self._engine.findings.clear()
        self._engine.freed.clear()
        for finding in findings:
            yield result_line(finding)
