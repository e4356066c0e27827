"""Examples and laws for bounds from arrivals alone. A time is a number of milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.order.clock.one_way import BIN_NS, OneWay, estimate_offset

MS = 1_000_000
MEND_ABOVE = 500 * MS


def noted(*readings: tuple[int, int], skew_ppb: int = 100_000) -> OneWay:
    one_way = OneWay(skew_ppb, MEND_ABOVE)
    for ts, reading in readings:
        one_way.note(ts * MS, reading * MS)
    return one_way


def edge(one_way: OneWay, ts: int) -> float:
    return one_way.edge(ts * MS)[0] / MS


def test_third_smallest_counts() -> None:
    assert edge(noted((0, 50)), 0) == 50
    assert edge(noted((0, 50), (1, 60)), 1) == 50
    assert edge(noted((0, 50), (1, 60), (2, 55)), 2) == 60
    assert edge(noted((0, 50), (1, 60), (2, 55), (3, 54)), 3) == 55


def test_bound_of_earlier_bin_grows_by_skew() -> None:
    one_way = noted((0, 5), (1, 5), (2, 5), (20_000, 30))
    assert edge(one_way, 20_000) == pytest.approx(5 + 15_000 * 1e-4)  # from the middle of the bin
    assert edge(one_way, 5_000 + 300_000) == 30  # the older one is 35 by now, so the newer holds


def test_bound_survives_an_outage() -> None:
    one_way = noted((0, 5), (1, 5), (2, 5), *((600_000 + i, 400_000) for i in range(9)))
    assert edge(one_way, 600_000) == pytest.approx(5 + 595_000 * 1e-4)


def test_larger_reading_is_ignored() -> None:
    one_way = noted((0, 50), (1, 60), (2, 55))
    assert one_way.notable_ns == 60 * MS
    assert one_way.bin_end_ns == BIN_NS
    before = one_way.dump()
    assert not one_way.note(5 * MS, 60 * MS)
    assert one_way.dump() == before


OFFSETS = st.integers(-(10**12), 10**12)


@given(upper=OFFSETS, floor=st.integers(2, 10**9))
def test_only_clock_clearly_ahead_is_moved(upper: int, floor: int) -> None:
    offset = estimate_offset(upper, floor)
    if upper >= -floor:
        assert offset == 0
    else:
        assert upper - floor <= offset < 0
    if upper < -3 * floor:
        assert offset == upper - floor // 2  # far ahead: the middle of the interval


@given(upper=OFFSETS, by=st.integers(0, 1_000))
def test_offset_moves_at_most_twice_the_edge(upper: int, by: int) -> None:
    first, second = estimate_offset(upper, 10**7), estimate_offset(upper + by, 10**7)
    assert 0 <= second - first <= 2 * by


def test_clock_behind_is_corrected_after_2_s() -> None:
    readings = [(100 * i, 5_000 + i % 30) for i in range(20)]
    assert not noted(*readings).mends
    assert noted(*readings, (2_000, 5_000)).mends


def test_backlogs_move_no_clock() -> None:
    """A backlog drains at twice the pace at which it arose, or old data plays at half its pace."""
    assert not noted(*((100 * i, 60_000 - 50 * i) for i in range(1_000))).mends
    assert not noted(*((100 * i, 60_000 + 100 * i) for i in range(1_000))).mends


def test_correction_ends_near_zero() -> None:
    settled = [(100 * i, 1_000) for i in range(30)]
    assert noted(*settled, *((3_000 + i, 300) for i in range(3))).mends
    assert not noted(*settled, *((3_000 + i, 240) for i in range(3))).mends


@given(
    offset=st.integers(-9 * 10**9, 9 * 10**9),
    skew_ppm=st.integers(-90, 90),
    delays=st.lists(st.integers(0, 40), min_size=5, max_size=60),
    every=st.integers(1, 20_000),
)
def test_offset_error_covers_small_delays(
    offset: int, skew_ppm: int, delays: list[int], every: int
) -> None:
    one_way = OneWay(100_000, MEND_ABOVE)
    for i, delay in enumerate(delays):
        ts_ns = i * every * MS
        true_ns = offset + ts_ns * skew_ppm // 1_000_000
        one_way.note(ts_ns, true_ns + delay * MS)
        cell = one_way.cell(ts_ns)[0]
        # Every bound is the third smallest of its bin: no delay is above the floor here.
        assert abs(true_ns - cell.offset_at(ts_ns)) <= cell.error_at(ts_ns)
