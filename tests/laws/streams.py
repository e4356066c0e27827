"""Draw streams with many faults, for the laws.

Times are small so that they collide. One unit is a millisecond. Arrivals fall on few instants, so
ties are common; `max_wait` in the configurations is 50 units.
"""

from __future__ import annotations

from random import Random
from typing import Final

from topology.base.event import BYE, DATA, DEAD, HEARTBEAT, NO_EPOCH, Event

MS: Final = 1_000_000
START: Final = 1_000_000
"""In ms; far from 0, so that no timestamp is negative."""


def raw(seed: int, n: int = 80, sources: int = 3, modulus: int = 0, first: int = 0) -> list[Event]:
    """Return a stream with all faults: reordering, loss, duplicates, conflicts, gaps that never
    fill.

    There are also restarts with and without epoch, very late events, jumps in the numbers, dead
    letters, heartbeats, end-of-stream markers, and silences. The first number varies. Numbers have
    `modulus` values from `first` on.
    """
    rng = Random(seed)
    tame = rng.random() < 0.3
    per_source = [_source(f"s{i}", rng, n // sources, tame) for i in range(sources)]
    events = [event for sent in per_source for event in sent]
    if modulus:
        for event in events:
            event.seq = first + event.seq % modulus
    return in_log_order(events)


def in_log_order(events: list[Event]) -> list[Event]:
    return numbered(sorted(events, key=lambda event: event.at_ns))


def numbered(events: list[Event]) -> list[Event]:
    """Return the same events, with their positions as offsets, and buffered by no operator."""
    for offset, event in enumerate(events):
        event.offset = offset
    return events


def _source(name: str, rng: Random, n: int, tame: bool) -> list[Event]:
    with_epoch = rng.random() < 0.5
    epoch = rng.choice((0, 0, 3))
    seq = first = rng.choice((0, 0, 1, 7, 1_000))
    ts = START + rng.randint(0, 30)
    delayed = rng.choice((0.0, 0.1, 0.4, 0.9))
    reach = rng.choice((3, 20, 70))
    events: list[Event] = []
    while len(events) < n:
        ts += rng.choice((0, 1, 1, 2, 5))
        fate = rng.random()
        if not tame:
            if fate < 0.02:
                ts += rng.randint(10, 400)
            elif fate < 0.04:
                epoch, seq = epoch + 1, first
                ts += rng.choice((0, 1, 200))
            elif fate < 0.06:
                seq += rng.choice((1, 2, 5))
        delay = rng.randint(0, reach) if rng.random() < delayed else 0
        kind = DATA
        if not tame and fate > 0.97:
            kind = rng.choice((HEARTBEAT, BYE, DEAD))
        event = _event(name, epoch if with_epoch else NO_EPOCH, seq, ts, ts + 1 + delay, kind)
        events.append(event)
        seq += 1
        if tame:
            continue
        if rng.random() < 0.05:
            copy = _event(name, event.epoch, event.seq, ts, ts + 1 + rng.randint(0, 90), kind)
            copy.value = rng.choice((None, b"other"))
            events.append(copy)
        if rng.random() < 0.02:
            wild = event.seq + rng.choice((200, 201, 5_000, -3))
            events.append(_event(name, event.epoch, max(0, wild), ts, ts + rng.randint(1, 9), DATA))
    return events


def _event(name: str, epoch: int, seq: int, ts: int, arrival: int, kind: str) -> Event:
    event = Event("default", name, epoch, seq, ts * MS, arrival * MS)
    event.kind = kind
    return event


def orderly(seed: int, n: int = 60) -> list[Event]:
    """Return three sources in sequence from 0, without loss, with different delays."""
    rng = Random(seed)
    events = []
    for i in range(3):
        ts = arrival = START
        for seq in range(n // 3):
            ts += rng.choice((1, 1, 3))
            arrival = max(arrival, ts + i + rng.choice((0, 0, 2, 9)))
            events.append(_event(f"s{i}", NO_EPOCH, seq, ts, arrival, DATA))
    return in_log_order(events)
