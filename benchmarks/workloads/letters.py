"""Make events of a few types at every tick, some of them late, for pattern queries.

Types are drawn uniformly from A, B, C and so on; on request, the last is rarer. A share of the
events is delayed by 1 to SLACK - 1 ticks, drawn uniformly. The order is by the tick of arrival,
with delayed events last within a tick. The share of late events is a few per cent smaller, because
no later event arrives before some of the delayed ones.
"""

from __future__ import annotations

from random import Random
from typing import Final

SLACK: Final = 60
"""The maximum lateness of an event, in ticks."""

ALPHABET: Final = "ABCDEFGHIJ"


def letters(
    n: int, *, types: int = 3, disorder: float = 0.0, seed: int = 1, rare: float | None = None
) -> list[tuple[int, str]]:
    """Return pairs (time, type) in order of arrival; `rare` is the share of the last type."""
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
