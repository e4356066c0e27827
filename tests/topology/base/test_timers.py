"""Law: timers return each key once, after its first instant, and do not grow by changed keys."""

from __future__ import annotations

from random import Random

import pytest

from topology.base.operator import NEVER
from topology.base.timers import SPARE, Timers


def test_due_keys_are_in_order() -> None:
    """Keys come by instant, then in the order of arming."""
    timers: Timers[str] = Timers()
    for key, at_ns in (("z", 2), ("b", 1), ("a", 2), ("c", 3)):
        timers.arm(key, at_ns)
    assert timers.due(3) == ["b", "z", "a"]


@pytest.mark.parametrize("seed", range(20))
def test_timers_match_searched_dict(seed: int) -> None:
    """Oracle: a dict that is searched each time."""
    rng = Random(seed)
    timers: Timers[int] = Timers()
    table: dict[int, int] = {}
    now_ns = 0
    for _ in range(2_000):
        key = rng.randrange(40)
        what = rng.random()
        if what < 0.6:
            at_ns = now_ns + rng.randrange(100)
            timers.arm(key, at_ns)
            table[key] = min(at_ns, table.get(key, at_ns))
        elif what < 0.8:
            timers.disarm(key)
            table.pop(key, None)
        else:
            now_ns += rng.randrange(30)
            due = {key for key, at_ns in table.items() if at_ns < now_ns}
            assert timers.next_ns <= min(table.values(), default=NEVER)
            taken = timers.due(now_ns)
            assert len(taken) == len(set(taken))
            assert set(taken) == due
            assert timers.next_ns >= now_ns
            for each in due:
                del table[each]
        assert len(timers._armed) == len(table)


def test_disarmed_keys_are_removed() -> None:
    timers: Timers[int] = Timers()
    most = 0
    for key in range(20 * SPARE):
        timers.arm(key, key)
        if key % 100:
            timers.disarm(key)
        most = max(most, len(timers._heap) - 2 * len(timers._armed))
    assert most <= 2 * SPARE
    assert timers.due(1_001) == list(range(0, 1_001, 100))
