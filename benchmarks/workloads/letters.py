"""Events of a few types at every tick, some of them late: what pattern queries are run on.

Types are drawn alike from A, B, C and on, the last of them more seldom if asked. A share of the
events is delayed by 1 to SLACK - 1 ticks, drawn alike; order of arrival is by the tick of arrival,
the delayed ones behind. Some of those delayed are overtaken by none, so a few per cent fewer are
late.
"""

from __future__ import annotations

from random import Random
from typing import Final

SLACK: Final = 60
"""No event is later than this many ticks."""

ALPHABET: Final = "ABCDEFGHIJ"


def letters(
    n: int, *, types: int = 3, disorder: float = 0.0, seed: int = 1, rare: float | None = None
) -> list[tuple[int, str]]:
    """(time, type) in order of arrival. `rare`: the share of the last type."""
    rng = Random(seed)
    last = 1 / types if rare is None else rare
    weights = [(1 - last) / (types - 1)] * (types - 1) + [last]
    events = enumerate(rng.choices(ALPHABET[:types], weights, k=n))
    arrivals = []
    for time, type_ in events:
        late = rng.random() < disorder
        delay = rng.randrange(1, SLACK) if late else 0
        arrivals.append((time + delay, late, time, type_))
    arrivals.sort()
    return [(time, type_) for _, _, time, type_ in arrivals]
