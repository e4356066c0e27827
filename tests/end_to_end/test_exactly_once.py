"""End to end: exactly once under kill -9, a zombie, and a rebalance in mid-flow.

The short form of the chaos runs (`test_chaos.py`): a script instead of dice, the same
oracle. Each store and each cut is met once.
"""

from __future__ import annotations

import pytest

from benchmarks.workloads import crowd
from infra.redis import RedisServer
from tests.end_to_end.oracle import assert_sound, check
from tests.end_to_end.setting import SPLIT, Settles
from tests.end_to_end.trouble import Trouble, play

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 14_000
SPEED = 0.25
"""A share of 10,000 events a second: 5.6 s of sending."""


def test_split_with_rocksdb(settles: Settles) -> None:
    setting = settles(stages=SPLIT, state="rocksdb")
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)]
    play(setting, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


@pytest.mark.redis
def test_fused_with_redis(settles: Settles, redis_server: RedisServer) -> None:
    redis = f"redis: {redis_server.url}\n"
    setting = settles.fused(state="redis", more=redis)
    script = [(0.2, Trouble.kill_stages), (0.6, Trouble.join_and_leave)]
    play(setting, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


@pytest.mark.chaos
def test_split_without_a_store(settles: Settles) -> None:
    setting = settles(stages=SPLIT, state="memory")
    script = [(0.2, Trouble.kill_supervisor), (0.6, Trouble.join_and_leave)]
    play(setting, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


def test_at_least_once_loses_nothing(settles: Settles) -> None:
    """Some may come again, but nothing is missing, and what is new stays in order."""
    setting = settles(stages=SPLIT, delivery="at_least_once")
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)]
    play(setting, crowd(EVENTS).rows, SPEED, script)
    verdict = check(setting, repeats=True)
    print(verdict, f"({verdict.repeated} came again)")
    assert not verdict.faults, verdict
