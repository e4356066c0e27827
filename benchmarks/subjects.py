"""What the rules of REORDER are measured on.

`cap` is `max_wait` of the rules that adapt, `waits` the grid of `fixed`. Where events
travel for many seconds, as in the radio network, both are longer than the default.
Those traces are here whose numbers really overtake each other.
A subject whose trace is absent raises `TraceAbsent` when its rows are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.traces import TRACES
from benchmarks.workloads import (
    D1,
    D2,
    D3,
    Recipe,
    bursts,
    lose,
    loss_storm,
    rate_steps,
    regimes,
    soccer,
)
from benchmarks.workloads.laws import MS, S
from benchmarks.workloads.rows import Row
from topology.model.event import NO_EPOCH

USUAL_CAP_NS: Final = 500 * MS
USUAL_WAITS_NS: Final = tuple(ms * MS for ms in (1, 2, 5, 10, 20, 50, 100, 200, 500))
RADIO_CAP_NS: Final = 60 * S
RADIO_WAITS_NS: Final = tuple(
    ms * MS for ms in (50, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000)
)


@dataclass(frozen=True, slots=True)
class Subject:
    """`rows` makes them; `epoch` is what the events say of theirs."""

    name: str
    group: str
    rows: Callable[[], Sequence[Row]]
    cap_ns: int = USUAL_CAP_NS
    waits_ns: tuple[int, ...] = USUAL_WAITS_NS
    epoch: int = 0


SYNTHETIC: Final = "synthetic"
LOSSY: Final = "lossy"
CHANGING: Final = "changing"
TRACE: Final = "traces"
GROUPS: Final = (SYNTHETIC, LOSSY, CHANGING, TRACE)


def subjects(divisor: int = 1) -> list[Subject]:
    """All of them; the recipes `divisor` times shorter, which changes their tails."""

    def of(recipe: Recipe) -> Recipe:
        return recipe if divisor == 1 else recipe.shortened(divisor)

    def losing(share: float) -> Callable[[], Sequence[Row]]:
        return lambda: lose(soccer(of(D1)), share).rows

    def trace(name: str) -> Callable[[], Sequence[Row]]:
        return lambda: [row.row() for row in TRACES[name]()]

    return [
        Subject("D1", SYNTHETIC, lambda: soccer(of(D1)).rows),
        Subject("D2", SYNTHETIC, lambda: soccer(of(D2)).rows),
        Subject("D3", SYNTHETIC, lambda: soccer(of(D3)).rows),
        Subject("D1 - 0.1 %", LOSSY, losing(0.001)),
        Subject("D1 - 1 %", LOSSY, losing(0.01)),
        Subject("regimes", CHANGING, lambda: regimes().rows),
        Subject("bursts", CHANGING, lambda: bursts().rows),
        Subject("rate_steps", CHANGING, lambda: rate_steps().rows),
        Subject("loss_storm", CHANGING, lambda: loss_storm().rows),
        *(
            Subject(name, TRACE, trace(name), RADIO_CAP_NS, RADIO_WAITS_NS, NO_EPOCH)
            for name in ("mesh_sensors/tdma_interference", "mesh_sensors/shared_high_load")
        ),
        *(
            Subject(name, TRACE, trace(name), epoch=NO_EPOCH)
            for name in ("jr_umts/d1", "jr_umts/d2", "jr_umts/d4")
        ),
    ]
