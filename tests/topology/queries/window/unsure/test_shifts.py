"""Oracle: the sums that shared clock errors allow match a search over every error."""

from __future__ import annotations

from itertools import product
from random import Random

from topology.base.one_clock import STEADY, Play
from topology.queries.window.unsure.event import UnsureEvent
from topology.queries.window.unsure.shifts import Sized, spread

WINDOW = (100, 130)


def one(source: str, seq: int, ts: int, ref: int, error: int) -> UnsureEvent:
    return UnsureEvent(source, 0, seq, 0, ts, ref, error, ())


def sums(events: list[Sized], start: int, end: int) -> set[int]:
    """Return the sums for every combination of clock offsets that all the sources' events allow."""
    sources = sorted({event.source for event, _ in events})
    allowed = []
    for source in sources:
        own = [event for event, _ in events if event.source == source]
        least = max(event.ref_time_ns - event.error_ns - event.ts_ns for event in own)
        most = min(event.ref_time_ns + event.error_ns - event.ts_ns for event in own)
        allowed.append(range(least, most + 1))
    found = set()
    for thetas in product(*allowed):
        theta = dict(zip(sources, thetas, strict=True))
        inside = [size for e, size in events if start <= e.ts_ns + theta[e.source] < end]
        found.add(sum(inside))
    return found


def test_bounds_match_those_of_the_worlds() -> None:
    for seed in range(150):
        rng = Random(seed)
        events: list[Sized] = []
        for source in ("a", "b")[: rng.choice((1, 2))]:
            error, behind = rng.randint(1, 9), rng.randint(-20, 20)
            for seq in range(rng.randint(1, 8)):
                ref = rng.choice(WINDOW) + rng.randint(-12, 12)
                wobble = rng.choice((0, 0, 1))
                made = one(source, seq, ref - behind, ref + wobble, error + wobble)
                events.append((made, rng.choice((1, 1, 5, -3))))
        near = [(event, size) for event, size in events if event.is_possible(WINDOW)]
        if not near:
            continue
        found = sums(near, *WINDOW)
        assert spread(near, WINDOW, STEADY) == (min(found), max(found)), seed


def test_slack_frees_events_near_an_edge() -> None:
    events: list[Sized] = [(one("a", at, 100 + at, 100 + at, 1), 1) for at in (-1, 0, 1)]
    assert spread(events, WINDOW, STEADY) == (1, 3)
    assert spread(events, WINDOW, Play(0, 2)) == (0, 3)


def test_contradicting_times_are_independent() -> None:
    events = [(one("a", 0, 100, 100, 2), 1), (one("a", 1, 100, 130, 2), 1)]
    assert spread(events, WINDOW, STEADY) == (0, 2)


def test_edges_of_long_window_are_separate() -> None:
    """Over a hundred seconds the drift exceeds the error; within an edge's width it does not."""
    long = (0, 100_000_000_000)
    play = Play(100, 0)
    error = 1_000_000
    events = [(one("a", at, at, at, error), size) for at, size in ((-400_000, 1), (300_000, 1))]
    assert spread(events, long, play) == (0, 2)
    apart = [(events[0][0], -1), events[1]]
    assert spread(apart, long, play) == (-1 + 1, 1)
