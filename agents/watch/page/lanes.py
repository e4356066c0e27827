"""Which sources the page names, out of any number, and all that is known of each of these.

A lane is a source of a stream. Named are those that wait the longest, that hold the most, that are
late most often, that have lost the most numbers, and whose clocks are least sure, each up to a
bound of its own, `MAX_LANES` together. What is known of a lane that is named comes along from each
of the lists, so that a row of the page is whole whatever brought it there.

| list       | of                      | chosen by                                            |
|------------|-------------------------|------------------------------------------------------|
| `waiting`  | lanes that hold events  | `MAX_WAITING` by how long, `MAX_HOLDING` by how many |
| `troubled` | late events and gaps    | `MAX_LATE` by late events, `MAX_LOST` by numbers     |
| `clocks`   | the clock of its events | `MAX_UNSURE` by their error                          |

A lane in `troubled` or `clocks` that is known to hold nothing says `in_order`.

Cost: O(lanes in the lists).

Proved by: tests/agents/watch/page/test_lanes.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final

MAX_WAITING: Final = 100
MAX_HOLDING: Final = 50
MAX_LATE: Final = 50
MAX_LOST: Final = 50
MAX_UNSURE: Final = 50
MAX_LANES: Final = MAX_WAITING + MAX_HOLDING + MAX_LATE + MAX_LOST + MAX_UNSURE

COUNTS: Final = ("late", "gaps", "lost")
ERRORS: Final = {"late": "late_error", "lost": "lost_error"}
"""What more may have been than is told (`agents.watch.troubled`)."""

IN_ORDER: Final = "in_order"

Told = Mapping[str, Any]
Lane = tuple[str, str]
"""Stream and source."""

Rank = Callable[[Told], tuple[int, str]]


def lane_of(each: Told) -> Lane:
    return each["stream"], each["source"]


def lanes(
    waiting: Sequence[Told], clocks: Sequence[Told], troubled: Iterable[Told]
) -> dict[str, list[Told]]:
    """The three lists, of the lanes that are named, each with the worst first."""
    summed = most_told(troubled)
    named = {
        lane_of(each)
        for chosen in (
            nsmallest(MAX_WAITING, waiting, longest),
            nsmallest(MAX_HOLDING, waiting, fullest),
            nsmallest(MAX_LATE, (each for each in summed if each["late"]), latest),
            nsmallest(MAX_LOST, (each for each in summed if each["lost"]), with_gaps),
            nsmallest(MAX_UNSURE, clocks, least_sure),
        )
        for each in chosen
    }
    return {
        "waiting": _of(named, waiting, longest),
        "troubled": _of(named, summed, latest),
        "clocks": _of(named, clocks, least_sure),
    }


def _of(named: set[Lane], told: Iterable[Told], rank: Rank) -> list[Told]:
    """One of each lane, the worst: a source may come by several partitions."""
    found: dict[Lane, Told] = {}
    for each in sorted((each for each in told if lane_of(each) in named), key=rank):
        found.setdefault(lane_of(each), each)
    return list(found.values())


def most_told(troubled: Iterable[Told]) -> list[dict[str, Any]]:
    """One for each lane. Stages each count an event that came late to them, so the most that one
    of them tells is how many were late at least, and the most that one holds possible how many
    were at most."""
    found: dict[Lane, dict[str, Any]] = {}
    for each in troubled:
        known = found.setdefault(lane_of(each), dict(each))
        possible = {
            name: max(told[name] + told.get(error, 0) for told in (known, each))
            for name, error in ERRORS.items()  # an older worker tells no error
        }
        for name in COUNTS:
            known[name] = max(known[name], each[name])
        for name, error in ERRORS.items():
            known[error] = possible[name] - known[name]
        if each.get(IN_ORDER):
            known[IN_ORDER] = True
    return list(found.values())


def longest(each: Told) -> tuple[int, str]:
    """The one that waits the longest comes first."""
    return (each.get("since") or each["now"]) - each["now"], each["source"]


def fullest(each: Told) -> tuple[int, str]:
    return -each["held"], each["source"]


def latest(each: Told) -> tuple[int, str]:
    return -each["late"], each["source"]


def with_gaps(each: Told) -> tuple[int, str]:
    return -each["lost"], each["source"]


def least_sure(each: Told) -> tuple[int, str]:
    return -(each["error_ns"] or 0), each["source"]
