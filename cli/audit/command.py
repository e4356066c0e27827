"""`inorder audit` reports what disorder costs on an existing topic or file.

The audit only reads: it assigns partitions, joins no consumer group and writes to no topic. Options
name the fields of source, sequence number and time. The audit derives missing options from the
first records. If no record can be read, it shows the first three with the reason and exits with
code 4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import Final

import click
import orjson

from agents.exits import Exit
from cli.as_json import json_option
from cli.audit.page import page_of
from cli.audit.remarks import remarks
from cli.audit.source import AuditSource
from cli.audit.text import format_findings
from cli.durations import duration_ns
from cli.kafka_options import Kafka, on_kafka
from cli.mapping_options import MappingOptions, mapping_options
from cli.printable import escape_unprintable
from cli.progress import show_count
from cli.recordings import readable
from cli.taken import GIVEN, Taken
from cli.topology_file import Refused, out_option, refusing, topic_named, warn, write_new
from cli.value_format import ValueFormat, value_format_options
from inorder.contract import DEFAULT_STREAM
from recordings.audit.columns import Columns
from recordings.audit.counting import MAX_MACHINES, TooManyMachines
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, Findings, audit
from recordings.audit.numbers import TooManyGaps
from recordings.audit.plain_jobs import MAX_WINDOWS, TooManyWindows
from recordings.audit.row import AuditInput, AuditRow
from recordings.audit.verdicts import format_short
from recordings.audit.wraps import Wraps
from recordings.plausible import SAMPLE, AsRead, Plausibility, warn_of_units
from recordings.proposal import StreamProposal, notes_of, queries_of, topology_text
from topology.base.outcome import Malformed
from topology.config import ReorderConfig, parse
from topology.order.reorder.settings import seq_range_of
from topology.records.checker import Reading
from topology.records.times import zone_of
from topology.records.where import TIMESTAMP

SHOWN_RECORDS: Final = 3
SHOWN_CHARS: Final = 160
GIVEN_UP_AFTER: Final = 10_000
"""The audit gives up if this many records at the beginning are all unreadable."""

MOST: Final = 0.5
LAST: Final = 1_000_000


@click.command("audit")
@on_kafka(required=False)
@topic_named()
@mapping_options
@value_format_options
@click.option(
    "--last",
    type=click.IntRange(min=1),
    help=f"Number of the newest records to read; on a topic {LAST:,} without --since.",
)
@click.option(
    "--seq-bits",
    type=click.IntRange(8, 63),
    help="Sequence numbers wrap at 2^N; detected if left out.",
)
@click.option(
    "--seq-range",
    metavar="RANGE",
    help="Sequence numbers wrap after the last one of this range, such as '1 to 65535'.",
)
@click.option(
    "--since", metavar="DURATION", help="On a topic: read what arrived in this time until now."
)
@click.option("--window", default="1min", metavar="DURATION", help="Length of the windows.")
@click.option(
    "--lateness",
    multiple=True,
    default=("0s", "1s", "5s", "30s"),
    metavar="DURATION",
    help="Bound of a plain job's watermark; repeat it to compare several.",
)
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with pictures.")
@out_option
@json_option("AUDIT")
@click.argument("events", required=False, metavar="[FILE | -]")
def command(
    kafka: Kafka,
    topic: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
    last: int | None,
    seq_bits: int | None,
    seq_range: str | None,
    since: str | None,
    window: str,
    lateness: tuple[str, ...],
    html: str | None,
    out: str | None,
    as_json: bool,
    events: str | None,
) -> None:
    """Report the disorder of a topic or FILE by machine, and how many windows plain jobs get wrong.

    The audit joins no consumer group and commits nothing.
    """
    if (events is None) == (topic is None):
        raise Refused("give a FILE (JSON lines or array, CSV, Parquet), or --brokers and --topic")
    if mapping.values or mapping.stream:
        option = "--values" if mapping.values else "--stream"
        raise Refused(f"{option}: an audit treats all records as one stream; leave it out")
    if topic is not None and not kafka.servers:
        raise Refused("--topic needs the brokers; add --brokers")
    for option, path in (("--out", out), ("--html", html)):
        if path is not None and not Path(path).parent.is_dir():
            raise Refused(
                f"{option} {path}: there is no folder {Path(path).parent}; create it first"
            )
    length_ns = duration_ns("--window", window)
    if not length_ns:
        raise Refused("--window 0s: a window must be longer than 0; write 1min")
    given = ("0s" if each == "0" else each for each in lateness)
    bounds_ns = tuple(sorted({duration_ns("--lateness", each) for each in given}))
    with readable():
        if topic is not None:
            from cli.audit.from_topic import topic_source

            mapping.refuse_layout()
            since_ns = None if since is None else duration_ns("--since", since)
            if last is None and since_ns is None:
                last = LAST
            source = topic_source(kafka.brokers(), topic, mapping, value_format, last, since_ns)
        else:
            from cli.audit.from_file import file_source

            if since is not None:
                raise Refused("--since is for topics; for a file write --last N")
            source = file_source(events or "-", mapping, value_format, last)
        wraps = _parse_wraps(seq_bits, seq_range)
        zone = zone_of(source.mapping.fields.ts_zone) or UTC
        asked = Asked(length_ns, bounds_ns, source.order, source.arrives, wraps, zone)
        findings = _audit(source, asked)
    _print_answer(source, findings, html, out, as_json=as_json)


def _parse_wraps(seq_bits: int | None, seq_range: str | None) -> Wraps | None:
    """Return how numbers wrap, as options state; None if they do not."""
    if seq_bits is not None and seq_range is not None:
        raise Refused("--seq-range says where numbers wrap, and --seq-bits too; leave one out")
    if seq_bits is not None:
        return Wraps(ReorderConfig(seq_bits=seq_bits).counter)
    if seq_range is None:
        return None
    with refusing(ValueError, at=f"--seq-range {escape_unprintable(seq_range)}: "):
        return Wraps(seq_range_of(seq_range))


def _audit(source: AuditSource, asked: Asked) -> Findings:
    with show_count("records") as advance, _refusing_mapping(source):
        findings = audit(_choose_inputs(source, asked), asked, advance)
    unread = findings.unread.count
    if unread and not findings.counting.rows:
        _exit_unread(source, findings)
    if unread > MOST * findings.records:
        reason, first = findings.unread.deaths.reasons()[0]
        warn(
            f"{unread:,} of {findings.records:,} records cannot be read, as {reason}:"
            f" {escape_unprintable(first.detail)}"
        )
    return findings


def _choose_inputs(source: AuditSource, asked: Asked) -> AuditInput | Columns:
    """Return the columns of the source if they can be counted, or its rows."""
    table = source.columns
    if table is None or asked.wraps is not None or _begins_unread(table):
        return _stop_if_unreadable(_check_time_unit(source, source.rows))
    from recordings.audit.by_columns.count import is_countable

    if not is_countable(table, asked.length_ns, asked.bounds_ns):
        return _stop_if_unreadable(_check_time_unit(source, source.rows))
    for _ in _check_time_unit(source, table.rows(SAMPLE)):
        pass
    return table


def _begins_unread(table: Columns) -> bool:
    """Return whether so many records at the beginning are unreadable that the audit gives up."""
    if len(table.faults) < GIVEN_UP_AFTER or not len(table):
        return False
    return bool(table.faults[GIVEN_UP_AFTER - 1].offset < table.offset[0])


def _check_time_unit(source: AuditSource, rows: AuditInput) -> AuditInput:
    """Return the rows, whose first ones lead to a warning if the unit of their time is wrong."""
    fields = source.mapping.fields
    if fields.ts == TIMESTAMP:  # Kafka's own timestamps have one unit.
        return rows
    plausibility = Plausibility(AsRead(Reading(), fields.ts_unit, option=True), time.time_ns())
    return warn_of_units(rows, plausibility, warn)


def _stop_if_unreadable(rows: AuditInput) -> Iterator[AuditRow | Malformed]:
    """Yield the rows, but stop after `GIVEN_UP_AFTER` rows if none of them can be read."""
    rows = iter(rows)
    for row in islice(rows, GIVEN_UP_AFTER):
        yield row
        if isinstance(row, AuditRow):
            break
    else:
        return
    yield from rows


@contextmanager
def _refusing_mapping(source: AuditSource) -> Iterator[None]:
    """Raise `Refused` with the option at fault if there are too many machines, gaps or windows."""
    texts = source.mapping.texts
    reasons: dict[type[Exception], str] = {
        TooManyMachines: f"--source {texts['source']}: has more than {MAX_MACHINES:,}"
        " different values; name a field that identifies the machines",
        TooManyGaps: f"--seq {texts.get('seq', 'seq')}: does not rise by one within a source;"
        " name another field, or leave it out to order each source by time",
        TooManyWindows: f"--window: the times span more than {MAX_WINDOWS:,} windows; write a"
        f" longer one, or another --ts-unit than {source.mapping.fields.ts_unit}",
    }
    try:
        yield
    except (TooManyMachines, TooManyGaps, TooManyWindows) as error:
        raise Refused(reasons[type(error)]) from None


def _exit_unread(source: AuditSource, findings: Findings) -> None:
    """Print that no record can be read, with the reasons, and exit with `Exit.NOTHING_USABLE`."""
    click.echo(f"{source.name}: not one record can be read", err=True)
    click.echo(describe_fields(source.mapping), err=True)
    for number, text in enumerate(source.first[:SHOWN_RECORDS], 1):
        click.echo(f"  record {number}: {shorten(text)}", err=True)
    for reason, dead in findings.unread.deaths.reasons()[:SHOWN_RECORDS]:
        click.echo(f"  {dead.count:,} {reason}: {escape_unprintable(dead.detail)}", err=True)
    click.echo("name where the fields are: --source, --seq, --ts, --ts-unit, --ts-zone", err=True)
    raise SystemExit(Exit.NOTHING_USABLE)


def shorten(text: str) -> str:
    """Return the text with unprintable characters escaped, cut to `SHOWN_CHARS` characters."""
    safe = escape_unprintable(text)
    return safe if len(safe) <= SHOWN_CHARS else f"{safe[:SHOWN_CHARS]}…"


# -- the answer ------------------------------------------------------------------------------------


def _print_answer(
    source: AuditSource,
    findings: Findings,
    html_path: str | None,
    out: str | None,
    *,
    as_json: bool,
) -> None:
    text = _propose(source, findings)
    if out is not None:
        _write("--out", out, text)
    said = [*remarks(findings), *_describe_mapping(source.mapping), *source.said]
    steps = _next_steps(source, out)
    account = make_document(findings)
    head = _format_head(source, findings)
    if html_path is not None:
        page = page_of(findings, account, head, said, steps)
        _write("--html", html_path, "\n".join([*page, ""]))
    if as_json:
        click.echo(orjson.dumps(account).decode())
    else:
        click.echo(format_findings(findings, head, said, steps), nl=False)


def _propose(source: AuditSource, findings: Findings) -> str:
    """Return the text of the proposed topology file, after checking that it can be parsed."""
    stream = StreamProposal(
        findings.advice,
        {**source.section, **source.mapping.section()},
        source.mapping.said,
        notes_of(findings.counting, findings.clocks),
    )
    queries = queries_of(findings.jobs.length_ns)
    text = topology_text({DEFAULT_STREAM: stream}, queries, source.partitions)
    parse(text)
    return f"# By inorder audit of {escape_unprintable(source.name)}.\n{text}"


def _write(option: str, path: str, text: str) -> None:
    write_new(option, path, text)
    click.echo(f"written: {path}", err=True)


def describe_fields(mapping: Taken) -> str:
    """Return a phrase that names the fields of the mapping by which records are read."""
    words = {name: f"{name} {text}" for name, text in mapping.texts.items()}
    if "ts" in words and (how := mapping.ts_unit or mapping.fields.ts_format):
        words["ts"] += f" ({how})"
    return f"read by {', '.join(words.values())}"


def _describe_mapping(mapping: Taken) -> Iterator[str]:
    """Yield sentences about the mapping: its fields, and how certain each guessed field is."""
    yield describe_fields(mapping)
    for name, words in mapping.said.items():
        if name == "arrival":
            yield words
        elif name in mapping.texts and words != GIVEN:
            yield f"{name}: {mapping.texts[name]} ({words})"


def _format_head(source: AuditSource, findings: Findings) -> str:
    lasts_ns = findings.counting.last_ns - (findings.counting.first_ns or 0)
    count = len(findings.machines)
    return (
        f"inorder audit: {escape_unprintable(source.name)}, {findings.records:,} records of"
        f" {count:,} machine{'' if count == 1 else 's'} in {format_short(lasts_ns)}"
    )


def _next_steps(source: AuditSource, out: str | None) -> list[str]:
    name = out or "t.yaml"
    steps = [] if out else [f"{source.command} --out {name}  # writes these settings"]
    return [
        *steps,
        f"inorder worker --topology {name} --brokers HOST:PORT  # runs with them",
    ]
