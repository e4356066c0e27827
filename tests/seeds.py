"""The seeds that a law runs over: a few each day, others tomorrow, all of them in `make laws`.

The seeds of a law are cut into one share for each of `DAYS` days. A run takes the share of its
day, and a run that fails names the day. The variable INORDER_DAY chooses:

    INORDER_DAY=3       the seeds of day 3 again
    INORDER_DAY=0-6     those of all seven days, which is all that `make test` ever runs
    INORDER_DAY=0-49    seven times as many; numbers have no upper bound

A test that also counts how often it met what it is about, so that it cannot hold of nothing, needs
enough seeds for that: it keeps fixed ones where a day's are too few.

The day is fixed once, where the run begins: workers of pytest-xdist inherit the variable, so they
collect the same tests even if midnight passes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Final

DAYS: Final = 7
VARIABLE: Final = "INORDER_DAY"


def days_of(text: str) -> range:
    """`7` or `0-9` as the days that it names."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


TEXT: Final = os.environ.setdefault(VARIABLE, str(datetime.now(UTC).toordinal() % DAYS))
TODAY: Final = days_of(TEXT)


def seeds_of_today(count: int) -> range:
    """`count` seeds for each day that this run covers."""
    return range(TODAY.start * count, TODAY.stop * count)
