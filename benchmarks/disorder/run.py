"""Runs entries on the workloads and scores them: `python -m disorder.run FOLDER`.

    python worlds.py FOLDER                 makes the workloads
    python -m disorder.run FOLDER --entry inorder --world rough --query q11

Each entry runs twice as a process of its own: on half of the records and on all. The difference is
its CPU for the other half, so that the start of an interpreter and the warming up of a JVM do not
count; what both runs answer up to the half has to be the same (`score.differing`), so that nobody
answers what he cannot know yet. Memory is the largest resident set of the whole run. A line of JSON
is printed for each. The exit code is 1 where `inorder` is wrong in the end with clocks that are
right, or an entry is not honest. Linux, standard library alone.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import IO, Final, NamedTuple

from .score import Score, differing, read_answers, read_truth, scored
from .worlds import QUERIES, RECORDED, WORLDS, asked_in

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 600.0
LEAST_CPU_S: Final = 0.3
SHOWN_LINES: Final = 20
OURS: Final = "inorder"


class Entry(NamedTuple):
    """`command` gets the file of the records and the query behind it; `{python}` and the like in it
    are the programs of this machine. `code` is what its user has written, relative to here."""

    name: str
    command: tuple[str, ...]
    code: str
    queries: tuple[str, ...] = tuple(QUERIES)
    worlds: tuple[str, ...] = (*WORLDS, RECORDED)


_WATERMARKED: Final = "entries/watermarked.py"


_BYTEWAX: Final = "entries/bytewax_windows.py"
_WINDOWS: Final = ("q5", "q7", "q8")
_NO_SESSIONS: Final = (*_WINDOWS, "leap")


_PATTERNLESS: Final = (*_WINDOWS, "q11")


def _bytewax(name: str, wait_ms: str) -> Entry:
    return Entry(name, ("{peers}", _BYTEWAX, wait_ms), _BYTEWAX, _WINDOWS)


def _quix(name: str, grace_ms: str) -> Entry:
    program = "entries/quix_windows.py"
    return Entry(name, ("{peers}", program, grace_ms), program, _PATTERNLESS)


def _spark(name: str, wait_ms: str, batch_ms: str) -> Entry:
    program = "entries/spark_windows.py"
    return Entry(name, ("{spark}", program, wait_ms, batch_ms), program, _PATTERNLESS, WORLDS)


_OPENED: Final = ("java.base/java.lang=ALL-UNNAMED", "java.base/java.util=ALL-UNNAMED")
"""What Flink reads of Java by reflection."""


def _on_java(
    engine: str, name: str, *settings: str, queries: tuple[str, ...] = tuple(QUERIES)
) -> Entry:
    """`engine` is the folder, and the class path in the programs of this machine."""
    opened = [part for each in _OPENED for part in ("--add-opens", each)]
    command = ("java", *opened, "-cp", f"{{{engine}}}", "Entry", *settings)
    return Entry(name, command, f"entries/{engine}/Entry.java", queries)


def _kafka_streams(name: str, grace_ms: str) -> Entry:
    return _on_java("kafka_streams", name, grace_ms, "suppress", queries=_PATTERNLESS)


def _ours(name: str, max_wait: str, *, compiled: bool = False) -> Entry:
    program = "entries/in_order.py"
    around = ("env", "PYTHONPATH={compiled}") if compiled else ()
    return Entry(name, (*around, "{python}", program, max_wait), program)


def _watermarked(name: str, rule: str) -> Entry:
    return Entry(name, ("{python}", _WATERMARKED, rule), _WATERMARKED)


ENTRIES: Final = (
    _ours(OURS, "2s"),
    _ours(f"{OURS}, 50 ms", "50ms"),
    _ours(f"{OURS}, compiled", "2s", compiled=True),
    _watermarked("no order", "none"),
    _watermarked("bounded, 50 ms", "bounded:50"),
    _watermarked("bounded, 2 s", "bounded:2000"),
    _watermarked("bounded, 50 ms, late 10 s", "bounded:50+late"),
    _watermarked("bounded, 500 ms, late 10 s", "bounded:500+late"),
    _watermarked("histogram", "histogram"),
    _watermarked("histogram, late 10 s", "histogram+late"),
    _bytewax("Bytewax, 500 ms", "500"),
    _bytewax("Bytewax, 2 s", "2000"),
    _quix("Quix, grace 500 ms", "500"),
    _quix("Quix, grace 2 s", "2000"),
    _spark("Spark, 500 ms, batches of 1 s", "500", "1000"),
    _kafka_streams("Kafka Streams, grace 500 ms, suppress", "500"),
    _kafka_streams("Kafka Streams, grace 2 s, suppress", "2000"),
    _on_java("flink", "Flink, 50 ms, late 10 s", "50", "10000"),
    _on_java("flink", "Flink, 500 ms, late 10 s", "500", "10000"),
    _on_java("flink", "Flink, 2 s", "2000", "0"),
    _on_java("siddhi", "Siddhi, kslack", "kslack", "0", queries=_NO_SESSIONS),
    _on_java("siddhi", "Siddhi, kslack to 500 ms", "kslack", "500", queries=_NO_SESSIONS),
    _on_java("siddhi", "Siddhi, akslack", "akslack", "0", queries=_NO_SESSIONS),
    _on_java("esper", "Esper, no order", "0", queries=_NO_SESSIONS),
    _on_java("esper", "Esper, 500 ms", "500", queries=_NO_SESSIONS),
    _on_java("esper", "Esper, 2 s", "2000", queries=_NO_SESSIONS),
)
ENGINES: Final = ("kafka_streams", "flink", "siddhi", "esper")
"""Those on Java, each a folder of `entries` with its jars in a `pom.xml`."""


class EntryFailed(RuntimeError):
    """An entry ended with an error, took too long, or answered what it could not know."""


class Measured(NamedTuple):
    """What one entry made of one query in one world."""

    entry: str
    world: str
    query: str
    score: Score
    events_per_cpu_s: float | None
    """None where the second half took less than `LEAST_CPU_S`: too short to measure."""
    memory_mib: float
    lines: int

    def row(self) -> dict[str, object]:
        return {**self._asdict(), "score": self.score._asdict()}


class Spent(NamedTuple):
    """By one process."""

    cpu_s: float
    memory_mib: float


def absent(entry: Entry, world: str, query: str, programs: Mapping[str, str]) -> str:
    """Why it does not run here; empty if it does."""
    if query not in entry.queries or world not in entry.worlds:
        return f"{entry.name} has no {query} in {world}"
    named = [name for part in entry.command for _, name, _, _ in Formatter().parse(part) if name]
    missing = " ".join(f"--{name}" for name in named if name not in programs)
    return f"{entry.name} needs {missing}" if missing else ""


def measure(
    entry: Entry, folder: Path, world: str, query: str, programs: Mapping[str, str]
) -> Measured:
    """`programs`: what the names in braces of commands are. EntryFailed: see there."""
    command = [HERE / part if part.startswith("entries/") else part for part in entry.command]
    argv = [str(part).format(**programs) for part in command]
    place = folder / world
    spent, answers, counts = {}, {}, {}
    for part in ("half", "records"):
        records, into = place / f"{part}.csv", place / f"answers-{part}.csv"
        with into.open("w") as file:
            spent[part] = _run([*argv, str(records), query], file)
        answers[part] = read_answers(into)
        counts[part], last_us = _extent(records)
        if part == "half":
            half_us = last_us
    if apart := differing(answers["records"], answers["half"], half_us):
        raise EntryFailed(
            f"{entry.name}, {world}, {query}: {len(apart)} answers depend on what arrives after"
            f" them, first {apart[0]}"
        )
    cpu_s = spent["records"].cpu_s - spent["half"].cpu_s
    rate = (counts["records"] - counts["half"]) / cpu_s if cpu_s >= LEAST_CPU_S else None
    return Measured(
        entry.name,
        world,
        query,
        scored(read_truth(place / f"truth-{query}.csv"), answers["records"]),
        rate,
        spent["records"].memory_mib,
        lines_of(HERE / entry.code),
    )


def _run(argv: Sequence[str], into: IO[str]) -> Spent:
    """EntryFailed with the end of what it said where it fails; else nobody reads that."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(argv, stdout=into, stderr=said)
        usage = _ended(process)
        if process.returncode:
            said.seek(0)
            closing = "".join(said.readlines()[-SHOWN_LINES:])
            raise EntryFailed(f"{shlex.join(argv)}: exit code {process.returncode}\n{closing}")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _ended(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """What it has used when it ends, which it is made to after `TIMEOUT_S`."""
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
    """How many there are, and when the last arrives."""
    lines = records.read_text().splitlines()
    return len(lines) - 1, int(lines[-1].partition(",")[0])


def lines_of(code: Path) -> int:
    """Without blank lines, comments and docstrings."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run", description="Runs entries and scores them.")
    parser.add_argument("folder", type=Path, help="made by worlds.py")
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--entry", action="append", choices=names, help="default: all")
    parser.add_argument("--world", action="append", choices=(*WORLDS, RECORDED))
    parser.add_argument("--query", action="append", choices=list(QUERIES))
    parser.add_argument("--peers", help="a Python that has bytewax and quixstreams")
    parser.add_argument("--spark", help="a Python that has pyspark")
    parser.add_argument("--compiled", help="a folder with inorder's core compiled")
    for engine in ENGINES:
        parser.add_argument(f"--{engine}", help=f"the class path of entries/{engine}")
    asked = parser.parse_args(arguments)
    programs = {"python": sys.executable}
    programs |= {
        name: given
        for name in ("peers", "spark", "compiled", *ENGINES)
        if (given := getattr(asked, name))
    }
    bad = False
    there = [world for world in (*WORLDS, RECORDED) if (asked.folder / world).is_dir()]
    for world in asked.world or there:
        for query in asked.query or asked_in(world):
            for entry in ENTRIES:
                if asked.entry and entry.name not in asked.entry:
                    continue
                if why := absent(entry, world, query, programs):
                    print(why, file=sys.stderr)
                    continue
                try:
                    found = measure(entry, asked.folder, world, query, programs)
                except (EntryFailed, ValueError) as failed:
                    print(failed, file=sys.stderr)
                    bad = True
                    continue
                bad |= (
                    entry.name.startswith(OURS) and world != "clock" and found.score.wrong_end > 0
                )
                print(json.dumps(found.row()), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
