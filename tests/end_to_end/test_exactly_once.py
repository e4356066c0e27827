"""End to end: exactly once under kill -9, a zombie, and a rebalance in mid-flow.

The short form of the chaos runs (`test_chaos.py`): a script instead of dice, the same
judge. Each combination of store and cut that differs in code is met once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from infra.redis import RedisServer
from tests.end_to_end.judge import judge
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, SPLIT, Setting, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

EVENTS = 40_000
SPEED = 0.25
"""Of 10,000 events a second: 16 s of sending."""

ZOMBIE_S = 9.0
"""Longer than the group's session (6 s), so the sleeper's partitions go elsewhere."""

TIMEOUT_S = 120.0


@dataclass
class Stage:
    """Where the script plays: two workers that run and one that may join."""

    workers: list[Worker]
    third: Worker
    wakes: list[tuple[float, Worker, int]] = field(default_factory=list)

    def kill_worker(self) -> None:
        """Supervisor and stages at once, and a new start with the same state folder."""
        self.workers[0].kill_all()
        self.workers[0].start()

    def kill_supervisor(self) -> None:
        self.workers[0].kill()
        self.workers[0].start()

    def kill_stages(self) -> None:
        for index in range(len(self.workers[1].stages())):
            self.workers[1].kill_stage(index)

    def pause(self) -> None:
        """All stages of one worker sleep beyond their session."""
        for index in range(len(self.workers[1].stages())):
            pid = self.workers[1].pause_stage(index)
            if pid is not None:
                self.wakes.append((time.monotonic() + ZOMBIE_S, self.workers[1], pid))

    def join_and_leave(self) -> None:
        self.third.start()
        assert self.workers[0].stop() == 0

    def wake_due(self) -> None:
        for wake in list(self.wakes):
            if time.monotonic() >= wake[0]:
                self.wakes.remove(wake)
                wake[1].wake(wake[2])


Act = Callable[[Stage], None]


def play(setting: Setting, folder: Path, script: list[tuple[float, Act]]) -> None:
    """Send, act when the share of events has been sent, wait until all is out, stop."""
    workload = crowd(EVENTS)
    expected = len({(row.source, row.seq) for row in workload.rows})
    a, b, c = (Worker(n, setting.path, setting.bootstrap, folder) for n in "abc")
    stage = Stage([a, b], c)
    with running(a, b):
        try:
            a.wait_ready()
            emitted = Emitted(setting)
            sender = Sender(setting, workload.rows, speed=SPEED).start()
            for share, act in script:
                while sender.share < share:
                    emitted.poll()
                    stage.wake_due()
                act(stage)
            sender.finish()
            emitted.wait_for(expected, TIMEOUT_S, stage.wake_due)
            while stage.wakes:
                emitted.poll()
                stage.wake_due()
            emitted.close()
            a.await_orphans()
            for worker in (a, b, c):
                if worker.alive:
                    assert worker.stop() == 0, worker.log[-3000:]
        finally:
            c.close()


def test_split_rocksdb(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, state="rocksdb")
    play(setting, tmp_path, [(0.2, Stage.kill_worker), (0.6, Stage.pause)])
    verdict = judge(setting)
    assert not verdict.faults, verdict


def test_fused_redis(kafka: SharedKafka, redis_server: RedisServer, tmp_path: Path) -> None:
    setting = settle(
        kafka.bootstrap,
        tmp_path,
        stages=FUSED,
        partitions=1,
        state="redis",
        more=f"redis: {redis_server.url}\n",
    )
    play(setting, tmp_path, [(0.2, Stage.kill_stages), (0.6, Stage.join_and_leave)])
    verdict = judge(setting)
    assert not verdict.faults, verdict


def test_split_memory(kafka: SharedKafka, tmp_path: Path) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, state="memory")
    play(setting, tmp_path, [(0.2, Stage.kill_supervisor), (0.6, Stage.join_and_leave)])
    verdict = judge(setting)
    assert not verdict.faults, verdict


def test_at_least_once_loses_nothing(kafka: SharedKafka, tmp_path: Path) -> None:
    """Some may come again, but nothing is missing, and what is new stays in order."""
    setting = settle(kafka.bootstrap, tmp_path, stages=SPLIT, delivery="at_least_once")
    play(setting, tmp_path, [(0.2, Stage.kill_worker), (0.6, Stage.pause)])
    verdict = judge(setting, repeats=True)
    assert not verdict.faults, verdict
