"""End to end: exactly once under kill -9, a zombie, and a rebalance in mid-flow.

The short form of the chaos runs (`test_chaos.py`): a script instead of dice, the same
oracle. Each store and each cut is met once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from infra.redis import RedisServer
from tests.end_to_end.oracle import assert_sound, check
from tests.end_to_end.setting import SPLIT, fused, settle
from tests.end_to_end.trouble import Trouble, play
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 14_000
SPEED = 0.25
"""A share of 10,000 events a second: 5.6 s of sending."""


def test_split_with_rocksdb(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, state="rocksdb")
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)]
    play(setting, tmp_path, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


@pytest.mark.redis
def test_fused_with_redis(kafka: SharedKafka, redis_server: RedisServer, tmp_path: Path) -> None:
    redis = f"redis: {redis_server.url}\n"
    setting = fused(kafka.bootstrap, tmp_path, state="redis", more=redis)
    script = [(0.2, Trouble.kill_stages), (0.6, Trouble.join_and_leave)]
    play(setting, tmp_path, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


@pytest.mark.chaos
def test_split_without_a_store(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, state="memory")
    script = [(0.2, Trouble.kill_supervisor), (0.6, Trouble.join_and_leave)]
    play(setting, tmp_path, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


def test_at_least_once_loses_nothing(kafka: SharedKafka, tmp_path: Path) -> None:
    """Some may come again, but nothing is missing, and what is new stays in order."""
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, delivery="at_least_once")
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)]
    play(setting, tmp_path, crowd(EVENTS).rows, SPEED, script)
    verdict = check(setting, repeats=True)
    print(verdict, f"({verdict.repeated} came again)")
    assert not verdict.faults, verdict
