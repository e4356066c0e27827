"""Oracle: the histogram matches a slow version of itself. Examples: the rules of the timeout."""

from __future__ import annotations

from random import Random

import pytest

from tests.topology.base import oracle_histogram as oracle
from topology.order.reorder.timeout import FillTimes, Miss
from topology.state.histogram import Histogram, bucket_of, upper_edge_ns

MISS_PPM = (0, 1_000, 10_000, 300_000, 1_000_000)


def test_bucket_edge_is_its_largest_time() -> None:
    values = [*range(2_000), *(2**k + d for k in range(11, 62) for d in (-1, 0, 1, 12_345))]
    for value_ns in values:
        assert upper_edge_ns(bucket_of(value_ns)) == oracle.upper_edge(value_ns)
    assert bucket_of(-5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("miss_ppm", MISS_PPM)
def test_tail_edge_matches_oracle(miss_ppm: int) -> None:
    rng = Random(miss_ppm)
    fast, slow = Histogram(miss_ppm), oracle.Histogram()
    for _ in range(10_000):
        value_ns = int(rng.expovariate(1.0) * 10 ** rng.choice((3, 3, 6)))
        fate = rng.random()
        if fate < 0.8:
            fast.add(value_ns)
        elif fate < 0.9:
            fast.trial()
        else:
            fast.add_to_bucket(bucket_of(value_ns))
        if fate < 0.8 or fate >= 0.9:
            slow.add(value_ns)
        if fate < 0.9:
            slow.count()
        if rng.random() < 0.02:
            assert fast.edge_ns() == slow.quantile_ns(miss_ppm)
            again = Histogram(miss_ppm)
            again.load(fast.dump())
            assert again.edge_ns() == fast.edge_ns()


def test_warm_source_uses_own_fill_times() -> None:
    """A new source uses the fill times of the pool."""
    pool = FillTimes(100_000)
    slow, fast, new = (Miss(10_000, pool) for _ in range(3))
    assert new.wait_ns() == 10_000  # Nothing is known yet.
    for _ in range(32):
        for source, fill_ns in ((slow, 4_000), (fast, 100)):
            source.note_opened()
            source.note_filled(fill_ns)
    assert fast.wait_ns() == 103 * 5 // 4
    assert slow.wait_ns() == upper_edge_ns(bucket_of(4_000)) * 5 // 4
    assert new.wait_ns() == slow.wait_ns()  # Half of the pool's fill times are slow.


def test_few_gaps_need_longer_wait() -> None:
    """One gap of 1,000 may be missed: after 32 gaps the wait is longer, after 1,000 it is not."""
    times = FillTimes(1_000)
    waits = []
    for holes in range(1, 1_101):
        times.note_opened()
        times.record_fill(bucket_of(100))
        if holes in (32, 64, 999, 1_000, 1_100):
            waits.append(times.wait_ns())
    plain = 103 * 5 // 4
    assert waits == [plain * 10 // 6, plain * 10 // 7, plain, plain, plain]
