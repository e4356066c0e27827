"""`inorder replay` runs the whole topology on recorded events in this process, without Kafka.

It runs the same operators as a worker, and prints their output as JSON lines, in the order in which
the operators emit it. The summary goes to standard error, after warnings about implausible times of
the first lines (`recordings.plausible`). Dead letters are part of the output, and the exit code is
0. If most lines are dead letters, a warning says so. If there are twenty or more lines and none
could be read, the exit code is 4.

If the lines have partitions, each partition is a lane, as in a worker's task (`recordings.laned`).

Memory: the state of the operators, and one number for each emitted event, for the quantiles of the
wait. Lines with partitions take `laned.MOST_AHEAD` lines more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

import click
import orjson

from cli.as_json import json_option
from cli.files.summary import print_summary, warn_of_alarm
from cli.mapping_options import MappingOptions, mapping_options, reading_of
from cli.printable import escape_unprintable
from cli.progress import show_count
from cli.recordings import readable
from cli.topology_file import Refused, load, refusing, topology_named, warn
from cli.value_format import ValueFormat, value_format_options
from inorder.contract import DEFAULT_STREAM
from recordings.file import STDIN
from recordings.laned import recording_of
from recordings.lines import contents_of
from recordings.plausible import SAMPLE, Plausibility, warn_of_units
from recordings.replayed import replay_lines
from recordings.summary import Summary
from topology.base.outcome import Step
from topology.config import ClockConfig, ReorderConfig, StreamConfig, Topology
from topology.order.reorder.settings import Rule, seq_range_of
from topology.records.json_lines import encode_line, make_step_lines
from topology.records.where import TIMESTAMP
from topology.stage.instants import whole_instants

if TYPE_CHECKING:
    from recordings.values import FileMapping

KINDS: Final = (
    "event",
    "gap",
    "late",
    "duplicate",
    "dead",
    "window",
    "match",
    "match_set",
    "join",
    "overflow",
)
NEWLINE: Final = orjson.OPT_APPEND_NEWLINE


@click.command("replay")
@topology_named()
@mapping_options
@value_format_options
@click.option(
    "--seq-range",
    metavar="RANGE",
    help="Without a topology file: the first and the last number of a counter that wraps, such as"
    " '1 to 65535'.",
)
@click.option("--show", default=",".join(KINDS), help="Kinds of lines to print.")
@click.option(
    "--to-end/--no-to-end", default=True, help="Flush everything at the end of the input (default)."
)
@json_option("REPLAY")
@click.argument("events", nargs=-1, metavar="[EVENTS … | -]")
def command(
    topology_path: str | None,
    mapping: MappingOptions,
    value_format: ValueFormat,
    seq_range: str | None,
    show: str,
    to_end: bool,
    as_json: bool,
    events: tuple[str, ...],
) -> None:
    """Run a topology on recorded EVENTS (JSON lines or array, CSV, Parquet, also .gz).

    With --source or --values the file may have any columns; --source needs no topology file.

    Several files are read together, each with other partitions of the input topics.
    """
    paths = events or (STDIN,)
    first = paths[0]
    kinds = parse_shown(show)
    topology = None if topology_path is None else load(topology_path)
    options = mapping.with_implied_values(topology, first, value_format)
    values = options.find_file_mapping(topology, first, value_format)
    if topology is None:
        topology = make_default_topology(values, seq_range)
    elif seq_range is not None:
        key = f"reorder: {{seq_range: {seq_range}}}"
        raise Refused(f"--seq-range is for a replay without --topology; write {key} in the file")
    if values is not None:
        refuse_several(paths)
        warn_without_time(options, values, first)
    started_s, cpu_s = time.perf_counter(), time.process_time()
    summary = Summary()
    with readable():
        with show_count("events") as advance:
            reading = reading_of(topology, values)
            by_lane = False
            if values is None:
                by_lane, contents = recording_of(paths, topology, options.layout())
            else:
                contents = contents_of(first, values, reading, options.layout())
            lines = warn_of_units(
                contents,
                Plausibility(options.describe_reading(values, reading), time.time_ns()),
                warn,
            )
            warned = False
            steps = replay_lines(topology, lines, summary, to_end, advance, by_lane=by_lane)
            for step in whole_instants(steps, topology):
                write(step, kinds, sys.stdout.buffer)
                if not warned and summary.lines >= SAMPLE:
                    warned = True
                    warn_of_alarm(summary, "at this point ")
        sys.stdout.buffer.flush()
    summary.set_times(time.perf_counter() - started_s, time.process_time() - cpu_s)
    print_summary(summary, as_json=as_json)


def refuse_several(paths: Sequence[str]) -> None:
    """Refuse several files that are read by a mapping, which has no place for a partition."""
    if len(paths) > 1:
        raise Refused(
            f"{paths[1]}: a mapping reads one file; put all rows into one file, in the order of"
            " their arrival"
        )


def warn_without_time(options: MappingOptions, values: FileMapping, events: str) -> None:
    """Warn if no option and no `fields` name the time of a file, and its rows do not arrive."""
    if values.fields.ts == TIMESTAMP and values.arrival is None:
        from cli.taken import describe_missing_time

        with readable():
            warn(describe_missing_time(values, events, by_option=options.source is not None))


def make_default_topology(values: FileMapping | None, seq_range: str | None = None) -> Topology:
    """Return the topology of a replay without a file: one stream with trusted timestamps.

    The stream is ordered by sequence numbers if the mapping has them, else by time. Numbers wrap as
    `seq_range` says.
    """
    if values is None:
        raise Refused(
            "--topology FILE is missing; for a file with other fields, name them instead:"
            " --source NAME --seq NAME --ts NAME"
        )
    rule: Rule = "time" if values.fields.seq is None else "miss"
    reorder = ReorderConfig(rule=rule)
    if seq_range is not None:
        if rule == "time":
            raise Refused("--seq-range is for numbers, but none are named; write --seq NAME")
        with refusing(ValueError, at=f"--seq-range {escape_unprintable(seq_range)}: "):
            reorder = ReorderConfig(seq_range=seq_range_of(seq_range))
    stream = StreamConfig(reorder=reorder, clock=ClockConfig(unsynced="trust"))
    return Topology(streams={DEFAULT_STREAM: stream})


def parse_shown(text: str) -> frozenset[str]:
    kinds = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(kinds - set(KINDS))
    if unknown:
        raise Refused(f"--show {unknown[0]}: write one or more of {','.join(KINDS)}")
    return kinds


def write(step: Step, kinds: frozenset[str], out: BinaryIO) -> None:
    lines = (line for line in make_step_lines(step) if line["kind"] in kinds)
    out.write(b"".join([encode_line(line, NEWLINE) for line in lines]))
