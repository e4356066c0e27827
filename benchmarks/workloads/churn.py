"""Sources that come and go for as long as wanted, with disorder, loss and copies, row by row.

At any time `sources` of them speak in turn, `rate_hz` events a second in all. Each lives for a
time drawn exponentially (mean `life_s`) and ends without a word; one of a new name takes its
place. An event is 1 ms away; 12 % take an exponential delay (mean 50 ms) on top. 0.05 % are lost
and 0.1 % come twice, as with `crowd`. Rows come in order of arrival; what is kept is what is on
its way, so an hour costs no more memory than a minute.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.workloads.crowd import DOUBLED, LOST
from benchmarks.workloads.laws import (
    BASE,
    COPIES,
    DELAYS,
    LOSSES,
    MS,
    S,
    constant,
    exponential,
    generator,
    sometimes,
)
from benchmarks.workloads.merging import START_NS
from benchmarks.workloads.rows import Row

DELAYED: Final = 0.12
_DISTANCE_NS: Final = 1 * MS
_TAIL: Final = exponential(50 * MS)


@dataclass(slots=True)
class _Source:
    name: str
    ends_ns: int
    next_seq: int = 0


def churn(
    rate_hz: int, seconds: float, *, sources: int = 40, life_s: float = 60.0, seed: int = 1
) -> Iterator[Row]:
    lives, rng, losses, copies = (
        generator(seed, purpose) for purpose in (BASE, DELAYS, LOSSES, COPIES)
    )
    delay = sometimes(DELAYED, _TAIL, constant(0))
    life = exponential(int(life_s * S))
    born = 0

    def new_source(now_ns: int) -> _Source:
        nonlocal born
        born += 1
        return _Source(f"s{born:06d}", now_ns + life(lives))

    speaking = [new_source(START_NS) for _ in range(sources)]
    under_way: list[tuple[int, int, Row]] = []
    for number in range(int(rate_hz * seconds)):
        ts_ns = START_NS + number * S // rate_hz
        while under_way and under_way[0][0] <= ts_ns:
            yield heapq.heappop(under_way)[2]
        turn = number % sources
        if speaking[turn].ends_ns <= ts_ns:
            speaking[turn] = new_source(ts_ns)
        source = speaking[turn]
        seq = source.next_seq
        source.next_seq += 1
        if losses.random() < LOST:
            continue
        arrival_ns = ts_ns + _DISTANCE_NS + delay(rng)
        row = Row(arrival_ns, source.name, seq, ts_ns)
        heapq.heappush(under_way, (arrival_ns, 2 * number, row))
        if copies.random() < DOUBLED:
            arrival_ns += _TAIL(copies)
            copy = row._replace(arrival_ns=arrival_ns)
            heapq.heappush(under_way, (arrival_ns, 2 * number + 1, copy))
    while under_way:
        yield heapq.heappop(under_way)[2]
