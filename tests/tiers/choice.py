"""Chooses the first tier: required tests, quick ones, and a short case of each other function. It
adds the tests that catch most planted faults per second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.tiers.plan import Plan, function_of

QUICK_S: Final = 0.05
SHORT_S: Final = 0.5
"""The shortest case of a function that has no quick one is chosen if it takes less than this."""

SERVICES: Final = frozenset({"kafka", "postgres", "programs", "redis", "spark"})
"""Marks of tests that wait for another process; none is chosen for being quick."""


class Measured(NamedTuple):
    """A test of a measured run, with the names of its marks."""

    test: str
    seconds: float
    marks: frozenset[str]


def choose(
    run: Sequence[Measured],
    before: Plan,
    wanted: Collection[str],
    catchers: Mapping[str, Collection[str]],
) -> Plan:
    """Return the plan with the tests of a run; those that did not run stay as they are.

    Args:
        run: The tests that were measured, each function with all of its cases.
        before: The plan until now.
        wanted: Functions and cases that the first tier must have.
        catchers: The tests that catch a planted fault, by fault. If it is empty, what was chosen
            for its faults stays.
    """
    seconds = {each.test: each.seconds for each in run}
    first = set(_quick(run))
    first |= {test for test in seconds if {test, function_of(test)} & {*wanted}}
    if catchers:
        first |= _cover(catchers, seconds, first)
    else:
        first |= {test for test in seconds if before.is_first(test)}
    return _join(before, seconds, first)


def _quick(run: Sequence[Measured]) -> Iterator[str]:
    """Yield the tests of functions that are quick on average, quick cases of others, and a short
    case of each function that has none.
    """
    functions = defaultdict[str, list[Measured]](list)
    for each in run:
        if not each.marks & SERVICES:
            functions[function_of(each.test)].append(each)
    for cases in functions.values():
        is_quick = sum(each.seconds for each in cases) < QUICK_S * len(cases)
        quick = [each for each in cases if is_quick or each.seconds < QUICK_S]
        shortest = min(cases, key=lambda each: (each.seconds, each.test))
        yield from (each.test for each in quick)
        if not quick and shortest.seconds < SHORT_S:
            yield shortest.test


def _cover(
    catchers: Mapping[str, Collection[str]], seconds: Mapping[str, float], first: Collection[str]
) -> set[str]:
    """Return tests that catch all that `first` does not, chosen by faults caught per second."""
    caught_by = defaultdict[str, set[str]](set)
    for fault, tests in catchers.items():
        if not {*tests} & {*first}:
            for test in tests:
                if test in seconds:
                    caught_by[test].add(fault)
    chosen = set[str]()
    while caught_by:
        best = max(caught_by, key=lambda test: (len(caught_by[test]) / seconds[test], test))
        chosen.add(best)
        done = caught_by[best]
        left = {test: faults - done for test, faults in caught_by.items()}
        caught_by = defaultdict(set, {test: faults for test, faults in left.items() if faults})
    return chosen


def _join(before: Plan, seconds: Mapping[str, float], first: Collection[str]) -> Plan:
    cases = defaultdict[str, list[str]](list)
    for test in seconds:
        cases[function_of(test)].append(test)
    tiers = tuple(
        {test: s for test, s in tier.items() if function_of(test) not in cases} for tier in before
    )
    for function, tests in cases.items():
        chosen = [test for test in tests if test in first]
        left = [test for test in tests if test not in first]
        if left:
            tiers[1][function] = _sum(seconds, left)
            tiers[0].update({test: seconds[test] for test in chosen})
        else:
            tiers[0][function] = _sum(seconds, chosen)
    return Plan(*tiers)


def _sum(seconds: Mapping[str, float], tests: Iterable[str]) -> float:
    return sum(seconds[test] for test in tests)
