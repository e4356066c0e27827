"""Run entries on the workloads and score them: `python -m disorder.run FOLDER`.

    python worlds.py FOLDER                 makes the workloads
    python -m disorder.run FOLDER --entry inorder --world rough --query q11

Each entry runs twice in a separate process: on half of the records and on all. The difference is
its CPU for the other half, so the start of an interpreter and the warm-up of a JVM do not count.
Both runs must give the same answers up to the half (`score.differing`). So no entry can use records
that have not arrived yet. Memory is the largest resident set of the whole run. The program prints
each result as a line of JSON. The exit code is 1 if a final answer of `inorder` is wrong though all
clocks are right, or if an entry fails. It needs Linux and the standard library only.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import IO, Final, NamedTuple

from .score import Score, find_differing, read_answers, read_truth, score_answers
from .worlds import QUERIES, RECORDED, WORLDS, queries_of

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 600.0
LEAST_CPU_S: Final = 0.3
SHOWN_LINES: Final = 20
OURS: Final = "inorder"


class Entry(NamedTuple):
    """A program with its settings.

    The file of the records and the query are appended to `command`. Names in braces in it, such as
    `{python}`, stand for the programs of this machine. `code` is the file that its user has
    written, relative to this folder.
    """

    name: str
    command: tuple[str, ...]
    code: str
    queries: tuple[str, ...] = tuple(QUERIES)
    worlds: tuple[str, ...] = (*WORLDS, RECORDED)


_WINDOWS: Final = ("q5", "q7", "q8")
_NO_SESSIONS: Final = (*_WINDOWS, "leap")
_NO_PATTERNS: Final = (*_WINDOWS, "q11")
_OPENED: Final = ("java.base/java.lang=ALL-UNNAMED", "java.base/java.util=ALL-UNNAMED")
"""The packages of Java that Flink accesses by reflection."""

ENGINES: Final = ("kafka_streams", "flink", "siddhi", "esper")
"""The engines in Java. Each has a folder in `entries` with a `pom.xml` that names its jars."""

_JAVA: Final = ("java", *(part for each in _OPENED for part in ("--add-opens", each)), "-cp")
_INTERPRETERS: Final[dict[str, tuple[str, ...]]] = {
    "in_order": ("{python}",),
    "in_order, compiled": ("env", "PYTHONPATH={compiled}", "{python}"),
    "watermarked": ("{python}",),
    "bytewax_windows": ("{peers}",),
    "quix_windows": ("{peers}",),
    "spark_windows": ("{spark}",),
}
_QUERIES: Final = {
    "bytewax_windows": _WINDOWS,
    "quix_windows": _NO_PATTERNS,
    "spark_windows": _NO_PATTERNS,
    "kafka_streams": _NO_PATTERNS,
    "siddhi": _NO_SESSIONS,
    "esper": _NO_SESSIONS,
}
_SETTINGS: Final = (
    (OURS, "in_order", "2s"),
    (f"{OURS}, 50 ms", "in_order", "50ms"),
    (f"{OURS}, compiled", "in_order, compiled", "2s"),
    ("no order", "watermarked", "none"),
    ("bounded, 50 ms", "watermarked", "bounded:50"),
    ("bounded, 2 s", "watermarked", "bounded:2000"),
    ("bounded, 50 ms, late 10 s", "watermarked", "bounded:50+late"),
    ("bounded, 500 ms, late 10 s", "watermarked", "bounded:500+late"),
    ("histogram", "watermarked", "histogram"),
    ("histogram, late 10 s", "watermarked", "histogram+late"),
    ("Bytewax, 500 ms", "bytewax_windows", "500"),
    ("Bytewax, 2 s", "bytewax_windows", "2000"),
    ("Quix, grace 500 ms", "quix_windows", "500"),
    ("Quix, grace 2 s", "quix_windows", "2000"),
    ("Spark, 500 ms, batches of 1 s", "spark_windows", "500", "1000"),
    ("Kafka Streams, grace 500 ms, suppress", "kafka_streams", "500", "suppress"),
    ("Kafka Streams, grace 2 s, suppress", "kafka_streams", "2000", "suppress"),
    ("Flink, 50 ms, late 10 s", "flink", "50", "10000"),
    ("Flink, 500 ms, late 10 s", "flink", "500", "10000"),
    ("Flink, 2 s", "flink", "2000", "0"),
    ("Siddhi, kslack", "siddhi", "kslack", "0"),
    ("Siddhi, kslack to 500 ms", "siddhi", "kslack", "500"),
    ("Siddhi, akslack", "siddhi", "akslack", "0"),
    ("Esper, no order", "esper", "0"),
    ("Esper, 500 ms", "esper", "500"),
    ("Esper, 2 s", "esper", "2000"),
)
"""The name of each entry, its program in `entries`, and its settings."""


def _entry(name: str, program: str, *settings: str) -> Entry:
    queries = _QUERIES.get(program, tuple(QUERIES))
    if program in ENGINES:
        command = (*_JAVA, f"{{{program}}}", "Entry", *settings)
        return Entry(name, command, f"entries/{program}/Entry.java", queries)
    code = f"entries/{program.partition(',')[0]}.py"
    worlds = WORLDS if program == "spark_windows" else (*WORLDS, RECORDED)
    return Entry(name, (*_INTERPRETERS[program], code, *settings), code, queries, worlds)


ENTRIES: Final = tuple(_entry(*each) for each in _SETTINGS)


class EntryFailed(RuntimeError):
    """The error for an entry that fails, takes too long, or uses records that arrive later."""


class Measured(NamedTuple):
    """The result of one entry for one query in one world."""

    entry: str
    world: str
    query: str
    score: Score
    events_per_cpu_s: float | None
    """The rate in the second half, or None if that took less than `LEAST_CPU_S` of CPU."""
    memory_mib: float
    lines: int

    def row(self) -> dict[str, object]:
        return {**self._asdict(), "score": self.score._asdict()}


class Spent(NamedTuple):
    """The resources that one process used."""

    cpu_s: float
    memory_mib: float


def absent(entry: Entry, world: str, query: str, programs: Mapping[str, str]) -> str:
    """Return why the entry does not run here, or an empty text if it does."""
    if query not in entry.queries or world not in entry.worlds:
        return f"{entry.name} has no {query} in {world}"
    named = [name for part in entry.command for _, name, _, _ in Formatter().parse(part) if name]
    missing = " ".join(f"--{name}" for name in named if name not in programs)
    return f"{entry.name} needs {missing}" if missing else ""


def measure(
    entry: Entry, folder: Path, world: str, query: str, programs: Mapping[str, str]
) -> Measured:
    """Measure an entry; `programs` contains the values for the names in braces in its command.

    Raises:
        EntryFailed: The entry fails, or its answers depend on later records.
    """
    command = [HERE / part if part.startswith("entries/") else part for part in entry.command]
    argv = [str(part).format(**programs) for part in command]
    place = folder / world
    used, answers, counts = {}, {}, {}
    for part in ("half", "records"):
        records, into = place / f"{part}.csv", place / f"answers-{part}.csv"
        with into.open("w") as file:
            used[part] = measure_spent([*argv, str(records), query], file)
        answers[part] = read_answers(into)
        counts[part], last_us = _extent(records)
        if part == "half":
            half_us = last_us
    if apart := find_differing(answers["records"], answers["half"], half_us):
        raise EntryFailed(
            f"{entry.name}, {world}, {query}: {len(apart)} answers depend on later records;"
            f" the first is {apart[0]}"
        )
    cpu_s = used["records"].cpu_s - used["half"].cpu_s
    rate = (counts["records"] - counts["half"]) / cpu_s if cpu_s >= LEAST_CPU_S else None
    return Measured(
        entry.name,
        world,
        query,
        score_answers(read_truth(place / f"truth-{query}.csv"), answers["records"]),
        rate,
        used["records"].memory_mib,
        count_code_lines(HERE / entry.code),
    )


def measure_spent(argv: Sequence[str], into: IO[str], folder: Path | None = None) -> Spent:
    """Run a process with its output going to `into`, and return the resources that it used.

    Raises:
        EntryFailed: The process fails; the message has the end of its error output.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(argv, stdout=into, stderr=said, cwd=folder)
        usage = _await_end(process)
        if process.returncode:
            said.seek(0)
            closing = "".join(said.readlines()[-SHOWN_LINES:])
            raise EntryFailed(f"{shlex.join(argv)}: exit code {process.returncode}\n{closing}")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _await_end(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Wait for the end of a process, killing it after `TIMEOUT_S`, and return its resources."""
    began_s = time.monotonic()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - began_s > TIMEOUT_S:
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def _extent(records: Path) -> tuple[int, int]:
    """Return the number of records in a file, and the arrival of the last one."""
    lines = records.read_text().splitlines()
    return len(lines) - 1, int(lines[-1].partition(",")[0])


def count_code_lines(code: Path) -> int:
    """Return the number of lines of code, without blank lines, comments and docstrings."""
    text = code.read_text()
    skipped: set[int] = set()
    if code.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith(("#", "//", "/*", "*"))
        for number, line in enumerate(text.splitlines(), start=1)
        if number not in skipped
    )


def measure_all(
    folder: Path, asked: argparse.Namespace, programs: Mapping[str, str], failures: list[str]
) -> Iterator[Measured]:
    """Yield the results for the requested worlds that exist; print and collect the failures."""
    for world in asked.world or (*WORLDS, RECORDED):
        if not (folder / world).is_dir():
            continue
        for query in asked.query or queries_of(world):
            for entry in ENTRIES:
                if asked.entry and entry.name not in asked.entry:
                    continue
                if absent(entry, world, query, programs):
                    continue
                try:
                    yield measure(entry, folder, world, query, programs)
                except (EntryFailed, ValueError) as failed:
                    print(failed, file=sys.stderr, flush=True)
                    failures.append(str(failed))


def is_wrong(found: Measured) -> bool:
    """Return whether a final answer of ours is wrong though all clocks are right."""
    return found.entry.startswith(OURS) and found.world != "clock" and found.score.wrong_end > 0


def options(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Runs entries and scores them.")
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--entry", action="append", choices=names, help="default: all")
    parser.add_argument("--world", action="append", choices=(*WORLDS, RECORDED))
    parser.add_argument("--query", action="append", choices=list(QUERIES))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("run")
    parser.add_argument("folder", type=Path, help="made by worlds.py")
    parser.add_argument("--peers", help="a Python that has bytewax and quixstreams")
    parser.add_argument("--spark", help="a Python that has pyspark")
    parser.add_argument("--compiled", help="a folder with inorder's core compiled")
    for engine in ENGINES:
        parser.add_argument(f"--{engine}", help=f"the class path of entries/{engine}")
    asked = parser.parse_args(arguments)
    given = {name: getattr(asked, name) for name in ("peers", "spark", "compiled", *ENGINES)}
    programs = {"python": sys.executable, **{name: path for name, path in given.items() if path}}
    failures: list[str] = []
    bad = False
    for found in measure_all(asked.folder, asked, programs, failures):
        bad |= is_wrong(found)
        print(json.dumps(found.row()), flush=True)
    return int(bad or bool(failures))


if __name__ == "__main__":
    sys.exit(main())
