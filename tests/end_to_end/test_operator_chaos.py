"""End to end, marked `chaos`: a year of what operators and their machines do to an application.

A reader that knows nothing of inorder's state checks each chapter (tests/end_to_end/oracle). This
chapter is about clocks and brokers; test_operator_stores_chaos.py and test_operator_rights_chaos.py
have others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as Place

from cli.local.kafka import KafkaBroker
from tests.end_to_end.day import Day
from tests.end_to_end.kafka_tools import copies, lift_default_quota, reassign, set_default_quota
from tests.end_to_end.oracle import check
from tests.end_to_end.records import events_of
from tests.end_to_end.replaying import dump, replay, said
from tests.end_to_end.setting import ONE_TASK, Setting, settle
from tests.end_to_end.topics import admin_of
from tests.end_to_end.wall_clock import WallClock
from tests.end_to_end.worker import Spawned, Worker, running, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(900)]

NODES = 3
BROKERS = range(1, NODES + 1)
"""Ids of the brokers."""

QUOTAS = (10_000, 20_000, 50_000)
"""Quotas in bytes per second."""

ROUNDS = 2
"""Number of times that each act happens."""


class Cluster:
    """A cluster to act on: its brokers, and the workers with the wall clock of each."""

    def __init__(
        self,
        setting: Setting,
        brokers: KafkaBroker,
        workers: list[Worker],
        walls: list[WallClock],
        dice: Random,
    ) -> None:
        self._setting, self._brokers, self._workers, self._walls = setting, brokers, workers, walls
        self._dice = dice
        self._is_throttled = False

    def acts(self) -> list[Callable[[], None]]:
        return ROUNDS * [
            *(self._step, self._right, self._stop_and_start, self._kill),
            *(self._roll, self._elect, self._reassign, self._throttle, self._lift),
        ]

    def last_acts(self) -> list[Callable[[], None]]:
        return [self._lift, self._spread]

    def _step(self) -> None:
        """Shift one worker's wall clock, and leave it shifted."""
        off_s = self._dice.choice((-3_600, -5, 5, 3_600))
        self._dice.choice(self._walls).set_off(off_s)

    def _right(self) -> None:
        for wall in self._walls:
            wall.set_off(0)

    def _roll(self) -> None:
        """Restart the brokers, one after the other."""
        for node in range(NODES):
            self._brokers.restart(node)
            self._await_in_sync()

    def _elect(self) -> None:
        """Give partitions back to their preferred leaders."""
        with suppress(KafkaException):  # The leaders may be the preferred ones already.
            admin = admin_of(self._setting.bootstrap)
            places = [Place(self._setting.raw, 0), Place(self._setting.ordered, 0)]
            admin.elect_leaders(ElectionType.PREFERRED, places).result(30)

    def _reassign(self) -> None:
        """Give each partition two or three replicas, and another preferred leader."""
        reassign(
            self._setting.bootstrap,
            {
                place: self._dice.sample(BROKERS, self._dice.choice((NODES - 1, NODES)))
                for place in copies(self._setting.bootstrap)
            },
        )
        self._await_in_sync()

    def _spread(self) -> None:
        """Give every broker a replica of each partition again."""
        every = {
            place: [*found, *(each for each in BROKERS if each not in found)]
            for place, found in copies(self._setting.bootstrap).items()
        }
        reassign(self._setting.bootstrap, every)
        self._await_in_sync()

    def _throttle(self) -> None:
        """Set each client's quota to about what a worker needs, or less."""
        set_default_quota(self._setting.bootstrap, self._dice.choice(QUOTAS))
        self._is_throttled = True

    def _lift(self) -> None:
        if self._is_throttled:
            lift_default_quota(self._setting.bootstrap)
        self._is_throttled = False

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


def test_events_survive_clocks_and_brokers(tmp_path: Path, say: Callable[[str], None]) -> None:
    """Brokers restart, partitions move between them, quotas throttle, wall clocks jump, and workers
    restart. Each event is emitted once and in order, with the time that a replay of the log
    gives it.
    """
    with ExitStack() as stack:
        brokers = KafkaBroker(tmp_path / "kafka", nodes=NODES, heap_mib=256)
        stack.enter_context(brokers)
        setting = settle(brokers.bootstrap, tmp_path, **ONE_TASK, replication=NODES)
        walls = [WallClock(tmp_path / name) for name in "ab"]
        workers = stack.enter_context(at_work(setting, walls))
        day = Day(say)
        cluster = Cluster(setting, brokers, workers, walls, day.dice)
        day.plan(cluster.acts(), cluster.last_acts())
        day.go_through(setting)
        for worker in workers:
            assert worker.alive, worker.log[-3000:]
        verdict = check(setting)
        say(f"{verdict}")
        assert not verdict.faults, verdict
        assert_times_as_replayed(setting, tmp_path / "dumped.jsonl")


def assert_times_as_replayed(setting: Setting, path: Path) -> None:
    """Assert that events have the times and errors of a replay.

    Lateness is not compared, since it depends on when time passed.
    """
    dump(setting, path)
    expected = {event._replace(is_late=False) for event, _ in replay(setting, path).events}
    found = {event._replace(is_late=False) for event, _ in said(events_of(setting))}
    assert found == expected
