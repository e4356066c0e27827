"""Rebuild the disordered soccer streams of S. Rajendran's thesis (2019, ch. 5).

The thesis took pieces of the DEBS 2013 recording: four balls at 2 kHz, shoe and hand sensors at 200
Hz. It injected 62 473, 62 409 and 83 212 descents. Here a generated stream of the same rates
replaces the recording. The laws of the delays are chosen to give the thesis's gap statistics.

* Base: each sensor has a phase u * period, drawn with the jitter of its first
  sample. Sample k is at T0 + int(phase + k * period + (u - 0.5) * 0.2 * period).
  The jitter of the next sample is drawn when the one before it is taken. Merged by
  (time, sensor); equal times are pushed apart by 1 ns. `seq` counts in time order.
* Victims: positions 1 .. n-2, shuffled, taken while neither neighbour is a victim,
  until there are M. A victim is put back directly after the last non-victim whose
  time is <= its own + delay, and at least after the next one. Victims of one place
  are in decreasing time order, so descents = late = M, by construction.
* A burst (share, count, delay) takes `count` victims from position int(share * n)
  on; all land at (time of the first + delay).
* Arrival is the largest time seen so far.

The cost is O(n log n); the million rows of D3 take about four seconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from random import Random
from typing import Final

from benchmarks.workloads.laws import (
    BASE,
    DELAYS,
    MS,
    VICTIMS,
    Law,
    exponential,
    generator,
    log_normal,
    log_normal_of,
)
from benchmarks.workloads.rows import Row, Workload

T0_NS: Final = 10_753_295_594_424
BALLS: Final = (4, 8, 10, 12)
BALL_PERIOD_NS: Final = 500_000
BODY: Final = range(20, 56)
BODY_PERIOD_NS: Final = 5_000_000
SOURCE_SHIFT_NS: Final = 3 * MS

Burst = tuple[float, int, int]


@dataclass(slots=True)
class Recipe:
    name: str
    n: int
    descents: int
    delay: Law
    bursts: tuple[Burst, ...]

    def shorten(self, divisor: int) -> Recipe:
        """Return a recipe with the same laws and a stream `divisor` times shorter."""
        return replace(self, n=self.n // divisor, descents=self.descents // divisor)


def _d3_delay(rng: Random) -> int:
    u, w = rng.random(), rng.random()
    if u < 0.02:
        return int((350 + 150 * w) * MS)
    return min(60 * MS, log_normal_of(w, 500_000, 1.2))


D1: Final = Recipe(
    "D1",
    499_982,
    62_473,
    exponential(170_000, cap_ns=5 * MS),
    ((0.48, 3, 750 * MS), (0.84, 2, 980 * MS)),
)
D2: Final = Recipe(
    "D2",
    499_499,
    62_409,
    log_normal(200_000, 1.4, cap_ns=60 * MS),
    ((0.165, 19, 1_800 * MS), (0.60, 8, 400 * MS)),
)
D3: Final = Recipe("D3", 999_499, 83_212, _d3_delay, ((0.20, 17, 30_000 * MS),))


def soccer(recipe: Recipe, seed: int = 1) -> Workload:
    """Make a workload in which the one source "0" sends the whole stream."""
    times = base_times(recipe.n, generator(seed, BASE))
    victims = _choose(recipe, generator(seed, VICTIMS))
    delays = _delays(recipe, times, victims, generator(seed, DELAYS))
    order = _arrival_order(times, victims, delays)
    rows: list[Row] = []
    newest = times[0]
    for position in order:
        newest = max(newest, times[position])
        rows.append(Row(newest, "0", position, times[position]))
    return Workload(recipe.name, seed, rows)


def base_times(n: int, rng: Random) -> list[int]:
    """Return `n` strictly increasing times of the forty sensors."""
    draw = rng.random
    upcoming: list[tuple[int, int, int, float, int]] = []
    periods = [(ball, BALL_PERIOD_NS) for ball in BALLS] + [(body, BODY_PERIOD_NS) for body in BODY]
    for sensor, period_ns in periods:
        phase = draw() * period_ns
        first = T0_NS + int(phase + (draw() - 0.5) * 0.2 * period_ns)
        upcoming.append((first, sensor, 0, phase, period_ns))
    heapify(upcoming)
    times: list[int] = []
    last = 0
    for _ in range(n):
        time_ns, sensor, k, phase, period_ns = upcoming[0]
        last = time_ns if time_ns > last else last + 1
        times.append(last)
        k += 1
        following = T0_NS + int(phase + k * period_ns + (draw() - 0.5) * 0.2 * period_ns)
        heapreplace(upcoming, (following, sensor, k, phase, period_ns))
    return times


def _choose(recipe: Recipe, rng: Random) -> list[int]:
    """Return the positions of the victims, ascending."""
    positions = list(range(1, recipe.n - 1))
    rng.shuffle(positions)
    taken = bytearray(recipe.n)
    left = recipe.descents
    for position in positions:
        if left == 0:
            break
        if not (taken[position - 1] or taken[position + 1]):
            taken[position] = 1
            left -= 1
    return [position for position in range(recipe.n) if taken[position]]


def _delays(recipe: Recipe, times: list[int], victims: list[int], rng: Random) -> list[int]:
    delays = [recipe.delay(rng) for _ in victims]
    for share, count, delay_ns in recipe.bursts:
        first = bisect_left(victims, int(share * recipe.n))
        landing = times[victims[first]] + delay_ns
        for i in range(first, first + count):
            delays[i] = landing - times[victims[i]]
    return delays


def _arrival_order(times: list[int], victims: list[int], delays: list[int]) -> list[int]:
    """Return the positions of the samples in order of arrival."""
    is_victim = bytearray(len(times))
    for position in victims:
        is_victim[position] = 1
    calm = [position for position in range(len(times)) if not is_victim[position]]
    calm_times = [times[position] for position in calm]
    behind: dict[int, list[int]] = {}
    for rank, (position, delay_ns) in enumerate(zip(victims, delays, strict=True)):
        # This is the index in `calm` of position + 1, with `rank` victims before it.
        next_calm = position - rank
        place = bisect_right(calm_times, times[position] + delay_ns) - 1
        behind.setdefault(max(place, next_calm), []).append(position)
    order: list[int] = []
    for place, position in enumerate(calm):
        order.append(position)
        order.extend(reversed(behind.get(place, ())))
    return order
