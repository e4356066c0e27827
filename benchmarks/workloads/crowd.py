"""Make twenty sources with every kind of disorder: the workload of the core's speed figures.

There are 10 000 events/s in all, and the sources take turns. Each event is delayed by 1 ms; 12 %
have an additional exponential delay (mean 50 ms). 0.05 % of the events are lost. Another 0.1 % are
duplicated, and the duplicate is exponentially later (mean 50 ms). From the tenth second of the
stream (or after a tenth of a shorter one), the source s07 sends nothing for 2 s. About 11.6 % of
the events arrive below their source's highest number.
"""

from __future__ import annotations

from typing import Final

from benchmarks.workloads.laws import (
    BASE,
    COPIES,
    DELAYS,
    LOSSES,
    MS,
    START_NS,
    S,
    constant,
    exponential,
    generator,
    sometimes,
)
from benchmarks.workloads.rows import Row, Workload, in_arrival_order

SOURCES: Final = 20
RATE_HZ: Final = 10_000
SILENT: Final = 7
SILENCE_NS: Final = 2 * S
LOST: Final = 0.0005
DOUBLED: Final = 0.001
_DISTANCE_NS: Final = 1 * MS
_TAIL: Final = exponential(50 * MS)


def crowd(n: int = 1_000_000, seed: int = 1, delayed: float = 0.12) -> Workload:
    """Make a stream of `n` events, less those that the silent source does not send."""
    rng, losses, copies = (generator(seed, purpose) for purpose in (DELAYS, LOSSES, COPIES))
    delay = sometimes(delayed, _TAIL, constant(0))
    silent_from_ns = START_NS + min(10 * S, n * (S // RATE_HZ) // 10)
    workload = Workload(f"crowd {delayed:.0%}", seed, [])
    next_seq = [0] * SOURCES
    first = int(generator(seed, BASE).random() * SOURCES)
    for i in range(n):
        ts_ns = START_NS + i * (S // RATE_HZ)
        turn = (first + i) % SOURCES
        if turn == SILENT and 0 <= ts_ns - silent_from_ns < SILENCE_NS:
            continue
        source, seq = f"s{turn:02d}", next_seq[turn]
        next_seq[turn] += 1
        if losses.random() < LOST:
            workload.lost.append((source, seq))
            continue
        row = Row(ts_ns + _DISTANCE_NS + delay(rng), source, seq, ts_ns)
        workload.rows.append(row)
        if copies.random() < DOUBLED:
            workload.doubled.append((source, seq))
            workload.rows.append(row._replace(arrival_ns=row.arrival_ns + _TAIL(copies)))
    workload.rows = in_arrival_order(workload.rows)
    return workload
