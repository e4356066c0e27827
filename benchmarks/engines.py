"""Measure the CPU of all engines side by side, with inorder first and last: `make bench-engines`.

The queries q7, q5 and q11 of `benchmarks.disorder` have the world `calm`, at 10,000 and 500 records
a second, with equally many records. The engines run in turns. On a shared machine the speed drifts
within minutes, so inorder runs at both ends of each turn. `make bench-all` has the answers of all
workloads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Final

from benchmarks import harness, report
from benchmarks.disorder import run as disorder
from benchmarks.disorder.run import ENTRIES, OURS, Measured
from benchmarks.disorder.worlds import RATE, write
from benchmarks.harness import Asked, Tables
from benchmarks.tables import Table

WORLD: Final = "calm"
QUERIES: Final = ("q7", "q5", "q11")
FULL: Final = 240_000
QUICK: Final = 24_000
SEED: Final = 1
OWN: Final = (OURS, f"{OURS}, compiled")
TRIVIAL: Final = "bounded, 2 s"
OTHERS: Final = (
    *("bounded, 50 ms", TRIVIAL, "Flink, 50 ms, late 10 s", "Flink, 500 ms, late 10 s"),
    *("Flink, 2 s", "Esper, 2 s"),
)
"""The trivial watermarks, and the engines that use the least CPU in `make bench-all`."""


def tables(asked: Asked) -> Tables:
    """Measure events per CPU second of inorder, Flink, Esper and trivial watermarks."""
    programs = cache(partial(_programs, asked.say))
    with tempfile.TemporaryDirectory() as name:
        folder_of = cache(partial(_write, Path(name), FULL if asked.full else QUICK))
        for rate in (report.FAST_RATE, RATE):
            for query in QUERIES:
                title = f"{query}, {rate:,} records/s"
                yield (
                    title,
                    partial(_table, title, query, asked, partial(folder_of, rate), programs),
                )


command = harness.command(tables)


def _programs(say: Callable[[str], None]) -> dict[str, str]:
    there, missing = report.programs()
    for line in missing:
        say(line)
    return there


def _write(folder: Path, records: int, rate: int) -> Path:
    """Write the worlds at a rate, with the truth of all queries, and return their folder."""
    own = folder / str(rate)
    own.mkdir()
    write(own, records / rate, SEED, rate)
    return own


def _table(
    title: str,
    query: str,
    asked: Asked,
    folder: Callable[[], Path],
    programs: Callable[[], Mapping[str, str]],
) -> Table:
    there, place = programs(), folder()
    found: dict[str, list[Measured]] = {}
    for _ in range(asked.rounds):
        for each in (*OWN, *OTHERS, *OWN):
            entry = next(one for one in ENTRIES if one.name == each)
            if not disorder.absent(entry, WORLD, query, there):
                one = disorder.measure(entry, place, WORLD, query, there)
                found.setdefault(each, []).append(one)
    return table_of(title, found)


def table_of(title: str, found: Mapping[str, Sequence[Measured]]) -> Table:
    """Return the table of measurements: the mean, the range, and the share of the trivial one."""
    table = Table(
        title, ("entry", "k events/CPU s", "least", "most", f"of {TRIVIAL}", "wrong at the end")
    )
    speeds = {
        name: [one.events_per_cpu_s / 1_000 for one in each if one.events_per_cpu_s]
        for name, each in found.items()
    }
    trivial = speeds.get(TRIVIAL)
    for name, each in found.items():
        wrong = str(max(one.score.wrong_end for one in each))
        if not speeds[name]:
            table.add(name, "-", "-", "-", "-", wrong)
            continue
        least, most, middle = min(speeds[name]), max(speeds[name]), mean(speeds[name])
        ratio = f"{middle / mean(trivial):.2f}" if trivial else "-"
        table.add(name, f"{middle:.0f}", f"{least:.0f}", f"{most:.0f}", ratio, wrong)
    return table
