"""Examples: timestamps of AnchoredClock while the wall clock is stepped."""

from __future__ import annotations

from inorder.anchored_clock import AnchoredClock


class Clocks:
    def __init__(self) -> None:
        self.wall_ns = 1_700_000_000_000_000_000
        self.monotonic_ns = 5_000

    def run(self, ns: int) -> None:
        self.wall_ns += ns
        self.monotonic_ns += ns


def test_clock_step_is_ignored() -> None:
    clocks = Clocks()
    clock = AnchoredClock(lambda: clocks.wall_ns, lambda: clocks.monotonic_ns)
    assert clock() == 1_700_000_000_000_000_000
    clocks.run(10)
    clocks.wall_ns -= 3_600_000_000_000  # The wall clock is set back by an hour.
    assert clock() == 1_700_000_000_000_000_010
    clocks.wall_ns += 7_200_000_000_000
    clocks.run(5)
    assert clock() == 1_700_000_000_000_000_015
