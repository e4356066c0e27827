"""History through Spark beside `inorder replay` of the same file: events per CPU second and core.

The crowd of `benchmarks.workloads` dealt to streams, a window for each. A backfill's CPU is that of
all processes below this one, Java too, in a session that is warm: Java's start and its compiler's
first work are those of any job of Spark's, and the first run is told apart. A replay's CPU is what
its own account says. Both run in turn; the middle of the rounds is told.

History means many events, and what a run costs however few there are is no matter then. So a second
table takes two sizes, and tells what an event more costs, and what is left for none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from os import sysconf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.spark_jobs.course import session
from benchmarks.tables import Table, thousands
from benchmarks.workloads import crowd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = (1, 2)
STREAMS: Final = (1, 2, 4, 100)
SLOPE_STREAMS: Final = (1, 4)
ROUNDS: Final = 3
LARGER: Final = 4
"""So many times the events, for what an event more costs."""

US_PER_S: Final = 1_000_000
TICKS_PER_S: Final = sysconf("SC_CLK_TCK")
WINDOW: Final = "{window: tumbling 1s, key: payload.k, aggregate: {n: count(), m: avg(payload.v)}}"


class Input(NamedTuple):
    topology: Path
    events: Path
    lines: int


class Took(NamedTuple):
    """Seconds."""

    cpu_s: float
    wall_s: float


class Slope(NamedTuple):
    """`fixed_s` of CPU, and so much for each event."""

    fixed_s: float
    event_us: float


def measure_slope(folder: Path, events: int, say: Callable[[str], None]) -> Table:
    """One core, one stream and several."""
    table = Table(
        f"what an event more costs, {events:,} and {LARGER * events:,} events (median of {ROUNDS})",
        ("streams", "replay us", "backfill us", "ratio", "replay, fixed s", "backfill, fixed s"),
    )
    with session(folder, **{"spark.master": "local[1]"}) as spark:
        for streams in SLOPE_STREAMS:
            sizes = [recorded(folder, size, streams) for size in (events, LARGER * events)]
            backfill(spark, sizes[0], folder)
            took = [
                [(replay(each), backfill(spark, each, folder)) for each in sizes]
                for _ in range(ROUNDS)
            ]
            replayed, filled = (
                slope(
                    [each.lines for each in sizes],
                    [median(pairs[at][way].cpu_s for pairs in took) for at in range(len(sizes))],
                )
                for way in (0, 1)
            )
            table.add(
                str(streams),
                f"{replayed.event_us:.1f}",
                f"{filled.event_us:.1f}",
                f"{replayed.event_us / filled.event_us:.2f}",
                f"{replayed.fixed_s:.2f}",
                f"{filled.fixed_s:.2f}",
            )
            say(" | ".join(table.rows[-1]))
    return table


def measure_bytes(folder: Path, events: int) -> Table:
    """What the tables take on disk, with and without the lines they were made from."""
    each = recorded(folder, events, 1)
    table = Table("bytes of the tables, an event", ("--lines", "bytes"))
    with session(folder) as spark:
        for kept in (True, False):
            out = folder / f"lines-{kept}"
            backfill(spark, each, out, lines=kept)
            size = sum(path.stat().st_size for path in out.rglob("*.parquet"))
            table.add("keep" if kept else "drop", f"{size / each.lines:.0f}")
    return table


def slope(lines: Sequence[int], cpu_s: Sequence[float]) -> Slope:
    """Through two sizes."""
    each_s = (cpu_s[1] - cpu_s[0]) / (lines[1] - lines[0])
    return Slope(cpu_s[0] - each_s * lines[0], each_s * US_PER_S)


def measure(folder: Path, events: int, say: Callable[[str], None]) -> Table:
    """Sessions of its own: how many cores one has is settled at its start."""
    table = Table(
        f"history beside a replay, {events:,} events (median of {ROUNDS} in turn)",
        ("cores, streams", "replay /CPU s", "backfill /CPU s", "ratio", "events/s", "first run /s"),
        note="Streams are the unit of parallelism. The first run of a session is told for each row"
        " where it was the first of all.",
    )
    inputs = {streams: recorded(folder, events, streams) for streams in STREAMS}
    for cores in CORES:
        with session(folder, **{"spark.master": f"local[{cores}]"}) as spark:
            first = backfill(spark, inputs[4], folder)
            for streams, each in inputs.items():
                pairs = [(replay(each), backfill(spark, each, folder)) for _ in range(ROUNDS)]
                replayed = median(each.lines / one.cpu_s for one, _ in pairs)
                filled = median(each.lines / other.cpu_s for _, other in pairs)
                speed = median(each.lines / other.wall_s for _, other in pairs)
                table.add(
                    f"{cores}, {streams}",
                    thousands(replayed),
                    thousands(filled),
                    f"{filled / replayed:.2f}",
                    thousands(speed),
                    thousands(each.lines / first.cpu_s) if streams == 4 else "",
                )
                say(" | ".join(table.rows[-1]))
    return table


def recorded(folder: Path, events: int, streams: int) -> Input:
    name = f"history-{streams}-{events}"
    topology, path = folder / f"{name}.yaml", folder / f"{name}.jsonl"
    names = [f"s{number}" for number in range(streams)]
    lines = ["streams:", *(f"  {name}: {{}}" for name in names), "queries:"]
    lines += [f"  n_{name}: {{stream: {name}, {WINDOW[1:]}" for name in names]
    topology.write_text("\n".join(lines) + "\n")
    rows = crowd(events, seed=3).rows
    with path.open("w") as file:
        for number, row in enumerate(rows):
            # A stream has sources of its own, as many as the crowd has.
            stream = names[number // 20 % streams]
            line = {"stream": stream, "source": row.source, "seq": row.seq, "ts": row.ts_ns}
            payload = {"v": number % 100, "k": "xy"[number % 2]}
            line |= {"arrival": row.arrival_ns, "type": "A", "payload": payload}
            file.write(json.dumps(line) + "\n")
    return Input(topology, path, len(rows))


def replay(each: Input) -> Took:
    words = ("replay", "--json", "--topology", str(each.topology), str(each.events))
    done = subprocess.run(
        [sys.executable, "-m", "inorder_engine", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    account = json.loads(done.stderr.splitlines()[-1])
    return Took(account["in"] / account["events_per_cpu_second"], account["seconds"])


def backfill(spark: SparkSession, each: Input, folder: Path, *, lines: bool = True) -> Took:
    from cli.topology_file import load
    from spark_analytics.backfill.place import Place
    from spark_analytics.backfill.run import Wanted, run
    from spark_analytics.executors.setting import setting_of

    topology = load(str(each.topology))
    out = str(folder / "history" / uuid.uuid4().hex)
    begun_s, cpu_s = time.perf_counter(), tree_cpu_s()
    place = Place(out)
    try:
        setting = setting_of(str(each.topology), topology)
        run(spark, setting, topology, Wanted([str(each.events)], out, lines=lines), place)
    finally:
        place.give_up()
    return Took(tree_cpu_s() - cpu_s, time.perf_counter() - begun_s)


def tree_cpu_s() -> float:
    """What this process, all below it, and those of them that are gone have taken."""
    stats = dict(filter(None, map(_stat, Path("/proc").glob("[0-9]*"))))
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        below.setdefault(parent, []).append(pid)
    return sum(stats[pid][1] for pid in _all_below(_self(), below) if pid in stats)


def _stat(place: Path) -> tuple[int, tuple[int, float]] | None:
    try:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = sum(int(field) for field in fields[11:15])  # its own, and its children's that ended
    return int(place.name), (int(fields[1]), ticks / TICKS_PER_S)


def _self() -> int:
    return int(Path("/proc/self").resolve().name)


def _all_below(pid: int, below: dict[int, list[int]]) -> Iterable[int]:
    yield pid
    for child in below.get(pid, ()):
        yield from _all_below(child, below)
