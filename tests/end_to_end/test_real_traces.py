"""End to end: recorded disorder of real networks through a real broker.

The traces (benchmarks/traces.py) are played faster than they were recorded, keyed by
source, through both cuts. What comes out is checked record by record, and the raw topic,
dumped with its append times, gives the same through `inorder replay`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.traces import TraceAbsent, TraceRow, jr_umts, mesh_sensors
from benchmarks.workloads.rows import Row, figures
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.replaying import assert_replays
from tests.end_to_end.setting import FUSED, SPLIT, settle
from tests.end_to_end.trouble import play
from tests.services import SharedKafka, without_trace

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SECONDS = 5
"""What a trace is compressed to."""

RECORDS = 6_000
CALM = "tick_lag: 3s\n"


def first(trace: str) -> list[Row]:
    """The first records of a trace, of each source up to its first restart: played this
    fast, two lives of a source without epochs cannot be told apart."""
    try:
        rows: list[TraceRow] = mesh_sensors() if trace == "mesh_sensors" else jr_umts("d1")
    except TraceAbsent as missing:
        without_trace(missing)
    stamps: dict[tuple[str, int], int] = {}
    restarted: set[str] = set()
    kept = []
    for row in rows[:RECORDS]:
        if stamps.setdefault((row.source, row.seq), row.ts_ns) != row.ts_ns:
            restarted.add(row.source)
        if row.source not in restarted:
            kept.append(row.row())
    return kept


@pytest.mark.parametrize(
    ("trace", "stages", "stream"),
    [
        ("mesh_sensors", FUSED, ""),
        ("jr_umts", SPLIT, "reorder: {rule: fixed, max_wait: 300ms, start: zero}"),
    ],
)
def test_trace(kafka: SharedKafka, tmp_path: Path, trace: str, stages: str, stream: str) -> None:
    rows = first(trace)
    assert figures(rows).late > 1_000  # else nothing is shown here
    span_s = (rows[-1].arrival_ns - rows[0].arrival_ns) / 1e9
    partitions = 1 if stages == FUSED else 3
    setting = settle(
        kafka.bootstrap, tmp_path, stages=stages, partitions=partitions, stream=stream, more=CALM
    )
    play(setting, tmp_path, rows, span_s / SECONDS, worker_count=1)
    verdict = assert_sound(setting)
    assert verdict.raw == len(rows)
    replayed = assert_replays(setting, tmp_path)
    assert replayed.summary["duplicate"] == verdict.duplicates
