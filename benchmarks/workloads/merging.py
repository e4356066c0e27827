"""Work for the merge: each source in sequence, their delays and rates unlike.

Source i of n sends at its rate with a drawn phase and is (2 i + 1) ms away: base
delays of 1 .. 2n-1 ms. To the base comes a log-normal jitter (median 1 ms, sigma
0.8). A source's connection keeps its order, so an event arrives no earlier than
the one before it. The distances and rates are those of the table in
reorder_drift_merge.md 3.2; the jitter's law is a choice of ours, hence figures
measured here compare with one another and not with that table.
"""

from __future__ import annotations

from random import Random
from typing import Final

from benchmarks.workloads.laws import BASE, DELAYS, MS, S, generator, log_normal
from benchmarks.workloads.rows import Row, Workload, in_arrival_order

START_NS: Final = 1_700_000_000 * S
MIXED_HZ: Final = (1000, 200, 20, 2)
_JITTER: Final = log_normal(1 * MS, 0.8)


def unlike_delays(sources: int, seed: int = 1, seconds: int = 30) -> Workload:
    """Every source at 200 Hz."""
    return _merging(f"unlike_delays x{sources}", sources, (200,), seed, seconds)


def mixed_rates(sources: int, seed: int = 1, seconds: int = 30) -> Workload:
    """Rates of 1000, 200, 20, 2 Hz in turn."""
    return _merging(f"mixed_rates x{sources}", sources, MIXED_HZ, seed, seconds)


def _merging(
    name: str, sources: int, rates_hz: tuple[int, ...], seed: int, seconds: int
) -> Workload:
    phases, delays = generator(seed, BASE), generator(seed, DELAYS)
    rows: list[Row] = []
    for i in range(sources):
        period_ns = S // rates_hz[i % len(rates_hz)]
        first_ns = START_NS + int(phases.random() * period_ns)
        stamps = range(first_ns, START_NS + seconds * S, period_ns)
        rows += _connection(f"s{i:02d}", stamps, (2 * i + 1) * MS, delays)
    return Workload(name, seed, in_arrival_order(rows))


def _connection(source: str, stamps: range, distance_ns: int, delays: Random) -> list[Row]:
    rows: list[Row] = []
    arrival_ns = 0
    for seq, ts_ns in enumerate(stamps):
        arrival_ns = max(arrival_ns, ts_ns + distance_ns + _JITTER(delays))
        rows.append(Row(arrival_ns, source, seq, ts_ns))
    return rows
