"""Examples that check the oracle of the four waiting rules by hand."""

from __future__ import annotations

from tests.oracle.histogram import UNIT, Histogram, upper_edge
from tests.oracle.waits import Filled, History, Left, Opened, miss, rfc, thesis


def test_buckets_are_eighths_of_an_octave() -> None:
    assert [upper_edge(v) for v in (-5, 0, 7, 8, 15, 16, 17, 18, 31, 32, 35, 36)] == [
        *(0, 0, 7, 8, 15, 17, 17, 19, 31, 35, 35, 39)
    ]
    for value in (1_000, 999_999, 10**9, 2**60):
        assert value <= upper_edge(value) <= value * 9 // 8


def test_a_quantile_is_the_smallest_edge_that_keeps_the_target() -> None:
    counts = Histogram()
    assert counts.quantile_ns(0) == 0
    for value in (1, 2, 3, 4):
        counts.add(value)
        counts.count()
    assert [counts.quantile_ns(ppm) for ppm in (0, 249_999, 250_000, 500_000, 10**6)] == [
        *(4, 4, 3, 2, 0)
    ]
    for _ in range(4_092):
        counts.count()
    assert counts.n == 2_048 * UNIT
    assert (sum(counts.counts.values()), counts.values) == (4 * UNIT // 2, 4)


def test_the_miss_rule() -> None:
    happenings: list[Opened | Filled] = []

    def wait(source: str, max_wait_ns: int = 10_000) -> int:
        rule = miss(100_000, max_wait_ns)
        return rule(0, History(source, happenings, list))

    for _ in range(31):
        happenings += [Opened("a"), Filled("a", 100)]
    assert wait("a") == 10_000  # neither the source nor the stream is warm
    happenings += [Opened("a"), Filled("a", 100)]
    assert wait("a") == wait("b") == 103 * 5 // 4  # b starts from the stream's counts
    assert wait("a", max_wait_ns=90) == 90
    happenings += [Opened("a")] * 400
    assert wait("a") == 0  # 32 of 432 were ever filled: less than one in ten


def test_the_printed_rule_by_hand() -> None:
    warm: list[Opened | Filled] = [Opened("s")] * 100
    left = [Left(0, seq, at, at, unheld=True) for seq, at in enumerate((0, 10, 30, 70))]
    left += [Left(0, 5, 80, 100, unheld=False)]
    history = History("s", warm, lambda: left)
    # x = 10, 20, 40: avg 10, 14, 24; dev (updated) 6, then .6*6 + .4*16 = 10 -> 24 + 2*10.
    assert thesis(1_000)(0, history) == 44
    # dev (old) 10, then .6*10 + .4*26 = 16 -> 24 + 4*16.
    assert rfc(1_000)(0, history) == 88
    assert thesis(30)(0, history) == 30
    assert thesis(1_000)(0, History("s", warm[:99], lambda: left)) == 1_000
    held = [*left, Left(0, 6, 80, 400, unheld=False)]
    # Holds 20, 320: avg 140, dev 180 (updated) -> 500.
    assert thesis(1_000)(0, History("s", warm, lambda: held)) == 500
