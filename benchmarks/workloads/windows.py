"""Make the streams of ProbSlack (Rivetti et al., DEBS 2018, 4.2), and three that change.

There is one source with whole ms and no disorder: time_i = time_(i-1) + g_i, arrival = time + d_i,
at least the arrival before. The `kinds` are:

| kind    | time between events g                  | delay d                         |
|---------|----------------------------------------|---------------------------------|
| CB      | 20                                     | 1 + Bin(10, 0.5), mean 6        |
| BB      | 15 + Bin(20, 0.25), mean 20            | as CB                           |
| BZ      | as BB                                  | Zipf 0.2 on 1..11, mean 5.56    |
| ZB      | Zipf 1.1 on 15..35, mean 19.26         | as CB                           |
| ZZ      | as ZB                                  | as BZ                           |
| drift   | a third each: 20; 20 + Bin(20, 0.25); as BB | as CB; 6 + Bin(9, 0.5); as BZ |
| bursts  | as BB                                  | as CB; 150 ms stall every 5 s   |

The Zipf means are those of the printed exponents, not the paper's nominal 6 and 20. A stream is a
list of (time, arrival) in ns.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from random import Random
from typing import Final

from benchmarks.workloads.laws import BASE, DELAYS, MS, generator

Draw = Callable[[Random], int]
Stream = list[tuple[int, int]]

EVENTS: Final = 100_000
STALL_MS: Final = 150
STALL_EVERY_MS: Final = 5_000


def discrete(masses: dict[int, float]) -> Draw:
    """Return a function that draws a value with the probabilities in `masses`, by inversion."""
    sums: list[tuple[float, int]] = []
    so_far = 0.0
    for value in sorted(masses):
        so_far += masses[value]
        sums.append((so_far, value))
    largest = sums[-1][1]

    def draw(rng: Random) -> int:
        u = rng.random()
        for sum_, value in sums:
            if sum_ > u:
                return value
        return largest

    return draw


def binomial(low: int, n: int, p: float) -> Draw:
    return discrete({low + k: comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)})


def zipf(low: int, high: int, alpha: float) -> Draw:
    weights = {value: (value - low + 1) ** -alpha for value in range(low, high + 1)}
    whole = sum(weights.values())
    return discrete({value: weight / whole for value, weight in weights.items()})


def constant(value: int) -> Draw:
    return lambda _: value


C: Final = constant(20)
B: Final = binomial(15, 20, 0.25)
Z: Final = zipf(15, 35, 1.1)
SHORT: Final = binomial(1, 10, 0.5)
FLAT: Final = zipf(1, 11, 0.2)

STATIC: Final[dict[str, tuple[Draw, Draw]]] = {
    "CB": (C, SHORT),
    "BB": (B, SHORT),
    "BZ": (B, FLAT),
    "ZB": (Z, SHORT),
    "ZZ": (Z, FLAT),
}
CHANGING: Final = ("drift", "bursts")


def stream(kind: str, seed: int, events: int = EVENTS) -> Stream:
    if kind == "drift":
        return drift(seed, events)
    if kind == "bursts":
        return bursts(seed, events)
    return _draw([(events, *STATIC[kind])], seed)


def drift(seed: int, events: int = EVENTS) -> Stream:
    third = events // 3
    phases = [
        (third, C, SHORT),
        (third, binomial(20, 20, 0.25), binomial(6, 9, 0.5)),
        (events - 2 * third, B, FLAT),
    ]
    return _draw(phases, seed)


def bursts(seed: int, events: int = EVENTS) -> Stream:
    """Make a stream with stalls; events of a stall arrive together at its end."""
    stalled: Stream = []
    for ts_ns, arrival_ns in stream("BB", seed, events):
        into_ms = arrival_ns // MS % STALL_EVERY_MS
        late_ns = (STALL_MS - into_ms) * MS if into_ms < STALL_MS else 0
        stalled.append((ts_ns, arrival_ns + late_ns))
    return stalled


def _draw(phases: list[tuple[int, Draw, Draw]], seed: int) -> Stream:
    gaps, delays = generator(seed, BASE), generator(seed, DELAYS)
    drawn: Stream = []
    ts = arrival = 0
    for events, apart, delay in phases:
        for _ in range(events):
            ts += apart(gaps)
            arrival = max(arrival, ts + delay(delays))
            drawn.append((ts * MS, arrival * MS))
    return drawn
