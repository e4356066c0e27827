"""`make bench-all`: all entries of the disorder benchmark in one run on one machine.

    python -m benchmarks.report [--world W] [--query Q] [--entry NAME] [--seconds 40]

Writes `benchmarks/REPORT.md`; with `--world`, `--query` or `--entry`, which each row names, the
tables are printed only. What peers need is
fetched by `peers.bring`; one that cannot be had is named as absent. The exit code is 1 where an
answer of ours is wrong in the end though all clocks are right.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from benchmarks.disorder import run as disorder
from benchmarks.disorder.run import ENGINES, ENTRIES, HERE, OURS, Measured
from benchmarks.disorder.worlds import RATE, RECORDED, Arrival, laid_over, write, write_world
from benchmarks.harness import ROOT, Columns, scored
from benchmarks.peers import bring
from benchmarks.tables import Page, Table, count, share, thousands
from benchmarks.traces import TraceAbsent, jr_umts
from cli.local.maven import Jars

MARKDOWN: Final = ROOT / "benchmarks" / "REPORT.md"
CPU_OF: Final = ("calm", "q7")
"""CPU is measured in this world, for this query, at both rates, in as many records."""

FAST_RATE: Final = 10_000
SLOW: Final = ("Spark",)
"""At the lower rate a stream that is long enough takes these many minutes."""

SESSION: Final = "d2"
"""Nine phones over UMTS (`benchmarks.traces`)."""


class Part(NamedTuple):
    """One query in one world."""

    world: str
    query: str
    found: Sequence[Measured]


def programs() -> tuple[dict[str, str], list[str]]:
    """What commands of entries name, and what cannot be had."""
    there, missing = {"python": sys.executable}, []
    if find_spec("pyspark"):
        there["spark"] = sys.executable
    else:
        missing.append("Spark: pyspark is not installed; `make spark-setup`")
    ways: dict[str, Callable[[], object]] = {
        "peers": bring.python,
        "compiled": bring.compiled_core,
        **{engine: partial(_class_path, engine) for engine in ENGINES},
    }
    for name, way in ways.items():
        try:
            there[name] = str(way())
        except (bring.PeerUnavailable, TimeoutError) as failed:
            missing.append(f"{name}: {failed}")
    return there, missing


def _class_path(engine: str) -> str:
    folder = HERE / "entries" / engine
    return bring.compiled(Jars(folder / "pom.xml", f"disorder-{engine}"), folder / "Entry.java")


def record(folder: Path, seed: int) -> str:
    """The world `recorded`, and what lacks for it; empty where it is there."""
    try:
        rows = jr_umts(SESSION)
    except TraceAbsent as absent_trace:
        return f"{RECORDED}: {absent_trace}"
    arrivals = [
        Arrival(row.arrival_ns // 1_000, row.source, row.seq, row.ts_ns // 1_000) for row in rows
    ]
    write_world(folder, RECORDED, laid_over(arrivals, seed))
    return ""


def measured(
    folder: Path, asked: argparse.Namespace, there: Mapping[str, str], failures: list[str]
) -> list[Part]:
    parts: dict[tuple[str, str], list[Measured]] = {}
    for one in disorder.results(folder, asked, there, failures):
        parts.setdefault((one.world, one.query), []).append(one)
        print(f"{one.world}, {one.query}: {one.entry}", file=sys.stderr, flush=True)
    return [Part(*place, found) for place, found in parts.items()]


def costs(
    folder: Path, asked: argparse.Namespace, there: Mapping[str, str], failures: list[str]
) -> list[Part]:
    """`CPU_OF` at the higher rate, then at the other."""
    parts = []
    for rate in (FAST_RATE, RATE):
        write(folder, asked.cpu_records / rate, asked.seed, rate)
        names = [one.name for one in ENTRIES if rate != RATE or not one.name.startswith(SLOW)]
        world, query = CPU_OF
        of_rate = argparse.Namespace(world=[world], query=[query], entry=names)
        parts += measured(folder, of_rate, there, failures)
    return parts


COLUMNS: Final[Columns] = {
    "wrong at first": lambda one, _: (
        f"{one.score.wrong_first} ({share(one.score.wrong_first, one.score.expected)} %)"
    ),
    "wrong at the end": lambda one, _: str(one.score.wrong_end),
    "first: mean ms": lambda one, _: _ms(one.score.first_mean_ms),
    "p99 ms": lambda one, _: _ms(one.score.first_p99_ms),
    "settled: p99 ms": lambda one, _: _ms(one.score.settled_p99_ms),
    "MiB": lambda one, _: f"{one.memory_mib:.0f}",
    "lines": lambda one, _: str(one.lines),
}


def table_of(part: Part) -> Table:
    title = f"{part.world}, {part.query}: {count(part.found[0].score.expected)} answers"
    note = f"A row: `make bench-all ARGS='--world {part.world} --query {part.query} --entry \"…\"'`"
    table = scored(title, {_bold(one.entry): one for one in part.found}, COLUMNS)
    table.note = f"{judged(part)}\n\n{note}"
    return table


def overview(parts: Sequence[Part]) -> Table:
    """Each entry over all that it was measured on, those first that are right most often, then
    those that wait least. The wait is that of the queries it has right in the end."""
    columns = ("entry", "worlds and queries", "right in the end", "answers wrong in the end")
    table = Table("All together", (*columns, "wrong at first", "where right: mean ms"))
    by_entry: dict[str, list[Measured]] = {}
    for part in parts:
        for one in part.found:
            by_entry.setdefault(one.entry, []).append(one)
    lines = []
    for name, found in by_entry.items():
        scores = [one.score for one in found]
        right = sum(not score.wrong_end for score in scores)
        answers = sum(score.expected for score in scores)
        waits_ms = [score.first_mean_ms or 0 for score in scores if not score.wrong_end]
        wait_ms = mean(waits_ms) if waits_ms else None
        wrong_end = share(sum(score.wrong_end for score in scores), answers)
        wrong_first = share(sum(score.wrong_first for score in scores), answers)
        of_all = str(len(found)), f"{right} of {len(found)}"
        cells = (_bold(name), *of_all, f"{wrong_end} %", f"{wrong_first} %", _ms(wait_ms))
        lines.append((-right / len(found), wait_ms or 0, cells))
    for *_, cells in sorted(lines):
        table.add(*cells)
    return table


def cpu_table(parts: Sequence[Part], records: int, rates: Sequence[int]) -> Table:
    """All that was measured at these rates, the quickest first."""
    world, query, _ = parts[0]
    per_rate = [f"{rate:,} records/s" for rate in rates]
    columns = ("entry", *(column for each in per_rate for column in (each, "of ours")))
    options = f"--world {world} --query {query} --rate {rates[0]} --seconds {records / rates[0]:g}"
    title = f"Events per CPU second: {world}, {query}, {count(records)} records"
    table = Table(title, columns, note=f"`make bench-all ARGS='{options}'`")
    found = [{one.entry: one.events_per_cpu_s or 0 for one in part.found} for part in parts]
    for name in sorted(found[0], key=lambda name: -found[0][name]):
        cells = []
        for of_rate in found:
            rate, ours = of_rate.get(name), of_rate.get(OURS)
            cells += [thousands(rate), f"{rate / ours:.2f}"] if rate and ours else ["-", "-"]
        table.add(_bold(name), *cells)
    return table


def _bold(name: str) -> str:
    """Ours stand out."""
    return f"**{name}**" if name.startswith(OURS) else name


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def judged(part: Part) -> str:
    """Who is ahead of each row of ours, and in what; of waits only those who are right in the end
    count."""
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


def introduction(asked: argparse.Namespace, absences: Sequence[str]) -> str:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    setting = f"{asked.seconds:g} s of a stream of {asked.rate} records a second, seed {asked.seed}"
    return f"""# Side by side

