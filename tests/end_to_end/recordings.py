"""Load recorded traces (benchmarks/traces.py) for tests; their files lie outside the project."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.traces import TraceAbsent, TraceRow
from tests.services import without_trace


def recorded(trace: Callable[[], list[TraceRow]]) -> list[TraceRow]:
    """Return the trace, or skip the test if the trace's file is missing."""
    try:
        return trace()
    except TraceAbsent as missing:
        without_trace(missing)


def one_life(rows: Iterable[TraceRow]) -> list[TraceRow]:
    """Return the rows of each source up to its first restart.

    Without epochs, two epochs of a source that is played fast look like one.
    """
    stamps: dict[tuple[str, int], int] = {}
    restarted: set[str] = set()
    kept = []
    for row in rows:
        if stamps.setdefault((row.source, row.seq), row.ts_ns) != row.ts_ns:
            restarted.add(row.source)
        if row.source not in restarted:
            kept.append(row)
    return kept
