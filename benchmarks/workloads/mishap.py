"""Rows that lose events, or carry some of them twice."""

from __future__ import annotations

from benchmarks.workloads.laws import COPIES, LOSSES, MS, Law, exponential, generator
from benchmarks.workloads.rows import Row, Workload, in_arrival_order

_COPY_DELAY = exponential(20 * MS)


def lose(workload: Workload, share: float) -> Workload:
    """Every row is lost with probability `share`, but a source's smallest and largest
    number: what is missing outside of them can be known to nobody."""
    rng = generator(workload.seed, LOSSES)
    edges = _edges(workload.rows)
    kept: list[Row] = []
    lost: list[tuple[str, int]] = []
    for row in workload.rows:
        at_edge = row.seq in edges[row.source]
        if rng.random() < share and not at_edge:
            lost.append((row.source, row.seq))
        else:
            kept.append(row)
    name = f"{workload.name} - {share:.2%}"
    return Workload(name, workload.seed, kept, workload.lost + lost, workload.doubled)


def double(workload: Workload, share: float, delay: Law = _COPY_DELAY) -> Workload:
    """Every row comes a second time with probability `share`, after `delay`."""
    rng = generator(workload.seed, COPIES)
    copies = [
        row._replace(arrival_ns=row.arrival_ns + delay(rng))
        for row in workload.rows
        if rng.random() < share
    ]
    doubled = workload.doubled + [(row.source, row.seq) for row in copies]
    rows = in_arrival_order(workload.rows + copies)
    return Workload(f"{workload.name} + {share:.2%}", workload.seed, rows, workload.lost, doubled)


def _edges(rows: list[Row]) -> dict[str, tuple[int, int]]:
    edges: dict[str, tuple[int, int]] = {}
    for row in rows:
        low, high = edges.get(row.source, (row.seq, row.seq))
        edges[row.source] = (min(low, row.seq), max(high, row.seq))
    return edges
