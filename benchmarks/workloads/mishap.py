"""Remove rows from a workload, as if they had been lost."""

from __future__ import annotations

from benchmarks.workloads.laws import LOSSES, generator
from benchmarks.workloads.rows import Row, Workload


def lose(workload: Workload, share: float) -> Workload:
    """Remove every row with probability `share`, except a source's smallest and largest number.

    Numbers outside these two could not be recognized as missing.
    """
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


def _edges(rows: list[Row]) -> dict[str, tuple[int, int]]:
    edges: dict[str, tuple[int, int]] = {}
    for row in rows:
        low, high = edges.get(row.source, (row.seq, row.seq))
        edges[row.source] = (min(low, row.seq), max(high, row.seq))
    return edges
