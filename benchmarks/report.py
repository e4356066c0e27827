"""Run all entries of the disorder benchmark on one machine: `make bench-all`.

    python -m benchmarks.report [--world W] [--query Q] [--entry NAME] [--seconds 40]

Writes all figures to `benchmarks/report.csv` and prints the table that README.md shows. With
`--world`, `--query` or `--entry` it only prints tables. `peers.bring` fetches the peers' programs,
and the output names unavailable peers. The exit code is 1 if a final answer of ours is wrong though
all clocks are right, or if an entry fails.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from benchmarks.disorder import run as disorder
from benchmarks.disorder.run import ENGINES, ENTRIES, HERE, OURS, Measured
from benchmarks.disorder.worlds import (
    RATE,
    RECORDED,
    Arrival,
    overlay_recording,
    write,
    write_world,
)
from benchmarks.harness import ROOT, Columns, make_table
from benchmarks.peers import bring
from benchmarks.tables import Page, Table, count, format_share
from benchmarks.traces import TraceAbsent, read_jr_umts
from cli.local.maven import Jars

CSV: Final = ROOT / "benchmarks" / "report.csv"
CPU_OF: Final = ("calm", "q7")
"""The world and the query in which CPU is measured, at both rates, with equally many records."""

FAST_RATE: Final = 10_000
SLOW: Final = ("Spark",)
"""Entries that are not measured at the lower rate, since its longer stream takes them minutes."""

SESSION: Final = "d2"
"""The session of nine phones over UMTS that is used (`benchmarks.traces`)."""


class Part(NamedTuple):
    """The measurements of one query in one world; `name` is the part of the report."""

    world: str
    query: str
    found: Sequence[Measured]
    name: str = "answers"


def programs() -> tuple[dict[str, str], list[str]]:
    """Return the programs named by entries' commands, and a line for each unavailable one."""
    there, missing = {"python": sys.executable}, []
    if find_spec("pyspark"):
        there["spark"] = sys.executable
    else:
        missing.append("Spark: pyspark is not installed; `make spark-setup`")
    ways: dict[str, Callable[[], object]] = {
        "peers": bring.python,
        "compiled": bring.build_core,
        **{engine: partial(_compile_engine, engine) for engine in ENGINES},
    }
    for name, way in ways.items():
        try:
            there[name] = str(way())
        except (bring.PeerUnavailable, TimeoutError) as failed:
            missing.append(f"{name}: {failed}")
    return there, missing


def _compile_engine(engine: str) -> str:
    folder = HERE / "entries" / engine
    return bring.compile_program(
        Jars(folder / "pom.xml", f"disorder-{engine}"), folder / "Entry.java"
    )


