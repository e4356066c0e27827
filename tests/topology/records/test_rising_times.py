"""Examples: local times that occur twice, in rows without arrival times.

Law: sequence numbers determine the instant of each row, in any order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest

from tests.seeds import seeds_of_today
from topology.records.reasons import AMBIGUOUS
from topology.records.rising_times import MOST_ROWS, MOST_SOURCES, RisingTimes
from topology.records.times import TimeReading, Twice, read_instant_ns

S = 1_000_000_000
MIN = 60 * S
DENVER = ZoneInfo("America/Denver")
SET_BACK = round(datetime(2022, 11, 6, 8, tzinfo=UTC).timestamp()) * S
"""The instant at which clocks of Denver were set back from 2 to 1 o'clock."""

Row = tuple[int | None, str]


def found(rows: Iterable[Row]) -> list[int | str]:
    """Return the instants of one source's rows, in minutes after the clocks were set back."""
    rising, at = RisingTimes(), []
    for seq, shown in rows:
        own = rising.take(
            "m", seq, read_instant_ns(f"2022-11-06 {shown}", TimeReading(zone=DENVER))
        )
        at.append(own if isinstance(own, str) else (own - SET_BACK) // MIN)
    return at


def hourly(*numbers: int | None) -> list[Row]:
    times = ["00:00:00", "01:00:00", "01:00:00", "02:00:00"]
    return [(n, times[at]) for at, n in enumerate(numbers)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (hourly(0, 1, 2, 3), [-120, -60, 0, 60]),
        (hourly(None, None, None, None), [-120, -60, 0, 60]),
        (hourly(0, 1, 1, 2), [-120, -60, -60, 60]),
        ([(7, "01:30:00")], [-30]),
        # The newest row is first.
        ([(3, "02:00:00"), (2, "01:00:00"), (1, "01:00:00"), (0, "00:00:00")], [60, 0, -60, -120]),
        # A late row lies between its neighbours.
        ([(0, "00:50:00"), (2, "01:10:00"), (1, "01:00:00")], [-70, -50, -60]),
        ([(0, "01:50:00"), (2, "01:10:00"), (1, "01:00:00")], [-10, 10, 0]),
        # The source restarts its numbers in the second pass.
        ([(8, "01:55:00"), (9, "01:05:00"), (0, "01:06:00"), (1, "01:07:00")], [-5, 5, 6, 7]),
        # A table has two rows for each time.
        (
            [(None, each) for each in ("00:30:00", "01:00:00", "01:30:00") for _ in "ab"]
            + [(None, each) for each in ("01:00:00", "01:30:00") for _ in "ab"],
            [-90, -90, -60, -60, -30, -30, 0, 0, 30, 30],
        ),
        # The source's clock was wrong once.
        (
            [(0, "01:40:00"), (1, "23:00:00"), (2, "01:50:00"), (3, "01:55:00")],
            [-20, 1320, AMBIGUOUS, -5],
        ),
        ([(None, "01:40:00"), (None, "02:10:00"), (None, "01:50:00")], [-20, 70, AMBIGUOUS]),
    ],
)
def test_repeated_hour_is_resolved(rows: list[Row], expected: list[int | str]) -> None:
    assert found(rows) == expected


def test_only_near_row_resolves_time() -> None:
    rising, twice = RisingTimes(), Twice(SET_BACK - 30 * MIN, SET_BACK + 30 * MIN)
    rising.take("m", None, SET_BACK + 10 * 365 * 86_400 * S)
    assert rising.take("m", None, twice) == twice.early_ns
    rising.take("m", None, SET_BACK - 5 * MIN)
    assert rising.take("m", None, twice) == twice.late_ns
    assert rising.take("other", None, twice) == twice.early_ns


def test_rows_and_sources_are_bounded() -> None:
    rising = RisingTimes()
    for number in range(MOST_SOURCES + 1):
        rising.take(number, None, SET_BACK)
    for number in range(MOST_ROWS + 1):
        rising.take("m", number, SET_BACK)
    assert len(rising._of) == MOST_SOURCES
    assert len(rising._of["m"]) == MOST_ROWS


MIDDLES = {
    "America/Denver": SET_BACK,
    "Europe/Berlin": 1_667_091_600 * S,
    "Australia/Lord_Howe": 1_648_911_600 * S,  # Set by half an hour.
}


@pytest.mark.parametrize("zone", MIDDLES)
@pytest.mark.parametrize("seed", seeds_of_today(6))
def test_numbers_place_rows_in_any_order(zone: str, seed: int) -> None:
    dice = Random(seed)
    step_ns = dice.choice([S, 3 * MIN + 123_456_789, 6 * MIN, 15 * MIN, 30 * MIN])
    # A row that is early by as much as the clocks were set back may be of either pass.
    apart = 4 if 4 * step_ns < 30 * MIN else 0
    first_ns = MIDDLES[zone] - dice.randint(6, 20) * step_ns
    rising, local = RisingTimes(), ZoneInfo(zone)
    seen, expected = [], []
    for n in sorted(range(40), key=lambda n: n + dice.uniform(0, apart)):
        true_ns = first_ns + n * step_ns
        shown = datetime.fromtimestamp(true_ns // S, UTC).astimezone(local)
        text = f"{shown:%Y-%m-%d %H:%M:%S}.{true_ns % S:09d}"
        seen.append(rising.take("m", n, read_instant_ns(text, TimeReading(zone=local))))
        expected.append(true_ns)
    assert seen == expected
