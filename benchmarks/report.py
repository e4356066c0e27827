"""`make bench-all`: all entries of the disorder benchmark in one run on one machine.

    python -m benchmarks.report [--world W] [--query Q] [--entry NAME] [--seconds 40]

Writes `benchmarks/REPORT.md` and `build/report.html`, the same with pictures; with `--world`,
`--query` or `--entry`, which each row names, the tables are printed only. What peers need is
fetched by `peers.bring`; one that cannot be had is named as absent. The exit code is 1 where an
answer of ours is wrong in the end though all clocks are right.
"""

from __future__ import annotations

import argparse
import html
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

from benchmarks.disorder.run import (
    ENGINES,
    ENTRIES,
    HERE,
    OURS,
    EntryFailed,
    Measured,
    absent,
    measure,
)
from benchmarks.disorder.worlds import (
    QUERIES,
    RATE,
    RECORDED,
    WORLDS,
    Arrival,
    asked_in,
    laid_over,
    write,
    write_world,
)
from benchmarks.peers import bring
from benchmarks.tables import Page, Table, count, share, thousands
from benchmarks.traces import TraceAbsent, jr_umts
from cli.local.maven import Jars

ROOT: Final = Path(__file__).parents[1]
MARKDOWN: Final = ROOT / "benchmarks" / "REPORT.md"
HTML: Final = ROOT / "build" / "report.html"
COLUMNS: Final = (
    "entry",
    "wrong at first",
    "wrong at the end",
    "first: mean ms",
    "p99 ms",
    "settled: p99 ms",
    "MiB",
    "lines",
)
CPU_OF: Final = ("calm", "q7")
"""CPU is measured in this world, for this query, at both rates, in as many records."""

FAST_RATE: Final = 10_000
SLOW: Final = ("Spark",)
"""At the lower rate a stream that is long enough takes these many minutes."""

SESSION: Final = "d2"
"""Nine phones over UMTS (`benchmarks.traces`)."""

NAME_PX: Final = 140.0
"""As wide as a name is in a picture, and `LINE_PX` as high."""

LINE_PX: Final = 11.0


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
    folder: Path, asked: argparse.Namespace, there: Mapping[str, str]
) -> tuple[list[Part], list[str]]:
    """All that was asked for, and the entries that failed."""
    parts, failures = [], []
    for world in asked.world or (*WORLDS, RECORDED):
        if not (folder / world).is_dir():
            continue
        for query in asked.query or asked_in(world):
            found, failed = of_query(folder, world, query, asked.entry, there)
            parts.append(Part(world, query, found))
            failures += failed
            print(f"{world}, {query}: {len(found)} entries", file=sys.stderr, flush=True)
    return parts, failures


def of_query(
    folder: Path, world: str, query: str, names: Sequence[str] | None, there: Mapping[str, str]
) -> tuple[list[Measured], list[str]]:
    found, failures = [], []
    for entry in ENTRIES:
        if (names and entry.name not in names) or absent(entry, world, query, there):
            continue
        try:
            found.append(measure(entry, folder, world, query, there))
        except (EntryFailed, ValueError) as failed:
            failures.append(str(failed))
    return found, failures


def costs(
    folder: Path, records: int, seed: int, there: Mapping[str, str]
) -> tuple[list[Part], list[str]]:
    """`CPU_OF` at the higher rate, then at the other."""
    parts, failures = [], []
    for rate in (FAST_RATE, RATE):
        write(folder, records / rate, seed, rate)
        names = [one.name for one in ENTRIES if rate != RATE or not one.name.startswith(SLOW)]
        found, failed = of_query(folder, *CPU_OF, names, there)
        parts.append(Part(*CPU_OF, found))
        failures += failed
        print(f"CPU at {rate}/s: {len(found)} entries", file=sys.stderr, flush=True)
    return parts, failures


def table_of(part: Part) -> Table:
    expected = max((one.score.expected for one in part.found), default=0)
    title = f"{part.world}, {part.query}: {count(expected)} answers"
    note = f"A row: `make bench-all ARGS='--world {part.world} --query {part.query} --entry \"…\"'`"
    table = Table(title, COLUMNS, note=f"{judged(part)}\n\n{note}")
    for one in part.found:
        score = one.score
        table.add(
            _bold(one.entry),
            f"{score.wrong_first} ({share(score.wrong_first, expected)} %)",
            str(score.wrong_end),
            _ms(score.first_mean_ms),
            _ms(score.first_p99_ms),
            _ms(score.settled_p99_ms),
            f"{one.memory_mib:.0f}",
            str(one.lines),
        )
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
    waits_ms = [one.score.first_mean_ms or 0 for one in ours if not one.score.wrong_end]
    least_ms = min(waits_ms, default=float("inf"))
    said = [
        _named(
            "Bad: sooner and right in the end",
            [one for one in right if (one.score.first_mean_ms or 0) < least_ms],
        ),
        _named(
            "Bad: fewer wrong at first",
            [
                one
                for one in others
                if one.score.wrong_first < min(each.score.wrong_first for each in ours)
            ],
        ),
        _named("Bad: wrong in the end", [one for one in ours if one.score.wrong_end]),
        _named("Wrong in the end", [one for one in others if one.score.wrong_end]),
        _named(
            "Right in the end, and later than ours",
            [one for one in right if (one.score.first_mean_ms or 0) >= least_ms],
        ),
    ]
    return "\n".join(f"* {line}." for line in said if line)


