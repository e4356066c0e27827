"""Streams as later operators read them: the output of the operators before them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from tests.kit.chains import chained
from tests.kit.events import copies, made_once
from tests.laws.streams import MS, START, in_log_order, numbered, orderly, raw
from topology.base.event import BLOCKED, DATA, NO_EPOCH, PROGRESS, UNBLOCKED, Event, copy_event
from topology.config import ClockConfig, MergeConfig, ReorderConfig
from topology.order.clock.operator import Clock
from topology.order.merge.operator import Merge
from topology.order.reorder.operator import Reorder
from topology.order.reorder.settings import LatePolicy
from topology.stage.accepted import Accepted
from topology.stage.chain import Chain

PAUSE = 3_000 * MS
MAX_WAIT = "50ms"


def reorder_of(made: Callable[..., Reorder] = Reorder, **settings: Any) -> Reorder:
    return made("default", ReorderConfig(**{"max_wait": MAX_WAIT, "max_jump": 100, **settings}))


def clock_of(max_sources: int = 100, max_ahead_ns: int = 3_600 * 1_000 * MS) -> Clock:
    config = ClockConfig(max_ahead_ns=max_ahead_ns, unsynced="trust", max_sources=max_sources)
    return Clock(config)


def merge_of(
    late: LatePolicy = "pass",
    max_sources: int = 100,
    max_held_bytes: int = 1 << 28,
    made: Callable[..., Merge] = Merge,
    **settings: Any,
) -> Merge:
    return made(
        "default",
        MergeConfig(
            **{"max_wait": MAX_WAIT, "idle_after": "150ms", **settings},
            heartbeat_ns=20 * MS,
            correct_for_ns=100 * MS,
            reorder=ReorderConfig(
                late=late, max_sources=max_sources, max_held_bytes=max_held_bytes
            ),
        ),
    )


@made_once
def sequenced(seed: int) -> list[Event]:
    """Return a raw stream after REORDER and CLOCK, with new offsets as in a topic."""
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()))
    return copies(_let_go(chain, raw(seed, n=120, sources=4)))


def with_falls(events: list[Event], rng: Random) -> list[Event]:
    """Turn two sources into gateways: a third of their events are set back."""
    for event in events:
        if event.source in ("s0", "s1") and rng.random() < 0.3:
            event.ts_ns -= rng.choice((1, 5, 30, 200)) * MS
    return events


def falling(seed: int) -> list[Event]:
    return with_falls(raw(seed, n=120, sources=4), Random(seed))


@made_once
def set_back(seed: int) -> list[Event]:
    """Return a stream with timestamps that fall, after REORDER and CLOCK."""
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()))
    return copies(_let_go(chain, falling(seed)))


def _let_go(chain: Chain, events: list[Event]) -> list[Event]:
    """Return the chain's output for events that arrive one by one."""
    released: list[Event] = []
    for event in events:
        released += chain.on_batch([event], event.at_ns).released
    return numbered(released + chain.on_end(events[-1].at_ns).released)


@made_once
def written_again(seed: int) -> list[Event]:
    """Return the sequenced stream after crashes of REORDER with `at_least_once`.

    Events that it wrote just before a crash are in the topic twice.
    """
    rng = Random(seed)
    topic: list[Event] = []
    for event in sequenced(seed):
        topic.append(event)
        if rng.random() < 0.1:
            topic += copies(topic[-rng.choice((2, 5, 20)) :])
    reached_ns = 0
    for event in numbered(topic):
        event.at_ns = reached_ns = max(reached_ns, event.at_ns)
    return topic


@made_once
def paused(seed: int) -> list[Event]:
    """Return the sequenced stream with a pause of the whole log.

    Events in the middle third arrive after the pause; later ones arrive as usual.
    """
    events = sequenced(seed)
    for place, event in enumerate(events):
        if 3 * place >= len(events):
            event.at_ns += PAUSE
            event.arrival_ns += PAUSE
        if 3 * place >= 2 * len(events) and event.kind != BLOCKED and event.kind != UNBLOCKED:
            event.ref_time_ns += PAUSE
    return events


@cache
def merged(seed: int) -> list[Event]:
    """Return the output of the whole chain, with values and time errors."""
    rng = Random(seed)
    chain = chained(("reorder", reorder_of()), ("clock", clock_of()), ("merge", merge_of()))
    released = _let_go(chain, raw(seed, n=64, sources=4))
    _fill(released, rng)
    return copies(released)


def _fill(events: list[Event], rng: Random) -> None:
    for event in events:
        if event.kind == DATA:
            key = rng.choice(("a", "b", "c", 7, None))
            event.value = {"key": key, "v": rng.choice((1, 2.5, -3, 1e300, "x", None))}
            event.error_ns = rng.choice((0, 0, 0, 0, MS, 3 * MS))


@cache
def accepted(seed: int) -> list[Event]:
    """Return the events before MERGE: each source in its order, without watermarks."""
    events = sequenced(seed)
    _fill(events, Random(seed))
    return events


@made_once
def marked(seed: int) -> list[Event]:
    """Return the accepted events with MERGE's marks, as speculative queries read them."""
    events = copies(accepted(seed))
    reading = Accepted(events)
    merge = merge_of()
    last_ns = events[-1].at_ns
    step = merge.on_batch(events, last_ns)
    step.add(merge.on_time(last_ns + 200 * MS))
    reading.note(step)
    found = copies(reading.events())
    return numbered(found)


@made_once
def aligned(seed: int) -> list[Event]:
    """Return the output of several partitions in one topic, with `progress` in between.

    Each partition is in order, and partitions are interleaved at random.
    """
    rng, lanes = Random(seed), 3
    queues: list[list[Event]] = [[] for _ in range(lanes)]
    for event in sequenced(seed):
        event.lane = int(event.source[1:]) % lanes
        queues[event.lane].append(event)
    for lane, queue in enumerate(queues):
        for i in range(len(queue) - 1, -1, -1):
            if rng.random() < 0.3:
                queue.insert(i + 1, _progress(lane, queue[i].at_ns))
        last_ns = max((q[-1].at_ns for q in queues if q), default=START * MS)
        queue.append(_progress(lane, last_ns))
    events: list[Event] = []
    waiting = [queue for queue in queues if queue]
    while waiting:
        queue = rng.choice(waiting)
        taken = rng.choice((1, 1, 5, 20))
        events += queue[:taken]
        del queue[:taken]
        waiting = [queue for queue in queues if queue]
    return numbered(events)


def _progress(lane: int, at_ns: int) -> Event:
    event = Event("default", "", 0, 0, 0, at_ns, kind=PROGRESS)
    event.lane = lane
    return event


def two_streams(seed: int) -> list[Event]:
    events = raw(seed, sources=4)
    for event in events:
        event.stream = "even" if event.source in ("s0", "s2") else "odd"
    return events


@made_once
def headerless(seed: int) -> list[Event]:
    """Return a stream without epochs and with few faults, which a small counter can carry."""
    events = orderly(seed, n=90)
    rng = Random(seed)
    kept = []
    for event in events:
        event.epoch = NO_EPOCH
        event.seq = (event.seq + 250) % 256
        if rng.random() > 0.03:
            kept.append(event)
        if rng.random() < 0.05:
            kept.append(copy_event(event))
        if rng.random() < 0.2 and len(kept) > 1 and kept[-1].source == kept[-2].source:
            kept[-1].arrival_ns, kept[-2].arrival_ns = kept[-2].arrival_ns, kept[-1].arrival_ns
    for event in kept:
        event.at_ns = event.arrival_ns
    return in_log_order(kept)
