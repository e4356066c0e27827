"""Rounds of time sync for tests: from the server's times to samples."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from topology.base.sample import UNKNOWN_MONO, Sample
from topology.config import ClockConfig
from topology.order.clock.cell import ClockCell
from topology.order.clock.measured import MeasuredClock

US = 1_000
MS = 1_000_000
S = 1_000_000_000
AT = 1_750_000_000 * S


def model(**settings: Any) -> MeasuredClock:
    return MeasuredClock(ClockConfig(**settings))


def round_at(
    tau_ns: int,
    offset_ns: int = 0,
    there_ns: int = MS,
    back_ns: int = MS,
    server: str = "",
    segment: int = 0,
    mono_ns: int = UNKNOWN_MONO,
) -> Sample:
    """Return a round that begins at time tau of the server, of a source that is behind by
    `offset_ns`.
    """
    heard_ns = tau_ns + there_ns
    end_ns = heard_ns + back_ns
    times = tau_ns - offset_ns, heard_ns, heard_ns, end_ns - offset_ns, end_ns
    return Sample("s", *times, server=server, segment=segment, mono_ns=mono_ns)


def burst(
    at_ns: int, offset_ns: int = 0, n: int = 4, seed: int = 0, server: str = ""
) -> list[Sample]:
    """Return `n` rounds 20 ms apart, with delays of 0.1 ms and exp(0.2 ms) each way."""
    random = Random(seed * 1_000_003 + at_ns)
    there, back = (
        [100 * US + int(random.expovariate(1 / (200 * US))) for _ in range(n)] for _ in range(2)
    )
    return [round_at(at_ns + i * 20 * MS, offset_ns, there[i], back[i], server) for i in range(n)]


def fed(samples: Iterable[Sample], into: MeasuredClock | None = None) -> MeasuredClock:
    clock = into or model()
    for sample in samples:
        clock.add(sample)
    return clock


def golden() -> Sample:
    """Return the round of spec 2.1, whose true offset is -1 000 ms."""
    t1, t2, t3, t4 = 10_000 * MS, 9_005 * MS, 9_006 * MS, 10_013 * MS
    return Sample("s", t1, t2, t3, t4, t3)


def interval(clock: MeasuredClock, ts_ns: int) -> tuple[int, int]:
    cell = clock.cell(ts_ns)
    offset_ns, error_ns = cell.offset_at(ts_ns), cell.error_at(ts_ns)
    return offset_ns - error_ns, offset_ns + error_ns


def holds(clock: MeasuredClock, ts_ns: int, truth_ns: int) -> bool:
    """Return whether the interval at that time contains the true offset."""
    low_ns, high_ns = interval(clock, ts_ns)
    return low_ns <= truth_ns <= high_ns


def numbers(cell: ClockCell) -> tuple[object, ...]:
    steps = cell.offset_step_ns, cell.error_step_ns
    return cell.start_ns, cell.state, cell.offset_ns, cell.error_ns, *steps


def answers(clock: MeasuredClock, around_ns: int = AT) -> list[tuple[object, ...]]:
    """Return the cells from two minutes before to an hour after."""
    after_s = (-120, -1, 0, 1, 30, 200, 3600)
    return [numbers(clock.cell(around_ns + s * S)) for s in after_s]
