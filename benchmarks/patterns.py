"""Measure pattern queries: events per second beside two baselines, and the matches found.

* *Found*: the number of matches in LimeCEP's stream of 10 000 events (patterns.md 8), in order and
  as recorded, with 1 005 events late.
* *Ours and the baselines* (benchmarks/baselines): the same events in the same order through all
  three. A baseline that exceeds its bound of partial matches stops, shown as `-`.
* *Keyed*: a sequence of one key before the merge, with and without the plain path.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks import harness
from benchmarks.baselines.sequence import Sequence
from benchmarks.harness import Asked, Columns, Figures, Tables, compare_entries, compare_trees
from benchmarks.pattern_runs import (
    NO_LIMIT,
    Cost,
    Feed,
    compile_query,
    measure_buffered_nfa,
    measure_eager,
    measure_engine,
    measure_operator,
)
from benchmarks.tables import Table, count, format_rate
from benchmarks.traces import TraceAbsent, folder
from benchmarks.workloads.keyed import make_keyed
from benchmarks.workloads.letters import SLACK, letters

WINDOWS: Final = (10, 100, 1_000)
SIZE: Final = 10_000
QUICK_MATCHES: Final = 10_000
"""The largest number of matches of a query in the quick form."""
COUNTLESS: Final = 100_000_000
SHORT: Final = 100
"""The number of matches shown per end event if a query has `COUNTLESS` or more."""

FOUND: Final[dict[tuple[str, bool], tuple[tuple[int, int, int], tuple[int | None, ...]]]] = {
    ("abc", False): ((2_929, 3_232, 3_232), (2_929, 3_232, 3_232)),
    ("ab+c", False): ((2_929, 3_232, 3_232), (2_929, 3_232, 3_232)),
    ("a+b+c", False): ((2_929, 3_232, 3_232), (3_268, 32_927, 295_815)),
    ("abc", True): ((16_818, 1_814_393, 172_342_402), (16_818, 1_814_393, None)),
    ("ab+c", True): ((7_860, 105_203, 1_030_391), (7_060, 57_831, 532_659)),
    ("a+b+c", True): ((4_737, 54_713, 528_592), (4_737, 54_713, 528_592)),
}
"""The numbers of matches by query and whether it is MAXIMAL, for the windows above.

The first three are the truth, counted from the definition. The others were published by LimeCEP's
authors; None means that LimeCEP ran out of memory.
"""

WORTH_TRYING: Final = {
    ("abc", False): 1_000,
    ("ab+c", False): 1_000,
    ("a+b+c", False): 1_000,
    ("abc", True): 100,
    ("ab+c", True): 10,
    ("a+b+c", True): 10,
}
"""The largest window for which the baselines finish, by query and whether it is MAXIMAL."""


def record(disordered: bool) -> Feed:
    """Return LimeCEP's 10 000 events, whose timestamps are their numbers."""
    path = folder() / "limecep" / f"micro_{'ooo' if disordered else 'inorder'}.csv.gz"
    if not path.is_file():
        raise TraceAbsent(path)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return [(int(row["ts"]), row["type"]) for row in csv.DictReader(lines)]


def find_matches(most: int, *, sets: bool) -> Table:
    """Return a table of the matches that ours finds in queries with at most `most` matches.

    With `sets`, matches are counted and not emitted one by one, and `most` has no effect.
    """
    table = Table(
        "LimeCEP's 10 000 events" + ", as sets" * sets,
        ("query, window", "truth", "LimeCEP", "found", "disordered", "corrected", "CPU s",
         "disordered, s"),
        note=f"+: of each end event the first {SHORT}, and word that there are more.",
    )  # fmt: skip
    in_order, late = record(disordered=False), record(disordered=True)
    for (text, any_), (truths, published) in FOUND.items():
        for within, truth, theirs in zip(WINDOWS, truths, published, strict=True):
            limit = NO_LIMIT if sets or truth < COUNTLESS else SHORT
            if sets > any_ or (not sets and truth > most and limit == NO_LIMIT):
                continue
            query = compile_query(text, within, any_=any_, limit=limit, sets=sets)
            one, other = measure_engine([query], in_order), measure_engine([query], late, SLACK)
            table.add(
                f"{text} {_mode(any_)}, {within}",
                count(truth),
                "out of memory" if theirs is None else count(theirs),
                *(format_matches(cost, truth) for cost in (one, other)),
                count(other.updated + other.retracted),
                f"{one.seconds:.2f}",
                f"{other.seconds:.2f}",
            )
    return table


def _mode(any_: bool) -> str:
    return "MAXIMAL" if any_ else "ONE"


def format_matches(cost: Cost, truth: int) -> str:
    mark = " +" if cost.overflowed else "" if cost.current == truth else " (WRONG)"
    return f"{count(cost.current)}{mark}"


RATES: Final[Columns] = {
    "events per CPU second": lambda one, _: "-" if one.exploded else format_rate(one.rate),
    "of ours": lambda one, ours: "-" if one.exploded else f"{one.rate / ours.rate:.2f}",
    "matches": lambda one, ours: "-" if one.exploded else format_matches(one, ours.current),
}


def compare(size: int) -> Tables:
    """Yield a table for each query, window and disorder, with ours and the baselines."""
    for (text, any_), worth in WORTH_TRYING.items():
        for within in WINDOWS:
            if within > (worth if size == SIZE else WINDOWS[0]):
                continue
            for disorder in (0.0, 0.7):
                title = f"{text} {_mode(any_)}, window {within}, {disorder:.0%} delayed"
                yield title, partial(_compare, title, text, within, size, disorder, any_=any_)


def _compare(
    title: str, text: str, within: int, size: int, disorder: float, *, any_: bool
) -> Table:
    feed, slack = letters(size, disorder=disorder), SLACK if disorder else 0
    asked = Sequence.of(text, within, any_=any_)
    entries: dict[str, Callable[[], Cost]] = {
        "ours": lambda: measure_engine([compile_query(text, within, any_=any_)], feed, slack),
        "buffered NFA": lambda: measure_buffered_nfa(asked, feed, slack),
        "eager": lambda: measure_eager(asked, feed, slack),
    }
    return compare_entries(title, entries, RATES)


def measure(events: int) -> Figures:
    """Return microseconds of CPU per event of SEQ(A, B, C) of one key within 1 s.

    The stream has 100 keys, 10 types and 10 000 events per second.
    """
    found = {}
    for delayed in (0.0, 0.12, 0.7):
        for way, is_plain in (("", True), (", general way", False)):
            seconds = measure_operator(make_keyed(events, delayed=delayed), is_plain=is_plain)
            found[f"{delayed:.0%} delayed{way}: us an event"] = 1e6 * seconds / events
    return found


def tables(asked: Asked) -> Tables:
    """Measure pattern queries: the matches found, and the speed, beside two baselines."""
    yield (
        "keyed",
        lambda: compare_trees(
            asked,
            "SEQ(A, B, C) of one key within 1 s, before the merge",
            "benchmarks.patterns:measure",
            events=200_000 if asked.full else 20_000,
        ),
    )
    most = COUNTLESS if asked.full else QUICK_MATCHES
    yield "found", lambda: find_matches(most, sets=False)
    yield "found, as sets", lambda: find_matches(most, sets=True)
    yield from compare(SIZE if asked.full else SIZE // 5)


command = harness.command(tables)
