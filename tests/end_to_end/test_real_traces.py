"""End to end: recorded events of real networks, out of order, through a real broker.

Traces (benchmarks/traces.py) are played faster than they were recorded, keyed by source, through
both divisions into stages. The output is checked record by record. A replay of the raw topic,
dumped with its arrival times, gives the same.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.traces import TraceRow, read_jr_umts, read_mesh_sensors
from benchmarks.workloads.rows import figures
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.recordings import one_life, recorded
from tests.end_to_end.replaying import assert_replays
from tests.end_to_end.setting import FUSED, SPLIT, Settles
from tests.end_to_end.trouble import play

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SECONDS = 5
"""Seconds to which a trace is compressed."""

RECORDS = 6_000
CALM = "tick_lag: 3s\n"


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    ("trace", "stages", "stream"),
    [
        (read_mesh_sensors, FUSED, ""),
        (
            lambda: read_jr_umts("d1"),
            SPLIT,
            "reorder: {rule: fixed, max_wait: 300ms, start: zero}",
        ),
    ],
    ids=["mesh_sensors", "jr_umts"],
)
def test_trace_matches_its_replay(
    settles: Settles,
    trace: Callable[[], list[TraceRow]],
    stages: str,
    stream: str,
) -> None:
    rows = [row.row() for row in one_life(recorded(trace)[:RECORDS])]
    assert figures(rows).late > 1_000  # Otherwise the test shows nothing.
    span_s = (rows[-1].arrival_ns - rows[0].arrival_ns) / 1e9
    partitions = 1 if stages == FUSED else 3
    setting = settles(stages=stages, partitions=partitions, stream=stream, more=CALM)
    play(setting, rows, span_s / SECONDS, worker_count=1)
    verdict = assert_sound(setting)
    assert verdict.raw == len(rows)
    replayed = assert_replays(setting)
    assert replayed.summary["duplicate"] == verdict.duplicates
