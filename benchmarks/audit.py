"""`inorder audit` of a million records: seconds, memory, and its numbers beside brute force.

    python -m benchmarks audit [--full | --picture PATH]

A plant of machines (`workloads.machines`) is written as CSV and read by the command in a process of
its own; memory is the most that process had (not as rusage has it, where the parent's counts). The
numbers beside it are counted from the rows. `--picture PATH` writes the picture of docs/audit.md.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.tables import Page, Table
from benchmarks.workloads.machines import MS, S, plant
from cli.audit.pictures import windows_picture
from producers.recording.audit.findings import Asked, audited
from producers.recording.audit.row import ONE_ORDER, AuditRow

MEASURED: Final = """
import sys, time
from cli.main import main
begun = time.perf_counter()
try:
    main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
peak_kb = next(int(line.split()[1]) for line in open("/proc/self/status") if "VmHWM" in line)
cpu_s = time.process_time()
print(time.perf_counter() - begun, cpu_s, peak_kb / 1024, code, file=sys.stderr)
"""
MACHINES: Final = 50
BOUND_NS: Final = 5 * S
WINDOW_NS: Final = 60 * S


@click.command("audit")
@click.option("--full", is_flag=True, help="A million records, not a tenth.")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False))
def command(full: bool, picture: Path | None) -> None:
    """Prints two tables."""
    if picture is not None:
        picture.write_text(pictured() + "\n", encoding="utf-8")
        return
    records = 1_000_000 if full else 100_000
    rows = plant(1, records + records // 50, MACHINES, lost=0.002, copied=0.003, late=0.02)
    rows = rows[:records]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.csv"
        written(rows, path)
        megabytes = path.stat().st_size / 2**20
        run = subprocess.run(
            [sys.executable, "-c", MEASURED, "audit", str(path), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
    seconds, cpu_s, peak_mb, _ = map(float, run.stderr.split()[-4:])
    page = Page()
    cost = Table(
        "An audit", ("records", "machines", "CSV MB", "seconds", "CPU seconds", "memory MB")
    )
    figures = (f"{megabytes:.0f}", f"{seconds:.1f}", f"{cpu_s:.1f}", f"{peak_mb:.0f}")
    cost.add(f"{len(rows):,}", str(MACHINES), *figures)
    page.table(cost)
    said = json.loads(run.stdout)
    drops = said["windows"]["lateness"][str(BOUND_NS // MS)]
    known = counted(rows)
    found = {name: said.get(name, drops.get(name)) for name in known}
    table = Table("Its numbers", ("number", "audit", "brute force"))
    for name in known:
        table.add(name, f"{found[name]:,}", f"{known[name]:,}")
    page.table(table)


def pictured() -> str:
    """An hour of twelve machines, of which one has a clock that jumps."""
    period_ns = 1_500 * MS
    rows = plant(7, 30_000, 12, period_ns, lost=0.001, copied=0.0005, late=0.004, fast_after=0.6)
    bounds_ns = (0, 1 * S, 5 * S, 30 * S)
    return windows_picture(audited(rows, Asked(WINDOW_NS, bounds_ns, ONE_ORDER, arrives=True)))


def written(rows: Sequence[AuditRow], path: Path) -> None:
    """As CSV in milliseconds."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["device", "n", "time", "received", "force"])
        for at, row in enumerate(rows):
            arrived = (row.arrival_ns or 0) // MS
            table.writerow([row.source, row.seq, row.ts_ns // MS, arrived, at % 997])


def counted(rows: Sequence[AuditRow]) -> dict[str, int]:
    """Straight from the rows, with all of them at hand; a life of a machine ends where its time
    is above all before and its number is 0 again."""
    lives: Counter[str] = Counter()
    newest: dict[str, int] = {}
    numbers: dict[tuple[str, int], set[int]] = {}
    truth: Counter[int] = Counter()
    job: Counter[int] = Counter()
    found = dict.fromkeys(("copies", "missing", "out_of_time", "rows_dropped", "wrong"), 0)
    largest_ns, largest_of_all_ns = -(1 << 63), -(1 << 63)
    for row in rows:
        ts_ns, seq = row.ts_ns // MS * MS, row.seq or 0
        life = numbers.setdefault((row.source, lives[row.source]), set())
        if seq in life and ts_ns > newest[row.source] + 10 * S:
            lives[row.source] += 1
            life = numbers[row.source, lives[row.source]] = set()
        newest[row.source] = max(newest.get(row.source, ts_ns), ts_ns)
        window = ts_ns // WINDOW_NS
        copy = seq in life
        life.add(seq)
        found["copies"] += copy
        truth[window] += not copy
        if (window + 1) * WINDOW_NS <= largest_of_all_ns - BOUND_NS:
            found["rows_dropped"] += 1
        else:
            job[window] += 1
        largest_of_all_ns = max(largest_of_all_ns, ts_ns)
        if not copy:
            found["out_of_time"] += ts_ns < largest_ns
            largest_ns = max(largest_ns, ts_ns)
    for life in numbers.values():
        found["missing"] += max(life) - min(life) + 1 - len(life)
    found["wrong"] = sum(job[window] != truth[window] for window in job | truth)
    return found