One run of `make bench-all`, {datetime.now(UTC):%d %B %Y}: {machine},
load {load} at its end; {setting}. The rules, the
queries and what each figure is: [disorder](disorder/README.md). The world `recorded` has the delays
of nine phones over UMTS, 18 records a second for ten minutes, from a recording of Weiss and others
(session {SESSION}, CC BY-SA 4.0), which is not part of this repository. CPU and memory differ from
run to run, CPU by 15 % and at such a load by more, where a JVM compiles threefold; all other
figures are the same in each run. *Compiled*: the core as a wheel has it. MiB below the harness's
own, some 33, are shown as those.

Not measured here:

{_listed(absences)}
"""


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"* {line}" for line in lines)


ABSENT: Final = (
    "Bytewax, q11: sessions by key close by timers of the machine's clock.",
    "Siddhi, q11: its session windows go by the time of arrival, which no order holds back.",
    "Esper, q11: it has no session window.",
    "Bytewax, Quix, Spark and Kafka Streams, leap: they have no patterns.",
    "Spark at 500 records/s for long: 1 s batches of a stream of eight minutes take it five.",
    "A JVM that is warm: it runs for seconds here, so its CPU has its compiler in it.",
    "Quix and Kafka Streams with a broker: `make bench-kafka`.",
)


def run(arguments: Sequence[str]) -> int:
    parser = disorder.options("bench-all")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rate", type=int, default=RATE, help="records a second")
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
        parts = measured(Path(name), asked, there, failures)
        taken = costs(Path(name), asked, there, failures) if is_whole else []
    if is_whole:
        cpu = cpu_table(taken, asked.cpu_records, (FAST_RATE, RATE))
        head = introduction(asked, [*ABSENT, *missing, *failures])
        tables = [overview(parts), cpu, *map(table_of, parts)]
        MARKDOWN.write_text("\n".join([head, *(table.markdown() for table in tables)]))
        print(MARKDOWN)
    else:
        page = Page()
        for part in parts:
            page.table(table_of(part))
        if len(parts) == 1 and parts[0].world != RECORDED:
            page.table(cpu_table(parts, int(asked.seconds * asked.rate), (asked.rate,)))
    for line in missing:
        print(line, file=sys.stderr)
    wrong = any(disorder.is_wrong(one) for part in parts for one in part.found)
    return int(bool(failures) or wrong)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
