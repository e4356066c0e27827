"""Examples: rows at a rate, and the table; end to end: a worker under a steady stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.streaming import SUBJECTS, Cost, at_rate, measured, table_of
from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.services import SharedKafka

MS = 1_000_000


def test_events_come_at_the_rate_with_the_delays_they_have() -> None:
    rows = at_rate(100, 10)
    usual = crowd(1_000).rows
    span_s = (rows[-1].ts_ns - rows[0].ts_ns) / 1e9
    assert len(rows) == len(usual)
    assert 9 < span_s < 11
    assert sorted(row.arrival_ns - row.ts_ns for row in rows) == pytest.approx(
        sorted(row.arrival_ns - row.ts_ns for row in usual), abs=RATE_HZ
    )
    assert [row.arrival_ns for row in rows] == sorted(row.arrival_ns for row in rows)


def test_what_is_read_out_is_held_against_the_bare_loop_of_the_same_rate() -> None:
    found = {
        ("bare confluent loop", 100): Cost(0.1, 1.0, [MS] * 100),
        ("reorder+merge", 100): Cost(0.4, 1.0, [2 * MS] * 100),
        ("reorder+merge", 0): Cost(0.01, 1.0, []),
    }
    rows = table_of(found).rows
    assert rows[1][1:] == ("100", "0.1 k", "40.0", "0.2 k", "0.25", "2.00", "2.00")
    assert rows[2][3:] == ("1.0", "-", "-", "-", "-")


@pytest.mark.kafka
@pytest.mark.long
def test_a_worker_under_a_stream_is_measured(kafka: SharedKafka, tmp_path: Path) -> None:
    cost = measured(SUBJECTS["fused"], tmp_path, kafka.bootstrap, 200, 1.0)
    assert cost.cpu_s > 0
    assert len(cost.delays_ns) > 50
