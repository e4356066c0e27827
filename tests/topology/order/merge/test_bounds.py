"""Examples: one common wait bounds several sources, even as that wait changes."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

import topology.order.merge.bounds
from topology.order.merge.bounds import SourceBounds
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import LED, OUT, WARM_DELAYS, SourceProgress
from topology.order.merge.sources import KnownSources

pytestmark = pytest.mark.skipif(
    not topology.order.merge.bounds.__file__.endswith(".py"), reason="compiled, it takes no double"
)

MAX_WAIT = 10_000
NEVER_IDLE = 1 << 40


class Pool:
    """A stand-in for the pool of delays; a source that is not known waits for twice its edge."""

    def __init__(self) -> None:
        self.trials = WARM_DELAYS
        self.wait = 100

    def edge_ns(self) -> int:
        return self.wait // 2


def bounds_of(newest: dict[str, int]) -> tuple[SourceBounds, Pool]:
    pool: Any = Pool()
    config = MergeConfig(max_wait_ns=MAX_WAIT, idle_after_ns=NEVER_IDLE)
    known = KnownSources(config)
    known.pool = pool
    bounds = SourceBounds(known, config)
    for source, newest_ns in newest.items():
        progress = known.rows[source] = SourceProgress(source, 1_000)
        progress.state = OUT
        bounds.make_live(progress, newest_ns)
    return bounds, pool


def bound(newest: dict[str, int], now: int, wait: int) -> int:
    """Return the limit from every source: its newest key, or the time that has passed it."""
    return min(max(ns, now - wait + 1) if ns <= now - wait else ns for ns in newest.values())


@pytest.mark.parametrize("seed", range(30))
def test_limit_follows_pool_wait(seed: int) -> None:
    dice = Random(seed)
    newest = {f"s{number}": dice.randrange(1_000) for number in range(40)}
    bounds, pool = bounds_of(newest)
    now = 1_000
    for _ in range(60):
        now += dice.randrange(60)
        pool.wait = 2 * dice.randrange(1, 400)
        bounds.refresh_cold()
        assert bounds.limit(now)[0] == bound(newest, now, pool.wait)
        speaks = f"s{dice.randrange(40)}"
        newest[speaks] = max(newest[speaks], now - dice.randrange(50))
        bounds.make_live(bounds._sources[speaks], newest[speaks])


def least(newest: dict[str, int], waits: dict[str, int], now: int) -> int:
    """Return the limit by looking at every source, each with its own wait."""
    return min(
        now - waits[source] + 1 if ns <= now - waits[source] else ns
        for source, ns in newest.items()
    )


@pytest.mark.parametrize("seed", range(60))
def test_limit_follows_own_waits(seed: int) -> None:
    dice = Random(seed)
    newest = {f"s{number}": dice.randrange(1_000) for number in range(2 + seed % 6)}
    bounds, _ = bounds_of(newest)
    waits = {}
    for source in newest:
        progress: Any = bounds._sources[source]
        progress.warm, progress.delays = True, Pool()
        waits[source] = progress.delays.wait = dice.choice((20, 40, 60, 400))
        progress.delays.edge_ns = partial(waits.__getitem__, source)
    now, stayed = 1_000, 0
    for _ in range(400):
        now += dice.randrange(30)
        limit_ns, by = bounds.limit(now)
        assert limit_ns == least(newest, waits, now)
        assert by == "" or limit_ns == newest[by]
        speaks = dice.choice([*newest])
        newest[speaks] = max(newest[speaks], now - dice.randrange(50))
        if not dice.randrange(4):
            waits[speaks] = dice.choice((20, 40, 60, 400))
        bounds.make_live(bounds._sources[speaks], newest[speaks])
        stayed += bounds._sources[speaks].state == LED
    assert stayed, "none stays led when it sends"


def test_overdue_source_bounds_all() -> None:
    """Other sources stay bound by it when they send, and get keys once no source is overdue."""
    newest = {f"s{number:03}": number for number in range(100)}
    bounds, pool = bounds_of(newest)
    bounds.limit(300)
    assert len(bounds.led_cold) == 100
    pool.wait = 220
    bounds.refresh_cold()
    assert bounds.limit(300) == (81, "")
    for source in [*newest][1:]:
        bounds.make_live(bounds._sources[source], 290)
    assert bounds.limit(300) == (81, "")
    assert len(bounds.led_cold) == 99  # The first source, which was overdue for all, has a key.
    bounds.make_live(bounds._sources["s000"], 290)
    assert bounds.lacks_witness
    assert bounds.limit(300) == (290, "s000")
    assert not bounds.led_cold
    assert bounds.led_max_ns == -1
