"""Laws: the demo's wrong clocks can be inverted. Example: they are described in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cli.demo.clocks import WrongClock, describe, wrong_clocks
from cli.demo.watching import ROUNDING_NS

NOW = 1_700_000_000_000_000_000
HOUR_NS = 3_600_000_000_000


@given(
    ahead_ns=st.integers(-HOUR_NS, HOUR_NS),
    rate_ppm=st.integers(-500, 500),
    run_ns=st.integers(0, HOUR_NS),
)
def test_law_clock_is_invertible(ahead_ns: int, rate_ppm: int, run_ns: int) -> None:
    clock = WrongClock(ahead_ns, rate_ppm, NOW)
    assert abs(clock.true(clock.reads(NOW + run_ns)) - NOW - run_ns) <= ROUNDING_NS


def test_wrong_clocks_are_described() -> None:
    assert describe(wrong_clocks(NOW)) == (
        "broker1 is 90 s ahead and runs +150 ppm, broker2 is 3,600 s behind and runs -80 ppm"
    )
