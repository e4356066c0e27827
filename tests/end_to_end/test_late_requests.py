"""End to end: requests that reach the broker late, or whose answers are lost, tear no transaction.

A proxy, a NAT or a broker that was paused can deliver requests from a connection that was closed
long ago. The short test aims at the ends of transactions. The one marked `chaos` holds up every
kind of request of a transactional producer, on brokers of two release lines, alone and in pairs. In
a pair one broker has the outputs, and the other the changelog.

Over a slow link transactions are only as large as it carries in time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from agents.task.checkpoints import ABORTED, COMMITTED
from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from cli.local.kafka import jars
from infra.kafka import missing
from tests.end_to_end.late_requests import AIMED, ANSWER, ANY_TIME, STAYS, Holds, Plan
from tests.end_to_end.numbered import NUMBERED
from tests.end_to_end.oracle import Verdict, assert_sound, check
from tests.end_to_end.records import Sender, contract, send
from tests.end_to_end.setting import ONE_TASK, fused
from tests.end_to_end.topics import create_led
from tests.end_to_end.waiting import Emitted, wait_out
from tests.end_to_end.way_to_brokers import Cluster, Judge, cluster
from tests.end_to_end.worker import at_work
from tests.services import require
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SEED = int(os.environ.get("INORDER_CHAOS_SEED", "1"))
HOLDS = int(os.environ.get("INORDER_CHAOS_HOLDS", "60"))
"""Number of holds for each combination of brokers and version."""

RATE = 500.0
AT_MOST = 20_000, 200_000
"""Largest numbers of events in the short test and in the long one, however long the holds take."""

LARGE = b"x" * 8_000
"""Value for transactions above 1 MiB: on one broker only those of several requests can be torn."""

SELDOM = "checkpoint: 500ms\n"

ENDS: list[Plan] = [("EndTxn", AIMED), ("EndTxn", AIMED), ("EndTxn", ANSWER)]
ALL: list[Plan] = [
    ("EndTxn", AIMED),
    ("AddPartitionsToTxn", ANY_TIME),
    ("EndTxn", ANY_TIME),
    ("Produce", ANY_TIME),
    ("EndTxn", ANSWER),
    ("AddOffsetsToTxn", ANY_TIME),
    ("EndTxn", AIMED),
    ("InitProducerId", ANY_TIME),
    ("TxnOffsetCommit", ANY_TIME),
    ("EndTxn", AIMED),
    ("Produce", ANSWER),
    ("AddPartitionsToTxn", ANSWER),
    ("InitProducerId", ANSWER),
]


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require(missing())
    with cluster(tmp_path_factory.mktemp("one")) as brokers:
        yield brokers


def play(
    brokers: Cluster,
    folder: Path,
    holds: Holds,
    at_most: int,
    say: Callable[[str], None],
    times: str = "",
    shape: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Verdict, dict[str, float]]:
    """Send until all holds are over; return the verdict, and the unanswered ends of transactions by
    outcome.
    """
    is_alone = len(brokers.ways) == 1
    more, value = (SELDOM, LARGE) if is_alone else (times, b"{}")
    setting = fused(brokers.direct, folder, more=more, make=is_alone, **shape)
    if not is_alone:
        # The second broker leads the outputs, and the first all other topics.
        create_led(setting, lambda topic, _: 2 if topic == setting.ordered else 1)
    brokers.judge(holds)
    with at_work(replace(setting, bootstrap=brokers.through)) as worker:
        sender = Sender(
            setting, crowd(at_most).rows, speed=RATE / RATE_HZ, value=lambda _: value
        ).start()
        emitted = Emitted(setting)

        def look() -> object:
            assert worker.alive, worker.log[-3000:]
            return emitted.poll(), sender.sent

        emitted.wait_for(100, look)
        holds.begin()
        wait_until(lambda: holds.is_done or sender.share == 1.0, "the holds", look)
        sender.stop()
        try:
            emitted.wait_for(sender.different, quiet_s=20.0)
        except AssertionError as lost:
            say(str(lost))
        emitted.close()
        counted = {
            sample.labels["outcome"]: sample.value
            for family in worker.families()
            for sample in family.samples
            if sample.name == "inorder_checkpoint_unanswered_total"
        }
    verdict = check(setting)
    say(f"{holds}\nlongest silence of the ordered topic: {emitted.longest_silence_s:.2f} s")
    say(f"{verdict}\nends of transactions that were not answered: {counted}")
    return verdict, counted


def test_late_end_ends_no_other_transaction(one_broker: Cluster, tmp_path: Path) -> None:
    holds = Holds(ENDS, 6, seed=SEED, gap_s=0.2, two=False)
    verdict, counted = play(one_broker, tmp_path, holds, AT_MOST[0], print)
    assert not verdict.faults, verdict
    assert counted == {ABORTED: 4, COMMITTED: 2}


BYTES_PER_S = 4e6
EVENTS, SOURCES, EVENT_BYTES = 10_000, 4, 2_000


def test_slow_link_shrinks_transactions(one_broker: Cluster, tmp_path: Path) -> None:
    """A batch of `MAX_BATCH` would take longer than `transaction_timeout`. Brokers would abort it,
    and the partition would be restored and read again, time after time.
    """
    dice = Random(1)
    now_ns = time.time_ns()
    times = "transaction_timeout: 2s\n"
    setting = fused(one_broker.direct, tmp_path, stream=NUMBERED, more=times)
    records = (
        (f"s{number % SOURCES}", dice.randbytes(EVENT_BYTES), number // SOURCES)
        for number in range(EVENTS)
    )
    send(setting, ((s, value, contract(s, seq, now_ns + seq)) for s, value, seq in records))
    one_broker.judge(Judge())
    (way,) = one_broker.ways
    way.bytes_per_s = BYTES_PER_S
    with at_work(replace(setting, bootstrap=one_broker.through)) as worker:
        wait_out(setting, EVENTS)
        counted = {name.partition(":")[0]: count for name, count in worker.metrics().items()}
    way.bytes_per_s = 0.0
    assert_sound(setting)
    read, commits = counted["records_in"], counted["checkpoint_commits"]
    print(f"read {read:.0f}, {commits:.0f} commits")
    assert read < 1.2 * EVENTS
    assert commits >= 5


@pytest.mark.chaos
@pytest.mark.parametrize("version", [jars.VERSION, jars.OLDER])
@pytest.mark.parametrize("nodes", [1, 2], ids=["one", "two"])
@pytest.mark.parametrize("shape", [{}, ONE_TASK], ids=["one partition", "three partitions"])
def test_late_request_tears_no_transaction(
    tmp_path: Path,
    say: Callable[[str], None],
    nodes: int,
    version: str,
    shape: dict[str, Any],
) -> None:
    require(missing())
    holds = Holds(ALL, HOLDS, seed=SEED, gap_s=0.3, two=nodes == 2)
    with cluster(tmp_path / "kafka", nodes=nodes, version=version) as brokers:
        verdict, counted = play(brokers, tmp_path, holds, AT_MOST[1], say, shape=shape)
    assert not verdict.faults, verdict
    assert holds.count == HOLDS
    assert counted[COMMITTED] == holds.codes["EndTxn", ANSWER, "-"]


@pytest.mark.chaos
def test_long_hold_tears_no_transaction(tmp_path: Path, say: Callable[[str], None]) -> None:
    """A connection stays open, its client waits for 30 s, and meanwhile the transaction stays open.

    Two waits in a row make the minute after which a stage without a checkpoint gives up, so
    `transaction_timeout` is longer.
    """
    require(missing())
    holds = Holds([("EndTxn", STAYS)], 2, seed=SEED, gap_s=0.3, two=True)
    longer = "transaction_timeout: 45s\n"
    with cluster(tmp_path / "kafka", nodes=2) as brokers:
        verdict, counted = play(brokers, tmp_path, holds, AT_MOST[1], say, longer)
    assert not verdict.faults, verdict
    assert counted == {ABORTED: 2}
