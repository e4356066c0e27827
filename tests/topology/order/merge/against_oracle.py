"""MERGE and its oracle, run side by side on one list of items."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.topology.order.merge import oracle
from tests.topology.order.merge.oracle import Item
from topology.base.event import BLOCKED, BYE, DATA, HEARTBEAT, UNBLOCKED, Event
from topology.base.late import GAP
from topology.config import MergeConfig
from topology.order.merge.operator import Merge

MS = 1_000_000
MISS_PPM = 50_000


def items(rng: Random, n: int = 60, sources: int = 3, falls: float = 0) -> list[Item]:
    """Return the items of several sources, with delays, silences, gaps and control events.

    Times are whole milliseconds, so that many coincide. `falls` is the share of events whose
    timestamp is set back.
    """
    coming: list[Item] = []
    for i in range(sources):
        coming += _source(f"s{i}", rng, n // sources)
    for item in coming:
        if falls and item.kind == DATA and rng.random() < falls:
            item.ref_ns -= rng.choice((1, 3, 10, 40)) * MS
    return sorted(coming, key=lambda item: item.at_ns)


def _source(name: str, rng: Random, n: int) -> list[Item]:
    period, base, jitter = rng.choice((1, 2, 10)), rng.randint(0, 12), rng.choice((0, 2, 15))
    quirks = rng.choice((0.0, 0.06))
    offset = rng.choice((0, 0, 0, -60))
    ref, at, seq = 1_000, 0, 0
    coming: list[Item] = []
    held: list[Item] = []
    lost: list[Item] = []
    while seq < n:
        ref += rng.choice((0, period, 2 * period))
        arrival = max(at, ref + base + rng.randint(0, jitter))
        at = arrival
        kind = DATA
        if rng.random() < quirks:
            fate = rng.random()
            if fate < 0.3:
                kind = rng.choice((HEARTBEAT, BYE))
            elif fate < 0.5:
                ref += rng.choice((40, 300))
            elif not held:
                held.append(Item(at * MS, 0, name, seq, kind=BLOCKED))
                coming.append(held[0])
        item = Item(at * MS, (ref + offset) * MS, name, seq, arrival_ns=at * MS, kind=kind)
        item.late = kind == DATA and rng.random() < quirks / 4
        seq += 1
        if kind == DATA and not item.late and not held and rng.random() < quirks:
            lost.append(item)  # REORDER declares its number missing, and the event arrives later.
            continue
        coming.append(item)
        while lost and rng.random() < 0.3:
            found = lost.pop()
            found.at_ns = found.arrival_ns = at * MS
            found.ref_ns += rng.choice((0, 0, 0, 0, -9, 9)) * MS
            found.late = True
            coming.append(found)
        if held and not item.late:
            held.append(item)
            if rng.random() < 0.3:
                _release(held, at + rng.choice((0, 1, 20)), rng, coming)
                at = held[-1].at_ns // MS if held else at
                at = max(at, coming[-1].at_ns // MS)
                held = []
    if held:
        _release(held, at, rng, coming)
    return coming


def _release(held: list[Item], at: int, rng: Random, coming: list[Item]) -> None:
    """Add the buffered events at once, or replace them with an UNBLOCKED item."""
    for item in held[1:]:
        item.at_ns = max(item.at_ns, at * MS)
    if rng.random() < 0.2:
        for item in held[1:]:
            coming.remove(item)
        first = held[0]
        coming.append(Item(at * MS, 0, first.source, first.seq, kind=UNBLOCKED))


class Settings:
    """A random choice of settings for one run."""

    def __init__(self, rng: Random) -> None:
        self.max_wait_ns = rng.choice((0, 5, 20, 100)) * MS
        self.idle_after_ns = rng.choice((20, 100, 1_000)) * MS
        self.expected = rng.choice(((), (), ("s1", "zz")))
        self.max_set_back_ns = 0


Left = tuple[int, int, bool, int]


def by_oracle(coming: list[Item], settings: Settings, **times: int) -> tuple[Any, ...]:
    answer = oracle.merge(
        coming,
        oracle.Settings(
            settings.max_wait_ns,
            settings.idle_after_ns,
            MISS_PPM,
            settings.expected,
            max_set_back_ns=settings.max_set_back_ns,
        ),
        **times,
    )
    left = [(one.at_ns, one.index, one.late or one.stays_late, one.by_ns) for one in answer.leaving]
    return left, answer.held


def by_operator(coming: list[Item], settings: Settings, **times: int) -> tuple[Any, ...]:
    config = MergeConfig(
        max_wait_ns=settings.max_wait_ns,
        idle_after_ns=settings.idle_after_ns,
        miss_target_ppm=MISS_PPM,
        expected_sources=settings.expected,
        heartbeat_ns=0,
        max_set_back_ns=settings.max_set_back_ns,
    )
    operator = Merge("default", config)
    events = [event_of(item, index) for index, item in enumerate(coming)]
    released = operator.on_batch(events, events[-1].at_ns).released
    if "until_ns" in times:
        released += operator.on_time(times["until_ns"]).released
    if "end_ns" in times:
        released += operator.on_end(times["end_ns"]).released
    left: list[Left] = []
    last_ns = 0
    for event in released:
        by_ns = last_ns - event.ref_time_ns if event.late not in ("", GAP) else 0
        left.append((event.at_ns, event.offset, event.late != "", by_ns))
        last_ns = last_ns if event.late else event.ref_time_ns
    return left, sorted(event.offset for event in operator.iter_held())


def event_of(item: Item, offset: int) -> Event:
    arrival_ns = item.at_ns if item.arrival_ns is None else item.arrival_ns
    event = Event(
        "default", item.source, item.epoch, item.seq, item.ref_ns, arrival_ns, offset,
        kind=item.kind,
    )  # fmt: skip
    event.at_ns = item.at_ns
    event.late = GAP if item.late else ""
    return event
