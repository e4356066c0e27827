"""Choose the seeds of a law: a few each day, others on the next, and all of them in `make laws`.

The seeds of a law are divided into one share for each of `DAYS` days. A run takes the share of its
day, and a failed run names the day. The variable INORDER_DAY chooses:

    INORDER_DAY=3       the seeds of day 3 again
    INORDER_DAY=0-6     those of all seven days; `make test-rest` has no others
    INORDER_DAY=0-49    seven times as many; numbers have no upper bound

A test that also counts how often it meets its subject, so that it does not pass without it, needs
enough seeds for that. It keeps fixed ones if a day's are too few.

Cases that lead to one law or one fault in other combinations take turns. A run has one n-th of the
cases of a function marked `in_turns(n)`, so n days have all of them. No n is a multiple of `DAYS`,
so each case meets the seeds of each day in time. INORDER_TURN chooses:

    INORDER_TURN=5      the cases of turn 5 again
    INORDER_TURN=all    all cases, as when INORDER_DAY names seven days or more

A case that is chosen by its name or by -k runs on each day. Tests that are not in `make test-all`
take no turns.

The first tier of tests (`tests.tiers`) has day 0 and turn 0 each day, if neither is set. Day and
turn are fixed once, at the start of a run. Workers of pytest-xdist inherit the variables, so they
collect the same tests even if midnight passes.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.tiers.plan import FIRST, get_tier

DAYS: Final = 7
VARIABLE: Final = "INORDER_DAY"
TURN_VARIABLE: Final = "INORDER_TURN"
ALL_TURNS: Final = "all"
TURNS_UNTIL_AGAIN: Final = 420
"""A multiple of `DAYS` and of each number of turns."""

IN_TURNS: Final = "in_turns"
ELSEWHERE: Final = ("chaos", "containers", "kubernetes", "long", "spark_long")
"""Marks of tests that are in neither tier."""


def days_of(text: str) -> range:
    """Return the days in a text such as `7` or `0-9`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


_DATE: Final = 0 if get_tier() == FIRST else datetime.now(UTC).toordinal()
TEXT: Final = os.environ.setdefault(VARIABLE, str(_DATE % DAYS))
TURN: Final = os.environ.setdefault(TURN_VARIABLE, str(_DATE % TURNS_UNTIL_AGAIN))
TODAY: Final = days_of(TEXT)


def seeds_of_today(count: int) -> range:
    """Return `count` seeds for each day that this run covers."""
    return range(TODAY.start * count, TODAY.stop * count)


def is_todays(place: int, turns: int) -> bool:
    """Return whether the case at this place of its function runs in this turn.

    The sum of digits lets each value of each parameter meet others on another day.
    """
    if TURN == ALL_TURNS or len(TODAY) >= DAYS:
        return True
    digits = int(TURN)
    while place:
        place, digit = divmod(place, turns)
        digits += digit
    return digits % turns == 0


@pytest.hookimpl(tryfirst=True)  # This hook runs first, while all cases of a function are there.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.keyword or any("[" in arg for arg in config.args):
        return
    places: Counter[str] = Counter()
    todays, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        marker = item.get_closest_marker(IN_TURNS)
        function = item.nodeid.partition("[")[0]
        if any(map(item.get_closest_marker, ELSEWHERE)):
            marker = None
        is_in = marker is None or is_todays(places[function], *marker.args)
        places[function] += 1
        (todays if is_in else others).append(item)
    items[:] = todays
    config.hook.pytest_deselected(items=others)
