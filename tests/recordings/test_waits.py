"""Examples: waits of several processes put together, exact or thinned."""

from __future__ import annotations

from random import Random

from recordings.waits import Waits

MS = 1_000_000


def waits(each_ms: list[int]) -> Waits:
    found = Waits()
    found.each_ns.extend(ms * MS for ms in each_ms)
    return found


def test_nothing_waited() -> None:
    assert Waits().in_ms() == {"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def test_below_the_bound_nothing_is_lost() -> None:
    rng = Random(1)
    each_ms = [rng.randrange(1_000) for _ in range(999)]
    together = Waits()
    for part in (each_ms[:10], each_ms[10:500], each_ms[500:], []):
        thinned = waits(part)
        thinned.thin()
        together.join(thinned)
    assert together.in_ms() == waits(each_ms).in_ms()


def test_above_it_quantiles_are_near_and_the_rest_is_exact() -> None:
    each_ms = list(range(10_000))
    thinned = waits(each_ms)
    thinned.thin(100)
    exact, found = waits(each_ms).in_ms(), thinned.in_ms()
    assert (found["mean"], found["max"]) == (exact["mean"], exact["max"])
    assert abs(found["p50"] - exact["p50"]) <= 100
    assert abs(found["p99"] - exact["p99"]) <= 100
