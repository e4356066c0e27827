"""End to end: nothing gets committed any more, and the worker says so, and why.

Short: `events.ordered` is deleted under a running worker, by somebody else, and comes back. Marked
`chaos`: also a changelog, and an output that takes nothing.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from agents.kafka.declared import declared
from agents.kafka.topics import create
from benchmarks.workloads.rows import Row
from cli.local.kafka import KafkaBroker
from cli.local.poll import wait_until
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, Setting, Settles, settle
from tests.end_to_end.topics import changelogs, configure, delete_topics
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import REFUSED, Worker, at_work
from tests.waiting import calm_s

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 30.0
UNREADY_S = 15.0
TOLD_S = 10.0
STUCK_S = 60.0
EVERY_NS = 100_000_000
MOST = 3_000
"""Events: what is sent in five minutes."""

SOME = 10
SMALL = 150
"""Bytes: room for the mark of a transaction, and not for an event with its headers."""

STANDS = "no checkpoint has been committed for"


def sending(setting: Setting) -> Sender:
    """Ten events a second of one source, until it is stopped."""
    rows = [Row(n * EVERY_NS, "s", n, n * EVERY_NS) for n in range(MOST)]
    return Sender(setting, rows, speed=1.0).start()


def wait_until_told(worker: Worker, *told: str, timeout_s: float = TIMEOUT_S) -> None:
    wait_until(lambda: all(re.search(text, worker.log) for text in told), timeout_s, f"{told}")


def wait_until_it_stands(worker: Worker, *told: str) -> None:
    """Not ready, and in the log what is wrong, each in its time."""
    began_s = time.monotonic()
    wait_until(lambda: worker.ask("ready")[0] == 503, UNREADY_S, "not ready")
    unready_s = time.monotonic() - began_s
    wait_until_told(worker, *told, timeout_s=TOLD_S - calm_s(began_s))
    print(f"not ready after {unready_s:.1f} s, told after {time.monotonic() - began_s:.1f} s")


def test_a_deleted_output_is_told_and_may_come_back(settles: Settles) -> None:
    """Ready again by itself, and what the worker had not committed comes out."""
    setting = settles.fused()
    with at_work(setting) as worker:
        sender = sending(setting)
        wait_out(setting, SOME)
        wait_until_told(
            worker, rf"starts; reads {setting.raw} \(1\)", f"owns {setting.raw}/0", "INFO ready"
        )
        before = sender.sent
        delete_topics(setting.bootstrap, setting.ordered)
        wait_until_it_stands(worker, f"the topic {setting.ordered} was deleted")
        wait_until(lambda: STANDS in str(worker.ask("ready")[1]), UNREADY_S, STANDS)
        create(declared(setting.topology), setting.bootstrap, 1)
        worker.wait_ready()
        sender.stop()
        wait_out(setting, sender.sent - before - SOME)


@pytest.mark.chaos
def test_a_deleted_changelog_ends_the_worker_with_the_remedy(settles: Settles) -> None:
    setting = settles.fused()
    with at_work(setting) as worker:
        sender = sending(setting)
        wait_out(setting, SOME)
        (changelog,) = changelogs(setting)
        delete_topics(setting.bootstrap, changelog)
        wait_until_it_stands(worker, f"the topic {changelog} was deleted")
        wait_until(lambda: not worker.alive, 2 * STUCK_S, "the end of the worker")
        sender.stop()
        assert worker.exit_code() == REFUSED
        assert "Stuck: " in worker.log
        assert f"no such topic: {changelog}" in worker.log


@pytest.mark.chaos
def test_checkpoints_that_fail(settles: Settles) -> None:
    """All topics are there, and the ordered one takes nothing: ready again once it does."""
    setting = settles.fused()
    with at_work(setting) as worker:
        sender = sending(setting)
        wait_out(setting, SOME)
        largest(setting, SMALL)
        wait_until_it_stands(worker, "CommitFailed|restoring and reading again:.*Size")
        largest(setting, 1 << 20)
        worker.wait_ready()
        sender.stop()
        wait_out(setting, sender.sent)


def largest(setting: Setting, size: int) -> None:
    """So many bytes a batch of the ordered topic may have."""
    configure(setting.bootstrap, setting.ordered, "max.message.bytes", str(size))


@pytest.mark.chaos
def test_two_of_three_brokers_dead(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", nodes=3, heap_mib=256) as brokers:
        setting = settle(brokers.bootstrap, tmp_path, stages=FUSED, make=False)
        create(declared(setting.topology), setting.bootstrap, 3)
        with at_work(setting) as worker:
            sender = sending(setting)
            wait_out(setting, SOME)
            sender.stop()
            began_s = time.monotonic()
            brokers.kill(1)
            brokers.kill(2)
            wait_until(lambda: worker.ask("ready")[0] == 503, TOLD_S, "not ready")
            print(f"not ready after {time.monotonic() - began_s:.1f} s")
            print(worker.ask("ready"))
            for node in (1, 2):
                brokers.nodes[node].start()
            worker.wait_ready()
