"""End to end: sources whose clocks are wrong, and rounds of time sync beside their events.

Once a source has synced, event time lies inside ref_time +/- err of each event, and the order
holds. Two workers that are killed in between give what one gives in a single run, byte for byte. A
replay of the dumped topics gives the same.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import pytest
from confluent_kafka import Producer

from benchmarks.workloads.rows import Row
from tests.end_to_end.records import Sender, contract, events_of, new_producer
from tests.end_to_end.setting import FUSED, SPLIT, Setting, Settles
from tests.end_to_end.test_same_answer import assert_one_answer
from tests.end_to_end.trouble import Trouble, play

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MS = 1_000_000
S = 1_000 * MS
HOUR = 3_600 * S
SECONDS = 6.0
EVERY_S = 0.01
SYNC_EVERY_S = 0.5
SETTLED_S = 2.5
"""Time after which every source has synced and its samples apply."""

CALM = "tick_lag: 3s\n"
FIXED = "reorder: {rule: fixed, max_wait: 200ms, start: zero}"


@dataclass(frozen=True)
class WrongClock:
    """A clock that reads t + ahead + skew * (t - begin) at event time t."""

    name: str
    ahead_ns: int
    skew_ppm: int = 0

    def reads(self, true_ns: int, begin_ns: int) -> int:
        return true_ns + self.ahead_ns + (true_ns - begin_ns) * self.skew_ppm // 1_000_000


CLOCKS = (
    WrongClock("right", 0),
    WrongClock("hour-ahead", HOUR),
    WrongClock("hour-behind", -HOUR),
    WrongClock("fast", 5 * MS, 200),
    WrongClock("slow", -30 * MS, -200),
)


class ClockedSender(Sender):
    """A sender of live events of sources with wrong clocks, some of them delayed.

    It also sends honest rounds of time sync with uneven delays. Each value is the event time.
    """

    def __init__(self, setting: Setting, seed: int) -> None:
        steps = range(int(SECONDS / EVERY_S))
        self.rows = [Row(0, clock.name, step, 0) for step in steps for clock in CLOCKS]
        super().__init__(setting, self.rows)
        self._rng = random.Random(seed)
        self.begin_ns = time.time_ns()

    def _send_all(self) -> None:
        producer = new_producer(self._setting.bootstrap, **{"linger.ms": 1})
        waiting: list[tuple[int, int, Callable[[], None]]] = []
        self.begin_ns = time.time_ns()
        steps = int(SECONDS / EVERY_S)
        for step in range(steps):
            due_ns = self.begin_ns + int(step * EVERY_S * S)
            while time.time_ns() < due_ns and not self._stopping.is_set():
                while waiting and waiting[0][0] <= time.time_ns():
                    heappop(waiting)[2]()
                producer.poll(0)
                time.sleep(0.001)
            for at, clock in enumerate(CLOCKS):
                delay_ns = self._rng.randint(1, 40) * MS if self._rng.random() < 0.1 else 0
                event = self._event(producer, clock, step)
                heappush(waiting, (time.time_ns() + delay_ns, step * 10 + at, event))
                if step % int(SYNC_EVERY_S / EVERY_S) == 0:
                    for _ in range(4):
                        self._round(producer, clock)
        while waiting:
            heappop(waiting)[2]()
        assert producer.flush(60) == 0

    def _event(self, producer: Producer, clock: WrongClock, seq: int) -> Callable[[], None]:
        true_ns = time.time_ns()
        headers = contract(clock.name, seq, clock.reads(true_ns, self.begin_ns))
        value = json.dumps({"true": true_ns}).encode()

        def send() -> None:
            key = self._setting.key(clock.name)
            producer.produce(self._setting.raw, value, key, headers=list(headers))
            self.sent += 1

        return send

    def _round(self, producer: Producer, clock: WrongClock) -> None:
        heard_ns = time.time_ns()
        there_ns, back_ns = (int(self._rng.expovariate(2) * MS) for _ in range(2))
        sample = {
            "t1": clock.reads(heard_ns - there_ns, self.begin_ns),
            "t2": heard_ns,
            "t3": heard_ns,
            "t4": clock.reads(heard_ns + back_ns, self.begin_ns),
        }
        topic = self._setting.topology.topics.clock
        producer.produce(topic, json.dumps(sample).encode(), clock.name.encode())


def assert_true(setting: Setting, begin_ns: int) -> None:
    """Assert that each settled event's corrected time is right within its error, and that the error
    is small.
    """
    counted: dict[str, int] = {}
    for record in events_of(setting):
        if record.value is None:
            continue
        true_ns = json.loads(record.value)["true"]
        if true_ns < begin_ns + int(SETTLED_S * S):
            continue
        source = record.name[0]
        wrong_ns = abs(record.number("refTs") - true_ns)
        assert wrong_ns <= record.number("err"), (record.name, wrong_ns)
        assert record.number("err") < 5 * MS, record.name
        counted[source] = counted.get(source, 0) + 1
    assert counted.keys() == {clock.name for clock in CLOCKS}
    assert min(counted.values()) > 300


@pytest.mark.parametrize("stages", [FUSED, pytest.param(SPLIT, marks=pytest.mark.chaos)])
def test_event_time_is_within_the_error(settles: Settles, stages: str) -> None:
    shape: dict[str, Any] = {
        "stages": stages,
        "partitions": 1 if stages == FUSED else 3,
        "clock": "unsynced: estimate",
        "stream": FIXED,
        "more": CALM,
    }
    hurt = settles(**shape)
    clocks = hurt.topology.topics.clock
    calm = settles(raw=hurt.raw, clocks=clocks, **shape)
    sender = ClockedSender(hurt, seed=5)
    script = [(0.4, Trouble.kill_stages), (0.7, Trouble.kill_worker)]
    play(hurt, sender.rows, None, script, sender=sender)
    assert_true(hurt, sender.begin_ns)
    assert assert_one_answer(hurt, calm).summary["clock"] > 0
