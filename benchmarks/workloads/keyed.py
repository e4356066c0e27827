"""Make events of many keys and types, some delayed, for keyed patterns over a plant or a market.

There are `RATE` events per second, drawn uniformly from `TYPES` types and `KEYS` keys. Each of
`SOURCES` sources numbers its own events. A share is delayed, exponentially with a mean of
`MEAN_DELAY_NS`, at most `SLACK_NS`. Events are in order of arrival. Payloads are decoded already:
`{"k": key}`.
"""

from __future__ import annotations

from random import Random
from typing import Final

from topology.base.event import Event

MS: Final = 1_000_000
RATE: Final = 10_000
TYPES: Final = "ABCDEFGHIJ"
KEYS: Final = 100
SOURCES: Final = 20
MEAN_DELAY_NS: Final = 50 * MS
SLACK_NS: Final = 600 * MS
"""The maximum lateness of an event."""

BEGIN_NS: Final = 1_700_000_000_000 * MS


def make_keyed(n: int, *, delayed: float, seed: int = 1) -> list[Event]:
    rng = Random(seed)
    numbers = [0] * SOURCES
    events = []
    for at in range(n):
        time_ns = BEGIN_NS + at * 1_000_000_000 // RATE
        delay_ns = 0
        if rng.random() < delayed:
            delay_ns = min(SLACK_NS, int(rng.expovariate(1 / MEAN_DELAY_NS)))
        source = rng.randrange(SOURCES)
        value = {"k": rng.randrange(KEYS)}
        seq = numbers[source]
        numbers[source] += 1
        event = Event("default", f"s{source}", 0, seq, time_ns, time_ns + delay_ns, at,
                      value=value, type=rng.choice(TYPES))  # fmt: skip
        event.at_ns = event.arrival_ns
        events.append(event)
    events.sort(key=lambda event: event.arrival_ns)
    return events