def record(folder: Path, seed: int) -> str:
    """Write the world `recorded`; return why it is unavailable, or an empty text if it is not."""
    try:
        rows = read_jr_umts(SESSION)
    except TraceAbsent as absent_trace:
        return f"{RECORDED}: {absent_trace}"
    arrivals = [
        Arrival(row.arrival_ns // 1_000, row.source, row.seq, row.ts_ns // 1_000) for row in rows
    ]
    write_world(folder, RECORDED, overlay_recording(arrivals, seed))
    return ""


def measure(
    folder: Path, asked: argparse.Namespace, there: Mapping[str, str], failures: list[str]
) -> list[Part]:
    parts: dict[tuple[str, str], list[Measured]] = {}
    for one in disorder.measure_all(folder, asked, there, failures):
        parts.setdefault((one.world, one.query), []).append(one)
        print(f"{one.world}, {one.query}: {one.entry}", file=sys.stderr, flush=True)
    return [Part(*place, found) for place, found in parts.items()]


def measure_costs(
    folder: Path, asked: argparse.Namespace, there: Mapping[str, str], failures: list[str]
) -> list[Part]:
    """Measure the CPU of `CPU_OF` at the higher rate, then at the lower one."""
    parts = []
    for rate in (FAST_RATE, RATE):
        write(folder, asked.cpu_records / rate, asked.seed, rate)
        names = [one.name for one in ENTRIES if rate != RATE or not one.name.startswith(SLOW)]
        world, query = CPU_OF
        of_rate = argparse.Namespace(world=[world], query=[query], entry=names)
        found = measure(folder, of_rate, there, failures)
        parts += [part._replace(name=f"{rate:,} records/s") for part in found]
    return parts


COLUMNS: Final[Columns] = {
    "wrong at first": lambda one, _: (
        f"{one.score.wrong_first} ({format_share(one.score.wrong_first, one.score.expected)} %)"
    ),
    "wrong at the end": lambda one, _: str(one.score.wrong_end),
    "first: mean ms": lambda one, _: _round(one.score.first_mean_ms),
    "p99 ms": lambda one, _: _round(one.score.first_p99_ms),
    "settled: p99 ms": lambda one, _: _round(one.score.settled_p99_ms),
    "MiB": lambda one, _: f"{one.memory_mib:.0f}",
    "lines": lambda one, _: str(one.lines),
    "k events/CPU s": lambda one, _: _round(one.events_per_cpu_s and one.events_per_cpu_s / 1_000),
}


def table_of(part: Part) -> Table:
    title = f"{part.world}, {part.query}: {count(part.found[0].score.expected)} answers"
    note = f"A row: `make bench-all ARGS='--world {part.world} --query {part.query} --entry \"…\"'`"
    table = make_table(title, {one.entry: one for one in part.found}, COLUMNS)
    table.note = f"{judge(part)}\n\n{note}"
    return table


def overview(parts: Sequence[Part], taken: Sequence[Part] = ()) -> Table:
    """Return a table of the entries, ordered by most correct answers, then by shortest wait.

    A wait is the mean over the queries that the entry has right in the end. `taken` contains the
    CPU measurements.
    """
    cpu = [f"k events/CPU s, {part.name}" for part in taken]
    columns = ("entry", "right", "wrong at the end %", "wrong at first %", "mean ms", *cpu)
    table = Table("All together", columns)
    by_entry: dict[str, list[Measured]] = {}
    for part in parts:
        for one in part.found:
            by_entry.setdefault(one.entry, []).append(one)
    speeds = [{one.entry: one.events_per_cpu_s for one in part.found} for part in taken]
    lines = []
    for name, found in by_entry.items():
        scores = [one.score for one in found]
        right = sum(not score.wrong_end for score in scores)
        answers = sum(score.expected for score in scores)
        waits_ms = [score.first_mean_ms or 0 for score in scores if not score.wrong_end]
        wait_ms = mean(waits_ms) if waits_ms else None
        wrong_end = format_share(sum(score.wrong_end for score in scores), answers)
        wrong_first = format_share(sum(score.wrong_first for score in scores), answers)
        kilo = [_round(speed and speed / 1_000) for speed in (each.get(name) for each in speeds)]
        cells = (name, f"{right}/{len(found)}", wrong_end, wrong_first, _round(wait_ms), *kilo)
        lines.append((-right / len(found), wait_ms or 0, cells))
    for *_, cells in sorted(lines):
        table.add(*cells)
    return table


FIELDS: Final = (
    *("part", "world", "query", "entry", "answers", "wrong_first", "wrong_end", "first_mean_ms"),
    *("first_p99_ms", "settled_p99_ms", "mib", "lines", "events_per_cpu_s"),
)


def lines_of(part: Part) -> Iterator[Sequence[object]]:
    """Yield the rows of `report.csv` for a part, with the fields `FIELDS`."""
    for one in part.found:
        score = one.score
        counts = (score.expected, score.wrong_first, score.wrong_end)
        waits_ms = (score.first_mean_ms, score.first_p99_ms, score.settled_p99_ms)
        cost = (one.memory_mib, one.lines, one.events_per_cpu_s)
        rounded = (None if figure is None else round(figure) for figure in (*waits_ms, *cost))
        yield part.name, one.world, one.query, one.entry, *counts, *rounded


def _round(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def judge(part: Part) -> str:
    """Return text that compares ours with the other entries, by wait and by errors.

    For waits, only entries that are right in the end count.
    """
    ours = [one for one in part.found if one.entry.startswith(OURS)]
    if not ours:
        return ""
    others = [one for one in part.found if one not in ours]
    right = [one for one in others if not one.score.wrong_end]
    least_ms = min((_wait(one) for one in ours if not one.score.wrong_end), default=float("inf"))
    fewest = min(one.score.wrong_first for one in ours)
    said: dict[str, list[Measured]] = {
        "Bad: sooner and right in the end": [one for one in right if _wait(one) < least_ms],
        "Bad: fewer wrong at first": [one for one in others if one.score.wrong_first < fewest],
        "Bad: wrong in the end": [one for one in ours if one.score.wrong_end],
        "Wrong in the end": [one for one in others if one.score.wrong_end],
        "Right in the end, and later than ours": [one for one in right if _wait(one) >= least_ms],
    }
    return "\n".join(
        f"* {what}: {'; '.join(one.entry for one in found)}."
        for what, found in said.items()
        if found
    )


def _wait(one: Measured) -> float:
    return one.score.first_mean_ms or 0


def run(arguments: Sequence[str]) -> int:
    parser = disorder.options("bench-all")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rate", type=int, default=RATE, help="records per second")
    parser.add_argument("--cpu-records", type=int, default=240_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    there, missing = programs()
    failures: list[str] = []
    is_whole = not (asked.world or asked.query or asked.entry)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), asked.seconds, asked.seed, asked.rate)
        if lacks := record(Path(name), asked.seed):
            missing.append(lacks)
        parts = measure(Path(name), asked, there, failures)
        taken = measure_costs(Path(name), asked, there, failures) if is_whole else []
    page = Page()
    if is_whole:
        with CSV.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(FIELDS)
            for part in (*parts, *taken):
                writer.writerows(lines_of(part))
        page.table(overview(parts, taken))
        page.say(str(CSV))
    else:
        for part in parts:
            page.table(table_of(part))
    for line in missing:
        print(line, file=sys.stderr)
    wrong = any(disorder.is_wrong(one) for part in parts for one in part.found)
    return int(bool(failures) or wrong)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
