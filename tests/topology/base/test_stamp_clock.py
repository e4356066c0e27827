"""Examples for the clock of records without arrival times.

Law: one wrong timestamp does not move it, however large it is and wherever it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.seeds import seeds_of_today
from topology.base.stamp_clock import StampClock

FAR = 100
Stamp = int | tuple[int, str]


def times(stamps: Sequence[Stamp]) -> list[int]:
    """Return the time after each record; a record without a name comes from another source."""
    clock, found = StampClock(FAR), []
    for at, stamp in enumerate(stamps):
        found.append(clock.take(*(stamp if isinstance(stamp, tuple) else (stamp, str(at)))))
    return found


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ([5, 3, 9], [5, 5, 9]),
        ([0, 100, 201], [0, 100, 100]),
        # One timestamp that no other confirms.
        ([0, 1, 9_999, 2, 3], [0, 1, 1, 2, 3]),
        ([0, 9_999], [0, 0]),
        ([0, (9_999, "a"), (9_999, "a"), 1], [0, 0, 0, 1]),
        ([0, 9_999, 1, 9_999, 2], [0, 0, 1, 1, 2]),
        # A silence ends.
        ([0, 1_000, 1_001], [0, 0, 1_001]),
        ([0, (1_000, "a"), (1_000, "b"), 950], [0, 0, 1_000, 1_000]),
        ([0, 150, 60], [0, 0, 150]),
        # Each record follows a silence.
        ([0, 1_000, 2_000, 3_000], [0, 0, 1_000, 2_000]),
        ([-9_999, -99, -98], [-9_999, -9_999, -98]),
    ],
)
def test_time_after_each_record(stamps: list[Stamp], expected: list[int]) -> None:
    assert times(stamps) == expected


@pytest.mark.parametrize("seed", seeds_of_today(20))
def test_law_wrong_time_moves_nothing(seed: int) -> None:
    dice = Random(seed)
    stamps: list[Stamp] = [n + dice.randrange(-40, 40) for n in range(0, 2_000, 10)]
    at = dice.randrange(1, len(stamps))
    wrong = dice.choice([-(10**18), 2_500, 10**18])
    copies = dice.randrange(1, 3)
    found = times([*stamps[:at], *[(wrong, "x")] * copies, *stamps[at:]])
    expected = times(stamps)
    assert found == [*expected[:at], *[expected[at - 1]] * copies, *expected[at:]]
