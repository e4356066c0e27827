"""Examples and laws: rounds bound the offset of a clock, and a jump of the clock is detected."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inorder.sync.jumps import JumpWatch
from inorder.sync.known import MAX_ROUNDS, WINDOW_NS, Interval, Known

NS_PER_S = 1_000_000_000
DELAY_NS = st.integers(0, 50_000_000)


def test_thesis_example_gives_its_offset() -> None:
    """With t1 = 10,000, t2 = 9,005, t3 = 9,006 and t4 = 10,013, T is 12 and d is -1,001."""
    known = Known(max_skew_ppb=0)
    known.add(10_000, 9_005, 9_006, 10_013)
    interval = known.interval(10_013)
    assert interval == Interval(-1_007, -995)
    assert interval is not None
    assert (interval.offset_ns, interval.error_ns) == (-1_001, 6)


def test_bounds_come_from_two_rounds() -> None:
    known = Known(max_skew_ppb=0)
    known.add(0, 10, 10, 100)  # a fast request, a slow answer
    known.add(200, 290, 290, 300)  # a slow request, a fast answer
    assert known.interval(300) == Interval(-10, 10)


def test_error_grows_by_the_skew() -> None:
    """The upper bound grows from the request on, the lower bound from the answer on."""
    known = Known(max_skew_ppb=100_000)
    known.add(0, 10, 10, 20)
    assert known.interval(20 + NS_PER_S) == Interval(-10 - 100_000, 10 + 100_001)
    assert known.interval(0 - NS_PER_S) == Interval(-10 - 100_001, 10 + 100_000)


def test_contradiction_keeps_newest_round() -> None:
    known = Known(max_skew_ppb=100_000)
    known.add(0, 10, 10, 20)
    known.add(1_000, 5_001_010, 5_001_010, 1_020)
    assert known.contradictions == 1
    assert known.interval(1_020) == Interval(4_999_990, 5_000_011)


def test_number_of_rounds_is_bounded() -> None:
    known = Known(max_skew_ppb=0)
    for number in range(3 * MAX_ROUNDS):
        known.add(number, number + 5, number + 5, number + 10)
    assert len(known) == MAX_ROUNDS
    assert known.span_ns == MAX_ROUNDS - 1
    known.add(WINDOW_NS * 2, WINDOW_NS * 2 + 5, WINDOW_NS * 2 + 5, WINDOW_NS * 2 + 10)
    assert len(known) == 1


def test_no_rounds_give_no_interval() -> None:
    known = Known(max_skew_ppb=0)
    assert known.interval(0) is None
    assert known.span_ns == 0
    known.add(0, 10, 10, 20)
    known.clear()
    assert known.interval(0) is None


@given(
    st.lists(st.tuples(st.integers(0, 20 * NS_PER_S), DELAY_NS, DELAY_NS), max_size=30),
    st.integers(-250_000, 250_000),
    st.integers(-(10**13), 10**13),
)
def test_law_interval_has_true_offset(
    rounds: Sequence[tuple[int, int, int]], skew_ppb: int, offset_ns: int
) -> None:
    """The law holds for all delays in both directions, and for a clock that drifts as far as
    allowed.
    """
    known = Known(max_skew_ppb=250_100)  # 250 ppm of the source's own seconds
    true_ns = 0

    def source(at_ns: int) -> int:
        return at_ns - offset_ns + at_ns * skew_ppb // 10**9

    for pause_ns, forth_ns, back_ns in rounds:
        true_ns += pause_ns
        heard_ns = true_ns + forth_ns
        got_ns = heard_ns + back_ns
        known.add(source(true_ns), heard_ns, heard_ns, source(got_ns))
        true_ns = got_ns
        for ahead_ns in (0, 60 * NS_PER_S):
            at_ns = source(true_ns + ahead_ns)
            interval = known.interval(at_ns)
            assert interval is not None
            truth_ns = true_ns + ahead_ns - at_ns
            assert interval.lower_ns - 1 <= truth_ns <= interval.upper_ns + 1
            assert abs(interval.offset_ns - truth_ns) <= interval.error_ns + 1
    assert known.contradictions == 0


class Clocks:
    """A wall clock and a running clock that a test sets as it likes."""

    def __init__(self, skew_ppb: int = 0) -> None:
        self.run_ns = 1_000 * NS_PER_S
        self.jumped_ns = 0
        self.skew_ppb = skew_ppb

    def stamp_ns(self) -> int:
        return self.run_ns + self.run_ns * self.skew_ppb // 10**9 + self.jumped_ns


@pytest.mark.parametrize("skew_ppb", [-250_000, 250_000])
def test_drift_is_no_jump(skew_ppb: int) -> None:
    clocks = Clocks(skew_ppb)
    watch = JumpWatch(clocks.stamp_ns, 250_000, lambda: clocks.run_ns)
    told_ns = watch.mono_ns
    for pause_s in (1, 60, 3_600, 86_400):
        clocks.run_ns += pause_s * NS_PER_S
        assert watch.check() == 0
    assert watch.mono_ns == told_ns  # A reader would treat any change as a jump.


def test_slow_reading_is_no_jump() -> None:
    """Between the two readings the process is not scheduled for a while, which always differs."""
    clocks = Clocks()
    pauses_ns = [0]

    def hurried_ns() -> int:
        clocks.run_ns += pauses_ns[-1]
        return clocks.run_ns

    watch = JumpWatch(clocks.stamp_ns, 0, hurried_ns)
    for pause_ns in (50_000_000, 0, 20_000_000, 3_000_000):
        pauses_ns.append(pause_ns)
        assert watch.check() == 0
    clocks.jumped_ns = 100_000_000
    assert watch.check() == 1
