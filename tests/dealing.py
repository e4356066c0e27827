"""Decide which worker of a run begins with which tests.

`worksteal` of xdist gives each worker an equal share of the list from its beginning. A worker that
is done takes tests from the end of another's share, so the list is laid out as adjacent shares. All
Spark tests go to the first worker, so that one Java process serves them. Slow tests go to the
others, module by module. Each share ends with quick tests, so that nobody waits for one slow test
at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, groupby
from typing import Final, TypeVar

Test = TypeVar("Test")

SPARK: Final = "spark"
SLOW: Final = "slow"
QUICK: Final = "quick"


def dealt(
    tests: Sequence[Test],
    workers: int,
    kind: Callable[[Test], str],
    module: Callable[[Test], str],
) -> list[Test]:
    """Return the tests as a list of adjacent shares; `kind` returns SPARK, SLOW or QUICK."""
    first, *others = hands = [list[Test]() for _ in range(workers)]
    first += [test for test in tests if kind(test) == SPARK]
    slow = [list(group) for _, group in groupby(_of(tests, SLOW, kind), module)]
    for group in sorted(slow, key=len, reverse=True):
        min(others or hands, key=len).extend(group)
    quick = _of(tests, QUICK, kind)
    for place, hand in enumerate(hands):
        behind = sum(map(len, hands[place + 1 :]))
        share = (len(hand) + len(quick) + behind) // (workers - place)
        missing = max(0, share - len(hand))
        hand += quick[:missing]
        del quick[:missing]
    return list(chain(*hands, quick))


def _of(tests: Sequence[Test], wanted: str, kind: Callable[[Test], str]) -> list[Test]:
    return [test for test in tests if kind(test) == wanted]
