"""Examples: the sources that time bounds at one common distance, and what becomes of them as it
moves."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import topology.merge.bounds
from topology.merge.bounds import Frontier
from topology.merge.source import OUT, WARM_DELAYS, Feed

pytestmark = pytest.mark.skipif(
    not topology.merge.bounds.__file__.endswith(".py"), reason="compiled, it takes no double"
)

MAX_WAIT = 10_000
NEVER_IDLE = 1 << 40


class Pool:
    """The wait of sources that are not known yet is twice its edge."""

    def __init__(self) -> None:
        self.trials = WARM_DELAYS
        self.wait = 100

    def edge_ns(self) -> int:
        return self.wait // 2


def frontier_of(newest: dict[str, int]) -> tuple[Frontier, Pool]:
    pool: Any = Pool()
    feeds: dict[str, Feed] = {}
    frontier = Frontier(feeds, [], pool, MAX_WAIT, NEVER_IDLE)
    for source, newest_ns in newest.items():
        feed = feeds[source] = Feed(source, 1_000)
        feed.state = OUT
        frontier.enter(feed, newest_ns)
    return frontier, pool


def bound(newest: dict[str, int], now: int, wait: int) -> int:
    """As if all were looked at: the newest key of a source, or time where that has passed it."""
    return min(max(ns, now - wait + 1) if ns <= now - wait else ns for ns in newest.values())


@pytest.mark.parametrize("seed", range(30))
def test_the_limit_is_that_of_all_sources_wherever_the_pool_moves(seed: int) -> None:
    dice = Random(seed)
    newest = {f"s{number}": dice.randrange(1_000) for number in range(40)}
    frontier, pool = frontier_of(newest)
    now = 1_000
    for _ in range(60):
        now += dice.randrange(60)
        pool.wait = 2 * dice.randrange(1, 400)
        frontier.refresh_cold(now)
        assert frontier.limit(now)[0] == bound(newest, now, pool.wait)
        speaks = f"s{dice.randrange(40)}"
        newest[speaks] = max(newest[speaks], now - dice.randrange(50))
        frontier.enter(frontier._feeds[speaks], newest[speaks])


def test_only_those_that_the_new_wait_has_not_passed_go_back() -> None:
    newest = {f"s{number:03}": number for number in range(100)}
    frontier, pool = frontier_of(newest)
    frontier.limit(300)
    assert len(frontier.led_cold) == 100
    pool.wait = 220
    frontier.refresh_cold(300)
    assert len(frontier.led_cold) == 81  # s000 to s080
    pool.wait = 40
    frontier.refresh_cold(300)
    assert len(frontier.led_cold) == 81
    assert frontier.led_max_ns == 40