def _named(what: str, found: Iterable[Measured]) -> str:
    names = "; ".join(one.entry for one in found)
    return f"{what}: {names}" if names else ""


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


def picture(part: Part) -> str:
    """Wrong at first against the mean wait, as SVG."""
    points: list[tuple[float, float, Measured]] = [
        (one.score.first_mean_ms or 0, one.score.wrong_first / one.score.expected, one)
        for one in part.found
    ]
    low = min(0.0, *(x for x, _, _ in points)) if points else 0.0
    wide = max((x for x, _, _ in points), default=1) - low or 1
    high = max((y for _, y, _ in points), default=1) or 1
    places = [(40 + 560 * (x - low) / wide, 210 - 180 * y / high) for x, y, _ in points]
    names = _names(places)
    top = min([0.0, *(height - LINE_PX for height in names)])
    drawn = []
    for (at, up), height, (_, _, one) in zip(places, names, points, strict=True):
        colour = "#c00" if one.score.wrong_end else "#070"
        name = html.escape(one.entry)
        drawn.append(
            f'<circle cx="{at:.0f}" cy="{up:.0f}" r="4" fill="{colour}"/>'
            f'<text x="{at + 6:.0f}" y="{height:.0f}" font-size="10">{name}</text>'
        )
    return (
        f'<svg viewBox="0 {top:.0f} 760 {240 - top:.0f}" width="760" role="img">'
        '<path d="M40 20V210H720" fill="none" stroke="#888"/>'
        f'<text x="300" y="232" font-size="11">mean wait, {low:.0f} to {low + wide:.0f} ms</text>'
        f'<text x="44" y="16" font-size="11">wrong at first, to {100 * high:.1f} %</text>'
        f"{''.join(drawn)}</svg>"
    )


def _names(places: Sequence[tuple[float, float]]) -> list[float]:
    """The height of each point's name: by the point, or above the names that are there."""
    taken: list[tuple[float, float]] = []
    for at, up in places:
        height = up - 5
        while any(abs(at - x) < NAME_PX and abs(height - y) < LINE_PX for x, y in taken):
            height -= LINE_PX
        taken.append((at, height))
    return [height for _, height in taken]


def page_of(parts: Sequence[Part], head: str, cpu: Table) -> str:
    """One HTML page. Green: right in the end."""
    body = [f"<pre>{html.escape(head)}</pre>"]
    tables = [
        ("", overview(parts)),
        ("", cpu),
        *((picture(part), table_of(part)) for part in parts),
    ]
    for drawn, table in tables:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell.strip('*'))}</td>" for cell in row) + "</tr>"
            for row in (table.columns, *table.rows)
        )
        body.append(f"<h2>{html.escape(table.title)}</h2>{drawn}<table>{rows}</table>")
        body.append(f"<pre>{html.escape(table.note)}</pre>")
    style = "body{font:14px sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}"
    style += "td{padding:.1em .6em;text-align:right}td:first-child{text-align:left}"
    title = "Side by side"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style>{''.join(body)}</html>\n"
    )


def run(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench-all", description="Entries side by side.")
    parser.add_argument("--world", action="append", choices=(*WORLDS, RECORDED))
    parser.add_argument("--query", action="append", choices=list(QUERIES))
    parser.add_argument("--entry", action="append", choices=[entry.name for entry in ENTRIES])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rate", type=int, default=RATE, help="records a second")
    parser.add_argument("--cpu-records", type=int, default=240_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    there, missing = programs()
    is_whole = not (asked.world or asked.query or asked.entry)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), asked.seconds, asked.seed, asked.rate)
        if lacks := record(Path(name), asked.seed):
            missing.append(lacks)
        parts, failures = measured(Path(name), asked, there)
        if is_whole:
            taken, more = costs(Path(name), asked.cpu_records, asked.seed, there)
            failures += more
    if is_whole:
        cpu = cpu_table(taken, asked.cpu_records, (FAST_RATE, RATE))
        head = introduction(asked, [*ABSENT, *missing, *failures])
        texts = [
            head,
            overview(parts).markdown(),
            cpu.markdown(),
            *(table_of(part).markdown() for part in parts),
        ]
        MARKDOWN.write_text("\n".join(texts))
        HTML.parent.mkdir(exist_ok=True)
        HTML.write_text(page_of(parts, head, cpu))
        print(f"{MARKDOWN}\n{HTML}")
    else:
        page = Page()
        for part in parts:
            page.table(table_of(part))
        if len(parts) == 1 and parts[0].world != RECORDED:
            page.table(cpu_table(parts, int(asked.seconds * asked.rate), (asked.rate,)))
    for line in [*missing, *failures]:
        print(line, file=sys.stderr)
    ours = [one for part in parts for one in part.found if one.entry.startswith(OURS)]
    ours = [one for one in ours if one.world != "clock"]
    return int(bool(failures) or any(one.score.wrong_end for one in ours))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
