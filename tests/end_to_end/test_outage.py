"""End to end, marked `chaos`: a real broker stops for a while, and producers keep what they have.

Six sources in two partitions send through `SequencedProducer`s, each with a client and a buffer of
its own. The broker is killed, or frozen, and comes back; what they kept comes in bursts, partition
by partition and client by client. That is a pause of the whole log and not lateness (decision 7).
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from inorder.channel import ChannelLimits
from inorder.sequenced import SequencedProducer
from tests.end_to_end.matches import absences
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import events_of, read_all
from tests.end_to_end.setting import FUSED, SPLIT, Setting, settle
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import at_work

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

SOURCES = [f"machine-{number}" for number in range(6)]
PERIOD_S = 0.02
BEFORE_S, OUTAGE_S, AFTER_S = 15.0, 12.0, 25.0

WARM_NS = 5_000_000_000
"""Six clients that find their broker for the first time are late in their first two seconds, be
there an outage later or not (some 100 events); that is another matter."""

AT_MOST_LATE = 0.005
"""A share of all events: those that were on their way when the broker stopped (decision 7)."""


ABSENT_S = 5


def send(setting: Setting, hurt: Callable[[float], None]) -> int:
    """Events at a steady pace while `hurt` is told how long it has been; how many were sent."""
    sent = 0
    limits = ChannelLimits(delivery_timeout_s=120.0)
    key_by: Literal["source", "stream"] = "stream" if setting.fused else "source"
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
    """Send while the broker stops and comes back, until all is out; how many were sent."""
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
    ("stages", "how", "merge", "is_late"),
    [
        (SPLIT, "killed", "", False),
        (SPLIT, "frozen", "", False),
        (FUSED, "killed", "", False),
        (FUSED, "frozen", "", False),
        (SPLIT, "killed", "merge: {outage_wait: 0s}", True),
    ],
    ids=["split-killed", "split-frozen", "fused-killed", "fused-frozen", "nobody-awaited"],
)
def test_a_broker_that_stops_makes_next_to_nothing_late(
    own_kafka: KafkaBroker | ContainerBroker,
    tmp_path: Path,
    say: Callable[[str], None],
    stages: str,
    how: str,
    merge: str,
    is_late: bool,
) -> None:
    """The last case is the control: where MERGE awaits nobody, the outage makes events late."""
    partitions = 1 if stages == FUSED else 2
    setting = settle(
        own_kafka.bootstrap, tmp_path, stages=stages, partitions=partitions, stream=merge
    )
    sent = through_an_outage(setting, own_kafka, how)
    verdict = assert_sound(setting)
    events = events_of(setting)
    warm_ns = min(each.number("refTs") for each in events) + WARM_NS
    late = Counter(
        each.header("late")
        for each in events
        if each.header("late") and each.number("refTs") >= warm_ns
    )
    say(f"{stages}, {how}: of {sent} events {dict(late)} late through the outage")
    assert (late.total() > AT_MOST_LATE * sent) == is_late, verdict


@pytest.mark.parametrize(
    ("stages", "how", "merge", "is_told"),
    [
        ("reorder+merge+pattern", "killed", "", False),
        ("reorder+merge+pattern", "frozen", "", False),
        ("reorder, merge, pattern", "killed", "", False),
        ("reorder+merge+pattern", "killed", "merge: {quiet_after: 3s}", True),
    ],
    ids=["fused-killed", "fused-frozen", "split-killed", "quiet-sooner"],
)
def test_nobody_is_absent_while_the_broker_is_away(
    own_kafka: KafkaBroker | ContainerBroker,
    tmp_path: Path,
    stages: str,
    how: str,
    merge: str,
    is_told: bool,
) -> None:
    """An absence is shorter than the outage, and that is shorter than `quiet_after`; the last case
    is the control: W follows the clock before the outage is over."""
    setting = settle(
        own_kafka.bootstrap,
        tmp_path,
        stages=stages,
        partitions=1 if stages.startswith(FUSED) else 2,
        stream=merge,
        more=absences(ABSENT_S),
    )
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
