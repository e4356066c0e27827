"""Measure `inorder audit`: seconds, memory, and its figures beside those of brute force.

A plant of machines (`workloads.machines`) is written as CSV and read by the command in a separate
process. The brute-force figures are counted from the rows in another process, so that the memory of
this process stays below the command's.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import harness
from benchmarks.disorder.run import measure_spent
from benchmarks.harness import ROOT, Asked, Figures, Tables, run_in_tree
from benchmarks.tables import Table
from benchmarks.workloads.machines import MS, S, plant
from recordings.audit.row import AuditRow

MACHINES: Final = 50
BOUND_NS: Final = 5 * S
WINDOW_NS: Final = 60 * S


def made(records: int, path: str) -> Figures:
    """Write the plant's rows as CSV in milliseconds, and return the figures counted from them."""
    rows = plant(1, records + records // 50, MACHINES, lost=0.002, copied=0.003, late=0.02)
    rows = rows[:records]
    with Path(path).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["device", "n", "time", "received", "force"])
        for at, row in enumerate(rows):
            arrived = (row.arrival_ns or 0) // MS
            table.writerow([row.source, row.seq, row.ts_ns // MS, arrived, at % 997])
    return {**count(rows)}


def count(rows: Sequence[AuditRow]) -> dict[str, int]:
    """Count the figures directly from all rows.

    A number seen before ends an epoch if its time is more than 10 s after all earlier times of the
    machine.
    """
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


def measure(records: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.csv"
        known = run_in_tree(ROOT, "benchmarks.audit:made", {"records": records, "path": str(path)})
        megabytes = path.stat().st_size / 2**20
        with tempfile.TemporaryFile("w+") as out:
            began_s = time.perf_counter()
            argv = [sys.executable, "-m", "inorder", "audit", str(path), "--json"]
            took = measure_spent(argv, out, ROOT)
            seconds = time.perf_counter() - began_s
            out.seek(0)
            said = json.loads(out.read().splitlines()[-1])
    drops = said["windows"]["lateness"][str(BOUND_NS // MS)]
    table = Table(
        f"an audit of {records:,} records of {MACHINES} machines, {megabytes:.0f} MB",
        ("number", "audit", "brute force"),
        note=f"{seconds:.1f} s, {took.cpu_s:.1f} CPU s, {took.memory_mib:.0f} MiB",
    )
    for name, number in known.items():
        table.add(name, f"{said.get(name, drops.get(name)):,}", f"{number:,.0f}")
    return table


def tables(asked: Asked) -> Tables:
    """Measure an audit: seconds, memory, and its figures beside those of brute force."""
    yield "audit", lambda: measure(1_000_000 if asked.full else 100_000)


command = harness.command(tables)
