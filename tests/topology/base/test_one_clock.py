"""Oracle: the distance between two events of one clock matches a search of all event times."""

from __future__ import annotations

from itertools import product
from random import Random

from topology.base.event import Event
from topology.base.one_clock import PPM, STEADY, Play, distance


def one(ts_ns: int, ref_ns: int, source: str = "s", segment: int = 0) -> Event:
    event = Event("default", source, 0, ts_ns, ts_ns, 0)
    event.ref_time_ns, event.segment = ref_ns, segment
    return event


def test_distance_matches_search() -> None:
    narrowed = 0
    for seed in range(400):
        rng = Random(seed)
        play = Play(rng.choice((0, PPM // 4, PPM)), rng.choice((0, 0, 2)))
        errors = rng.randint(0, 6), rng.randint(0, 6)
        stamps = rng.randint(0, 20), rng.randint(0, 20)
        events = [
            one(ts_ns, ts_ns + 30 + rng.randint(-error_ns, error_ns))
            for ts_ns, error_ns in zip(stamps, errors, strict=True)
        ]
        true = product(
            *(
                range(event.ref_time_ns - error_ns, event.ref_time_ns + error_ns + 1)
                for event, error_ns in zip(events, errors, strict=True)
            )
        )
        stamped_ns = stamps[1] - stamps[0]
        play_ns = play.over(abs(stamped_ns))
        found = {b - a for a, b in true if abs(b - a - stamped_ns) <= play_ns}
        computed = distance(events[0], events[1], sum(errors), play)
        assert computed == (min(found), max(found)), seed
        narrowed += computed[1] - computed[0] < 2 * sum(errors)
    assert narrowed > 100


def test_two_clocks_keep_both_errors() -> None:
    assert distance(one(0, 5), one(10, 20, "t"), 3, STEADY) == (12, 18)
    assert distance(one(0, 5), one(10, 20, segment=1), 3, STEADY) == (12, 18)


def test_contradicting_times_are_ignored() -> None:
    assert distance(one(0, 5), one(10, 20), 3, STEADY) == (12, 18)
    assert distance(one(0, 5), one(10, 20), 5, STEADY) == (10, 10)


def test_exact_times_keep_their_distance() -> None:
    assert distance(one(0, 5), one(10, 20), 0, Play(100)) == (15, 15)
