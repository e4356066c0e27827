"""A log that pauses: what reaches the merge when brokers stop and producers keep what they have.

Sources in two partitions send at a pace of their own, over a network that takes some milliseconds.
In the outage nothing arrives. Each source keeps its events, and sends them in a burst when it is
back: its partition is led again a while after the first one, and its own producer tries again at
random within a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from topology.model.event import Event

MS = 1_000_000
BURST_MS = 0.2
"""Between two events of a backlog."""


@dataclass(frozen=True)
class Outage:
    """Milliseconds. `apart`: how much later the second partition comes back; `dead`: a source
    that does not, "" if all do."""

    begins: int = 10_000
    lasts: int = 8_000
    apart: int = 2_000
    until: int = 50_000
    dead: str = ""
    sources: int = 6
    period: int = 20


def log(outage: Outage, seed: int) -> list[Event]:
    rng = Random(seed)
    events: list[Event] = []
    for number in range(outage.sources):
        source = f"s{number}"
        lane = number % 2
        back = outage.begins + outage.lasts + lane * outage.apart + rng.uniform(0, 1_000)
        if number < 2:
            back = outage.begins + outage.lasts + lane * outage.apart  # the first of its partition
        base = rng.uniform(1, 6)
        ts, arrived, seq = rng.uniform(0, outage.period), 0.0, 0
        while ts < outage.until:
            arrives = ts + base + rng.expovariate(1 / 2)
            if arrives >= outage.begins:
                if source == outage.dead:
                    break
                arrives = max(arrives, back)
            arrived = max(arrives, arrived + BURST_MS)
            made = Event("default", source, 0, seq, _ns(ts), _ns(arrived))
            made.lane = lane
            events.append(made)
            ts += rng.uniform(0.8, 1.2) * outage.period
            seq += 1
    events.sort(key=lambda event: (event.arrival_ns, event.source))
    for offset, event in enumerate(events):
        event.offset = offset
    return events


def _ns(ms: float) -> int:
    return round(ms * MS)
