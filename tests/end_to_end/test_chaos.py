"""End to end, marked `chaos`: random kills, zombies, rebalances and broker restarts.

`make chaos` runs it. The seed is printed, and the same seed gives the same acts until one finds no
target. Their moments depend on the machine. Settings, from the environment:

    INORDER_CHAOS_SEED       default: 1
    INORDER_CHAOS_EVENTS     events sent for each combination, default 200,000
    INORDER_CHAOS_RATE       events per second, default 2,500
    INORDER_CHAOS_KILLS      at least, for each combination, default 10
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from infra.redis import RedisServer
from tests.end_to_end.oracle import check
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, ONE_TASK, SPLIT, settle
from tests.end_to_end.trouble import Trouble, troubled
from tests.end_to_end.waiting import Emitted
from tests.waiting import QUIET_S, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(900)]

SEED = int(os.environ.get("INORDER_CHAOS_SEED", "1"))
EVENTS = int(os.environ.get("INORDER_CHAOS_EVENTS", "200000"))
RATE = float(os.environ.get("INORDER_CHAOS_RATE", "2500"))
KILLS = int(os.environ.get("INORDER_CHAOS_KILLS", "10"))

PAUSE_S = (2.0, 6.0)
"""Time between two acts, drawn evenly; it is often shorter than a take-over."""

WORKERS = 2


class Dice:
    """A source of random troubles; `kills` counts those that killed a process."""

    def __init__(
        self, trouble: Trouble, broker: KafkaBroker | ContainerBroker, say: Callable[[str], None]
    ) -> None:
        self._random = Random(SEED)
        self._trouble = trouble
        self._broker = broker
        self._say = say
        self._began_s = time.monotonic()
        self._next_s = self._began_s
        self._asked = ["pause", "join_and_leave", "restart_broker"]
        self.kills = 0

    def throw_due(self) -> int:
        """Perform the trouble that is due, and return the kills so far."""
        self._trouble.wake_due()
        if time.monotonic() >= self._next_s:
            self._throw()
            self._next_s = time.monotonic() + self._random.uniform(*PAUSE_S)
        return self.kills

    def _throw(self) -> None:
        # Each requested trouble happens once between kills, at a random moment.
        is_asked = bool(self._asked) and self._random.random() < 0.3
        kills = ["kill_worker", "kill_supervisor", "kill_stages"]
        what = self._random.choice(self._asked if is_asked else kills)
        index = self._random.randrange(WORKERS)
        at_s = time.monotonic() - self._began_s
        self._say(f"{at_s:6.1f} s  {what} {index if what != 'restart_broker' else ''}")
        if what == "restart_broker":
            self._broker.kill()
            self._broker.restart()
        elif not getattr(self._trouble, what)(index):
            return  # There was no target.
        if is_asked:
            self._asked.remove(what)
        else:
            self.kills += 1

    @property
    def is_done(self) -> bool:
        return self.kills >= KILLS and not self._asked


SHAPES: Final[dict[str, dict[str, Any]]] = {
    "split": {"stages": SPLIT, "partitions": 4},
    "fused": {"stages": FUSED, "partitions": 1},
    "one task": ONE_TASK,
    "one task over 64 partitions": ONE_TASK | {"partitions": 64},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("state", ["rocksdb", "redis", "memory"])
def test_each_event_once_despite_chaos(
    own_kafka: KafkaBroker | ContainerBroker,
    own_redis: RedisServer,
    tmp_path: Path,
    say: Callable[[str], None],
    state: str,
    shape: str,
) -> None:
    setting = settle(
        own_kafka.bootstrap,
        tmp_path,
        state=state,
        more=f"redis: {own_redis.url}\n",
        **SHAPES[shape],
    )
    rows = crowd(EVENTS, seed=SEED).rows
    say(f"{shape}, {state}, seed {SEED}, {len(rows)} records at {RATE:.0f}/s")
    with troubled(setting, WORKERS) as trouble:
        sender = Sender(setting, rows, speed=RATE / RATE_HZ).start()
        emitted = Emitted(setting)
        dice = Dice(trouble, own_kafka, say)
        wait_until(
            lambda: sender.share >= 0.95 and dice.is_done,
            "all kills",
            lambda: (emitted.poll(), dice.throw_due(), sender.sent),
        )
        sender.finish()
        sent_s = time.monotonic()
        emitted.wait_for(sender.different, trouble.wake_due, quiet_s=2 * QUIET_S)
        say(
            f"all out {time.monotonic() - sent_s:.1f} s after the last was sent;"
            f" longest silence {emitted.longest_silence_s:.1f} s"
        )
        emitted.close()
    verdict = check(setting)
    say(f"{dice.kills} kills: {verdict}")
    assert not verdict.faults, verdict
