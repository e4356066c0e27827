"""Chooses the sources that a worker's status page names, out of any number of sources.

The page names the worst sources of a stream by five criteria. They wait the longest, or have the
most buffered events, the most late events, the most numbers in gaps, or the largest time error.
Each criterion has a bound; the sum of the bounds is `MAX_SOURCES`. A source that one list names
keeps its entries in the other lists, so that its row of the page is complete.

| list        | its entries             | chosen by                                            |
|-------------|-------------------------|------------------------------------------------------|
| `waiting`   | buffered events         | `MAX_WAITING` by how long, `MAX_HOLDING` by how many |
| `unhealthy` | late events and gaps    | `MAX_LATE` by late events, `MAX_LOST` by numbers     |
| `clocks`    | the clock of its events | `MAX_UNSURE` by their error                          |

An entry of `unhealthy` or `clocks` has the key `in_order` if its source has no buffered event.

Cost: O(entries of the lists).
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
MAX_SOURCES: Final = MAX_WAITING + MAX_HOLDING + MAX_LATE + MAX_LOST + MAX_UNSURE

COUNTS: Final = ("late", "gaps", "lost")
ERRORS: Final = {"late": "late_error", "lost": "lost_error"}
"""For each count, the key of its error: the true count may be greater by that much."""

IN_ORDER: Final = "in_order"

Entry = Mapping[str, Any]
StreamSource = tuple[str, str]
"""The names of a stream and of a source in it."""

Rank = Callable[[Entry], tuple[int, str]]


def source_of(each: Entry) -> StreamSource:
    return each["stream"], each["source"]


def choose_sources(
    waiting: Sequence[Entry], clocks: Sequence[Entry], unhealthy: Iterable[Entry]
) -> dict[str, list[Entry]]:
    """Return the three lists with the named sources only, the worst first in each list."""
    summed = merge_entries(unhealthy)
    named = {
        source_of(each)
        for chosen in (
            nsmallest(MAX_WAITING, waiting, rank_by_wait),
            nsmallest(MAX_HOLDING, waiting, rank_by("held")),
            nsmallest(MAX_LATE, (each for each in summed if each["late"]), rank_by("late")),
            nsmallest(MAX_LOST, (each for each in summed if each["lost"]), rank_by("lost")),
            nsmallest(MAX_UNSURE, clocks, rank_by("error_ns")),
        )
        for each in chosen
    }
    return {
        "waiting": _pick_entries(named, waiting, rank_by_wait),
        "unhealthy": _pick_entries(named, summed, rank_by("late")),
        "clocks": _pick_entries(named, clocks, rank_by("error_ns")),
    }


def _pick_entries(named: set[StreamSource], entries: Iterable[Entry], rank: Rank) -> list[Entry]:
    """Return the worst entry of each source, which has several if it is in several partitions."""
    found: dict[StreamSource, Entry] = {}
    for each in sorted((each for each in entries if source_of(each) in named), key=rank):
        found.setdefault(source_of(each), each)
    return list(found.values())


def merge_entries(unhealthy: Iterable[Entry]) -> list[dict[str, Any]]:
    """Merge the entries of each source into one.

    Each stage counts the events that are late there. So the greatest count of any stage is a lower
    bound, and the greatest sum of count and error is an upper bound.
    """
    found: dict[StreamSource, dict[str, Any]] = {}
    for each in unhealthy:
        known = found.setdefault(source_of(each), dict(each))
        possible = {
            name: max(entry[name] + entry[error] for entry in (known, each))
            for name, error in ERRORS.items()
        }
        known |= {name: max(known[name], each[name]) for name in COUNTS}
        known |= {error: possible[name] - known[name] for name, error in ERRORS.items()}
        if each.get(IN_ORDER):
            known[IN_ORDER] = True
    return list(found.values())


def rank_by_wait(each: Entry) -> tuple[int, str]:
    """Return a sort key that puts the source that has waited longest first."""
    return (each.get("since") or each["now"]) - each["now"], each["source"]


def rank_by(count: str) -> Rank:
    """Return a sort-key function that puts the source with the greatest `count` first."""
    return lambda each: (-(each[count] or 0), each["source"])
