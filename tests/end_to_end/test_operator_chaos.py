"""End to end, marked `chaos`: what operators and their machines do to an application in a year.

Each chapter is counted by a reader that knows nothing of inorder's state (tests/end_to_end/oracle).
The seed of the dice is INORDER_CHAOS_SEED (tests/end_to_end/test_chaos.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as Place

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from cli.local.kafka import KafkaBroker
from tests.end_to_end.oracle import check
from tests.end_to_end.records import Sender, events_of
from tests.end_to_end.replaying import dump, replay, said
from tests.end_to_end.setting import FUSED, Setting, settle
from tests.end_to_end.test_chaos import SEED
from tests.end_to_end.topics import admin_of
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.wall_clock import WallClock
from tests.end_to_end.worker import Spawned, Worker, running, worker_on
from tests.waiting import QUIET_S, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(900)]

NODES = 3
EVENTS = 12_000
RATE = 100.0
PAUSE_S = (1.0, 5.0)
ROUNDS = 2
"""How often each act happens at least."""


class Day:
    """The acts of an operator's day, thrown by the dice one after the other."""

    def __init__(
        self,
        setting: Setting,
        brokers: KafkaBroker,
        workers: list[Worker],
        walls: list[WallClock],
        say: Callable[[str], None],
    ) -> None:
        self._setting, self._brokers, self._workers, self._walls = setting, brokers, workers, walls
        self._dice, self._say = Random(SEED), say
        self._next_s = time.monotonic()
        acts = (self._step, self._right, self._roll, self._elect, self._stop_and_start, self._kill)
        self.left = [act for act in acts for _ in range(ROUNDS)]
        self._dice.shuffle(self.left)

    def act_due(self) -> int:
        """How many acts are left."""
        if self.left and time.monotonic() >= self._next_s:
            act = self.left.pop()
            self._say(act.__name__.strip("_"))
            act()
            self._next_s = time.monotonic() + self._dice.uniform(*PAUSE_S)
        return len(self.left)

    def _step(self) -> None:
        """The wall clock of one worker steps, and stays there."""
        off_s = self._dice.choice((-3_600, -5, 5, 3_600))
        self._dice.choice(self._walls).set_off(off_s)

    def _right(self) -> None:
        for wall in self._walls:
            wall.set_off(0)

    def _roll(self) -> None:
        """Each broker is restarted, one after the other."""
        for node in range(NODES):
            self._brokers.restart(node)
            self._await_in_sync()

    def _elect(self) -> None:
        """Partitions go back to the brokers that are to lead them."""
        with suppress(KafkaException):  # They may lead already.
            admin = admin_of(self._setting.bootstrap)
            places = [Place(self._setting.raw, 0), Place(self._setting.ordered, 0)]
            admin.elect_leaders(ElectionType.PREFERRED, places).result(30)

    def _stop_and_start(self) -> None:
        worker = self._dice.choice(self._workers)
        assert worker.stop() == 0, worker.log[-3000:]
        worker.start()

    def _kill(self) -> None:
        worker = self._dice.choice(self._workers)
        worker.kill_all()
        worker.start()

    def _await_in_sync(self) -> None:
        admin = admin_of(self._setting.bootstrap)

        def lagging() -> list[str]:
            return [
                name
                for name, topic in admin.list_topics(timeout=30).topics.items()
                if any(len(p.isrs) < len(p.replicas) for p in topic.partitions.values())
            ]

        wait_until(lambda: not lagging(), "all copies in sync", lambda: self._brokers.bootstrap)


@contextmanager
def at_work(setting: Setting, walls: list[WallClock]) -> Iterator[list[Worker]]:
    workers = [
        worker_on(setting, name=name, kind=Spawned, env=wall.env)
        for name, wall in zip("ab", walls, strict=True)
    ]
    with running(*workers):
        workers[0].wait_ready()
        yield workers
        for worker in workers:
            assert worker.stop() == 0, worker.log[-3000:]


def test_wall_clocks_and_brokers_of_a_cluster(tmp_path: Path, say: Callable[[str], None]) -> None:
    """Three brokers are rolled and elected, wall clocks step, and workers come and go.

    Each event comes out once and in order, with the time that a replay of the log gives it.
    """
    with ExitStack() as stack:
        brokers = KafkaBroker(tmp_path / "kafka", nodes=NODES, heap_mib=256)
        stack.enter_context(brokers)
        setting = settle(brokers.bootstrap, tmp_path, stages=FUSED, partitions=1, replication=NODES)
        walls = [WallClock(tmp_path / name) for name in "ab"]
        workers = stack.enter_context(at_work(setting, walls))
        day = Day(setting, brokers, workers, walls, say)
        sender = Sender(setting, crowd(EVENTS, seed=SEED).rows, speed=RATE / RATE_HZ).start()
        emitted = Emitted(setting)
        wait_until(
            lambda: sender.share >= 0.99 and not day.left,
            "the end of the day",
            lambda: (emitted.poll(), day.act_due(), sender.sent),
        )
        sender.finish()
        emitted.wait_for(sender.different, quiet_s=2 * QUIET_S)
        emitted.close()
        for worker in workers:
            assert worker.alive, worker.log[-3000:]
        verdict = check(setting)
        say(f"{verdict}")
        assert not verdict.faults, verdict
        assert_times_as_replayed(setting, tmp_path / "dumped.jsonl")


def assert_times_as_replayed(setting: Setting, path: Path) -> None:
    """Which events are late depends on when time passed; their times and errors do not."""
    dump(setting, path)
    expected = {event._replace(is_late=False) for event, _ in replay(setting, path).events}
    found = {event._replace(is_late=False) for event, _ in said(events_of(setting))}
    assert found == expected
