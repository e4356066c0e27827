"""End to end, marked `chaos`: a real broker stops for a while, and producers buffer their events.

Six sources in two partitions send through `SequencedProducer`s, each with its own client and
buffer. The broker is killed, or frozen, and comes back. Buffered events then come in bursts,
partition by partition and client by client. That is a pause of the whole log and not lateness
(decision 7).
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from inorder.channel import ChannelLimits
from inorder.sequenced import SequencedProducer
from tests.end_to_end.matches import absences
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import contract, deliver, events_of, read_all
from tests.end_to_end.setting import FUSED, ONE_TASK, SPLIT, Setting, settle
from tests.end_to_end.topics import create_led
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.worker import at_work, running, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

SOURCES = [f"machine-{number}" for number in range(6)]
PERIOD_S = 0.02
BEFORE_S, OUTAGE_S, AFTER_S = 15.0, 12.0, 25.0

WARM_NS = 5_000_000_000
"""Time to warm up: six clients that find their broker for the first time send some 100 late
events in two seconds, outage or not."""

AT_MOST_LATE = 0.005
"""Largest share of late events: those that were under way when the broker stopped (decision 7)."""


ABSENT_S = 5

FUSED_ALONE = {"stages": FUSED, "partitions": 1}


def send(setting: Setting, hurt: Callable[[float], None]) -> int:
    """Send events at a steady pace, pass elapsed time to `hurt`, and return how many were sent."""
    sent = 0
    limits = ChannelLimits(delivery_timeout_s=120.0)
    key_by = setting.topology.streams["default"].keyed_by
    with ExitStack() as stack:
        producers = [
            stack.enter_context(
                SequencedProducer(
                    setting.bootstrap, setting.raw, source, limits=limits, key_by=key_by
                )
            )
            for source in SOURCES
        ]
        begun_s = time.monotonic()
        while (now_s := time.monotonic() - begun_s) < BEFORE_S + OUTAGE_S + AFTER_S:
            hurt(now_s)
            for producer in producers:
                producer.send(b"{}")
            sent += len(producers)
            time.sleep(max(0.0, begun_s + sent / len(producers) * PERIOD_S - time.monotonic()))
    return sent


def through_an_outage(setting: Setting, broker: KafkaBroker | ContainerBroker, how: str) -> int:
    """Send while the broker stops and comes back, until all is emitted; return the number sent."""
    steps = [
        (BEFORE_S, broker.kill if how == "killed" else broker.pause),
        (BEFORE_S + OUTAGE_S, broker.restart if how == "killed" else broker.resume),
    ]

    def hurt(now_s: float) -> None:
        if steps and now_s >= steps[0][0]:
            steps.pop(0)[1]()

    with at_work(setting):
        sent = send(setting, hurt)
        wait_out(setting, sent)
    return sent


@pytest.mark.parametrize(
    ("shape", "how", "is_late"),
    [
        ({"stages": SPLIT}, "killed", False),
        ({"stages": SPLIT}, "frozen", False),
        (FUSED_ALONE, "killed", False),
        (FUSED_ALONE, "frozen", False),
        (ONE_TASK, "killed", False),
        (ONE_TASK, "frozen", False),
        ({"stages": SPLIT, "stream": "merge: {outage_wait: 0s}"}, "killed", True),
    ],
    ids=[
        "split-killed",
        "split-frozen",
        "fused-killed",
        "fused-frozen",
        "one task-killed",
        "one task-frozen",
        "nobody-awaited",
    ],
)
def test_outage_makes_next_to_nothing_late(
    own_kafka: KafkaBroker | ContainerBroker,
    tmp_path: Path,
    say: Callable[[str], None],
    shape: dict[str, Any],
    how: str,
    is_late: bool,
) -> None:
    """In the last case, a control, MERGE does not wait, and the outage makes events late."""
    setting = settle(own_kafka.bootstrap, tmp_path, **shape)
    sent = through_an_outage(setting, own_kafka, how)
    verdict = assert_sound(setting)
    if isinstance(own_kafka, ContainerBroker):
        return  # A container can restart more slowly than `outage_wait` allows.
    events = events_of(setting)
    warm_ns = min(each.number("refTs") for each in events) + WARM_NS
    late = Counter(
        each.header("late")
        for each in events
        if each.header("late") and each.number("refTs") >= warm_ns
    )
    say(f"{shape}, {how}: of {sent} events {dict(late)} late through the outage")
    assert (late.total() > AT_MOST_LATE * sent) == is_late, verdict


SendTo = Callable[[Iterable[int], range], None]


@contextmanager
def led_apart(tmp_path: Path) -> Iterator[tuple[KafkaBroker, Setting, SendTo]]:
    """Yield three brokers that each have the only replica of an input partition, the setting, and a
    sender.

    The sender sends events with given numbers to given partitions.
    """
    with KafkaBroker(tmp_path / "kafka", nodes=3, heap_mib=256) as brokers:
        setting = settle(brokers.bootstrap, tmp_path, **ONE_TASK, make=False)
        raw = setting.raw
        # Each broker leads a partition of the topic that shows the brokers' clocks.
        create_led(
            setting,
            lambda topic, number: number + 1 if topic.endswith("-times") or topic == raw else 1,
        )

        def send_to(partitions: Iterable[int], numbers: range) -> None:
            now_ns = time.time_ns()
            records = (
                (b"", b"", contract(f"s{partition}", seq, now_ns + 3 * seq + partition), partition)
                for seq in numbers
                for partition in partitions
            )
            deliver(brokers.bootstrap, raw, records)

        yield brokers, setting, send_to


def test_leaderless_partition_is_named(tmp_path: Path) -> None:
    """One of three brokers, with the only replica of an input partition, is killed, and the task
    waits for that broker.
    """
    with led_apart(tmp_path) as (brokers, setting, send_to):
        with at_work(setting) as worker:
            emitted = Emitted(setting)
            send_to(range(3), range(100))
            emitted.wait_for(300)
            brokers.kill(1)
            send_to((0, 2), range(100, 150))
            named = f"{setting.raw}/1"
            wait_until(lambda: named in str(worker.ask("ready")), f"{named} to be named")
            assert emitted.poll() == 300
            brokers.restart(1)
            send_to((1,), range(100, 150))
            emitted.wait_for(450)
            emitted.close()
            wait_until(lambda: worker.ask("ready")[0] == 200, "a worker that is ready")
        assert_sound(setting)


def test_task_awaits_a_leader(tmp_path: Path) -> None:
    with led_apart(tmp_path) as (brokers, setting, send_to):
        send_to(range(3), range(100))
        brokers.kill(1)
        worker = worker_on(setting)
        with running(worker):
            named = f"waits for a leader of {setting.raw}/1"
            wait_until(lambda: named in worker.log, named)
            wait_until(lambda: named in str(worker.ask("ready")), f"{named} on /ready")
            stages = worker.stages()
            brokers.restart(1)
            worker.wait_ready()
            wait_out(setting, 300)
            assert worker.stages() == stages
            assert worker.stop() == 0, worker.log
        assert_sound(setting)


@pytest.mark.parametrize(
    ("shape", "how", "is_told"),
    [
        (FUSED_ALONE, "killed", False),
        (FUSED_ALONE, "frozen", False),
        ({"stages": SPLIT}, "killed", False),
        (ONE_TASK, "killed", False),
        (FUSED_ALONE | {"stream": "merge: {quiet_after: 3s}"}, "killed", True),
    ],
    ids=["fused-killed", "fused-frozen", "split-killed", "one task-killed", "quiet-sooner"],
)
def test_outage_causes_no_false_absence(
    own_kafka: KafkaBroker | ContainerBroker,
    tmp_path: Path,
    shape: dict[str, Any],
    how: str,
    is_told: bool,
) -> None:
    """A pattern looks for absences that are shorter than the outage, and the outage is shorter than
    `quiet_after`. In the last case, a control, the watermark follows the clock before the outage
    is over.
    """
    pattern = "+pattern" if FUSED in shape["stages"] else ", pattern"
    asked = {"stages": shape["stages"] + pattern, "more": absences(ABSENT_S)}
    setting = settle(own_kafka.bootstrap, tmp_path, **shape | asked)
    through_an_outage(setting, own_kafka, how)
    topics = setting.topology.topics
    times = defaultdict(list)
    for event in events_of(setting):
        times[event.header("sourceId")].append(event.number("refTs"))
    there = {
        ns
        for each in times.values()
        for ns, after_ns in pairwise(sorted(each))
        if after_ns - ns <= ABSENT_S * 10**9
    }
    lines = [json.loads(each.value or b"") for each in read_all(setting.bootstrap, topics.matches)]
    wrong = [line for line in lines if line["start"] in there]
    assert bool(wrong) == is_told, wrong[:3]
