"""Make streams whose delays, rate or loss change while they run, to test adaptation.

A stream is a list of phases. In each phase an event is sent every 1/rate seconds, is lost with
probability `lost`, and is delayed by `delay`. In every `stall_every_ns` of arrival time, nothing
arrives for `stall_ns`. Events that would have arrived then arrive together at the end, in the order
in which they were sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.workloads.laws import (
    DELAYS,
    LOSSES,
    MS,
    START_NS,
    Law,
    S,
    constant,
    exponential,
    generator,
    log_normal,
    sometimes,
)
from benchmarks.workloads.rows import Row, Workload, in_arrival_order


@dataclass(slots=True)
class Phase:
    seconds: int
    rate_hz: int
    delay: Law
    lost: float = 0.0
    stall_ns: int = 0
    stall_every_ns: int = 5 * S


def tail(mean_ns: int, share: float = 0.1) -> Law:
    """Return a law of 1 ms, plus an exponential delay for `share` of the events."""
    slow = exponential(mean_ns)
    return sometimes(share, lambda rng: 1 * MS + slow(rng), constant(1 * MS))


_REGIMES: Final = [
    Phase(20, 1000, tail(2 * MS)),
    Phase(20, 1000, tail(40 * MS)),
    Phase(20, 1000, log_normal(5 * MS, 1.0)),
    Phase(20, 1000, tail(2 * MS)),
]
_BURSTS: Final = [
    Phase(20, 1000, tail(5 * MS)),
    Phase(40, 1000, tail(5 * MS), stall_ns=300 * MS),
    Phase(20, 1000, tail(5 * MS)),
]
_RATE_STEPS: Final = [
    Phase(20, 200, tail(20 * MS)),
    Phase(60, 5, tail(20 * MS)),
    Phase(20, 2000, tail(20 * MS)),
    Phase(20, 200, tail(20 * MS)),
]
_LOSS_STORM: Final = [
    Phase(20, 1000, tail(10 * MS)),
    Phase(20, 1000, tail(10 * MS), lost=0.05),
    Phase(20, 1000, tail(10 * MS), lost=0.001),
]


def regimes(seed: int = 1, source: str = "s0") -> Workload:
    """Make a stream whose delay law changes three times: short, long, another shape, short."""
    return phase("regimes", _REGIMES, seed, source)


def bursts(seed: int = 1, source: str = "s0") -> Workload:
    """Make a stream whose network stalls in mid-stream, for 300 ms out of every 5 s."""
    return phase("bursts", _BURSTS, seed, source)


def rate_steps(seed: int = 1, source: str = "s0") -> Workload:
    """Make a stream sent at 200, 5, 2000 and 200 Hz under one delay law."""
    return phase("rate_steps", _RATE_STEPS, seed, source)


def loss_storm(seed: int = 1, source: str = "s0") -> Workload:
    """Make a stream that loses no events, then 5 %, then 0.1 %."""
    return phase("loss_storm", _LOSS_STORM, seed, source)


def phase(name: str, phases: list[Phase], seed: int, source: str) -> Workload:
    """Make a stream of phases; its first and last event are never lost."""
    delays, losses = generator(seed, DELAYS), generator(seed, LOSSES)
    sent = [
        (START_NS + ts_ns, phase)
        for phase, begin in _begins(phases)
        for ts_ns in _stamps(phase, begin)
    ]
    workload = Workload(name, seed, [])
    for seq, (ts_ns, phase) in enumerate(sent):
        if losses.random() < phase.lost and 0 < seq < len(sent) - 1:
            workload.lost.append((source, seq))
            continue
        arrival_ns = _through(phase, ts_ns + phase.delay(delays))
        workload.rows.append(Row(arrival_ns, source, seq, ts_ns))
    workload.rows = in_arrival_order(workload.rows)
    return workload


def _begins(phases: list[Phase]) -> list[tuple[Phase, int]]:
    begins: list[tuple[Phase, int]] = []
    begin_s = 0
    for phase in phases:
        begins.append((phase, begin_s * S))
        begin_s += phase.seconds
    return begins


def _stamps(phase: Phase, begin_ns: int) -> range:
    return range(begin_ns, begin_ns + phase.seconds * S, S // phase.rate_hz)


def _through(phase: Phase, arrival_ns: int) -> int:
    into_ns = (arrival_ns - START_NS) % phase.stall_every_ns
    return arrival_ns + phase.stall_ns - into_ns if into_ns < phase.stall_ns else arrival_ns
