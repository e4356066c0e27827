"""Examples: real clocks, compared with their recorded offsets.

The phones are eight phones of jr_umts, up to 30 s wrong, with t1 to t4 of every message over UMTS.
The record holds the phone's offset by NTP, itself an estimate that is constant for ten minutes. It
turns t1 and t4 back to the phone's own clock. So the recorded offset is good to the few ms that NTP
over UMTS gives.

The balloons are loggers 83 to 142 s behind GPS, with both clocks in whole seconds. Every row is a
reading of both: a round without travel, good to a second. Later rows check the estimate from
earlier rows.

The traces lie outside the project (`benchmarks.traces`). The tests are skipped without them.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from benchmarks.published.clock import ThesisClock
from benchmarks.traces import MS, TRACES, S, TraceRow
from tests.end_to_end.recordings import recorded
from topology.base.sample import Sample
from topology.config import ClockConfig
from topology.order.clock.measured import MeasuredClock

WIDE_NS = 10 * S
FIRST = 10
"""Rounds before the first comparison, as in a burst."""

EVERY = 4
"""Every fourth message is used, one in two seconds."""

SECOND_HAND = 1
"""The granularity of both clocks in seconds."""


class Found(NamedTuple):
    """One source's figures over all comparisons, in ms."""

    mean_error: float
    mean_bound: float
    outside: int
    segments: int
    falsetickers: int


def sources(name: str) -> dict[str, list[TraceRow]]:
    by_source: dict[str, list[TraceRow]] = {}
    for row in recorded(TRACES[name]):
        by_source.setdefault(row.source, []).append(row)
    return by_source


def phone(rows: list[TraceRow], model: MeasuredClock | ThesisClock) -> Found:
    errors_ns, bounds_ns, outside = 0, 0, 0
    for at, row in enumerate(rows):
        offset_ns = int(row.payload["ntp_offset_ms"]) * MS
        t1, t2, t3, t4 = (int(row.payload[f"t{i}_ms"]) * MS for i in (1, 2, 3, 4))
        stamp_ns = t4 - offset_ns
        model.add(Sample(row.source, t1 - offset_ns, t2, t3, stamp_ns, row.arrival_ns))
        if at >= FIRST:
            cell = model.cell(stamp_ns)
            error_ns = abs(cell.offset_at(stamp_ns) - offset_ns)
            bound_ns = cell.error_at(stamp_ns)
            errors_ns += error_ns
            bounds_ns += bound_ns
            outside += error_ns > bound_ns
    n = (len(rows) - FIRST) * MS
    return Found(errors_ns / n, bounds_ns / n, outside, model.segment, model.falsetickers)


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("session", ["d1", "d2", "d4"])
def test_phone_errors_are_within_bounds(session: str) -> None:
    """Mean errors stay below twice those of the least round trip of a whole session. That is hard
    to beat if a clock is steady and the fastest ways there and back coincide.
    """
    config = ClockConfig(granularity_ns=MS, max_error_ns=WIDE_NS)
    ours_ms = theirs_ms = 0.0
    for name, rows in sources(f"jr_umts/{session}").items():
        found = phone(rows[::EVERY], MeasuredClock(config))
        assert found.outside == 0, name
        assert (found.segments, found.falsetickers) == (0, 0), name
        assert found.mean_error < 45, name
        assert found.mean_bound < 100, name
        ours_ms += found.mean_error
        theirs_ms += phone(rows[::EVERY], ThesisClock(config)).mean_error
    assert ours_ms < 2 * theirs_ms


@pytest.mark.in_turns(3)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "offset_s"), [("b1", 117), ("b2", 142), ("b3", 83)])
def test_balloon_errors_are_within_bounds(name: str, offset_s: int) -> None:
    rows = sources("balloon_clocks")[name]
    config = ClockConfig(granularity_ns=SECOND_HAND * S, max_error_ns=WIDE_NS)
    model = MeasuredClock(config)
    for row in rows[: len(rows) // 2 : 15]:
        stamp_ns, gps_ns = row.ts_ns, int(row.payload["gps_s"]) * S
        model.add(Sample(name, stamp_ns, gps_ns, gps_ns, stamp_ns, row.arrival_ns))
    last_ns = rows[len(rows) // 2].ts_ns
    cell = model.cell(last_ns)
    assert abs(cell.offset_at(last_ns) - offset_s * S) <= S
    assert cell.error_at(last_ns) <= SECOND_HAND * S
    assert (model.segment, model.falsetickers, model.jumps) == (0, 0, 0)
    later = rows[len(rows) // 2 :: 15]
    for row in later:
        cell = model.cell(row.ts_ns)
        read_ns = int(row.payload["gps_s"]) * S - row.ts_ns
        # The reading itself is only exact to the granularity.
        error_ns = cell.error_at(row.ts_ns) + SECOND_HAND * S
        assert abs(cell.offset_at(row.ts_ns) - read_ns) <= error_ns
