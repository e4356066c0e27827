"""Which worker of a run begins with which tests.

xdist's `worksteal` gives each worker an equal share of the list, from its begin, and one that
is done takes from the end of another's. So the list is laid out as hands, one behind the
other: all that runs Spark is the first worker's, that one Java serves it; slow tests, module
by module, are the others'; and each hand ends with quick ones, so that at the end of the run
nobody waits for one slow test.
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
    """The tests as the workers are to get them: the first its share, then the next. `kind` is one
    of the three above."""
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
