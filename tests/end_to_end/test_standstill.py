"""End to end: nothing gets committed any more, and the worker says so, and why.

Short: `events.ordered` is deleted under a running worker, by somebody else, and comes back. Marked
`chaos`: also a changelog, and an output that takes nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.kafka.declared import declared
from agents.kafka.topics import create
from cli.local.kafka import KafkaBroker
from cli.local.poll import wait_until
from tests.end_to_end.records import contract, send
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
SEND_EVERY_S = 0.1
SOME = 10
SMALL = 150
"""Bytes: room for the mark of a transaction, and not for an event with its headers."""

STANDS = "no checkpoint has been committed for"


class Sending:
    """Ten events a second of one source, until closed."""

    def __init__(self, setting: Setting) -> None:
        self.sent = 0
        self._setting = setting
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.wait(SEND_EVERY_S):
            send(self._setting, [("s", b"{}", contract("s", self.sent))])
            self.sent += 1

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join(TIMEOUT_S)


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
    sending = Sending(setting)
    with at_work(setting) as worker:
        with sending.going_on():
            wait_out(setting, SOME)
            wait_until_told(
                worker, rf"starts; reads {setting.raw} \(1\)", f"owns {setting.raw}/0", "INFO ready"
            )
            before = sending.sent
            delete_topics(setting.bootstrap, setting.ordered)
            wait_until_it_stands(worker, f"the topic {setting.ordered} was deleted")
            wait_until(lambda: STANDS in str(worker.ask("ready")[1]), UNREADY_S, STANDS)
            create(declared(setting.topology), setting.bootstrap, 1)
            worker.wait_ready()
        wait_out(setting, sending.sent - before - SOME)


@pytest.mark.chaos
def test_a_deleted_changelog_ends_the_worker_with_the_remedy(settles: Settles) -> None:
    setting = settles.fused()
    with at_work(setting) as worker, Sending(setting).going_on():
        wait_out(setting, SOME)
        (changelog,) = changelogs(setting)
        delete_topics(setting.bootstrap, changelog)
        wait_until_it_stands(worker, f"the topic {changelog} was deleted")
        wait_until(lambda: not worker.alive, 2 * STUCK_S, "the end of the worker")
        assert worker.exit_code() == REFUSED
        assert "Stuck: " in worker.log
        assert f"no such topic: {changelog}" in worker.log


@pytest.mark.chaos
def test_checkpoints_that_fail(settles: Settles) -> None:
    """All topics are there, and the ordered one takes nothing: ready again once it does."""
    setting = settles.fused()
    sending = Sending(setting)
    with at_work(setting) as worker:
        with sending.going_on():
            wait_out(setting, SOME)
            largest(setting, SMALL)
            wait_until_it_stands(worker, "CommitFailed|restoring and reading again:.*Size")
            largest(setting, 1 << 20)
            worker.wait_ready()
        wait_out(setting, sending.sent)


def largest(setting: Setting, size: int) -> None:
    """So many bytes a batch of the ordered topic may have."""
    configure(setting.bootstrap, setting.ordered, "max.message.bytes", str(size))


@pytest.mark.chaos
def test_two_of_three_brokers_dead(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", nodes=3, heap_mib=256) as brokers:
        setting = settle(brokers.bootstrap, tmp_path, stages=FUSED, partitions=2, make=False)
        create(declared(setting.topology), setting.bootstrap, 3)
        sending = Sending(setting)
        with at_work(setting) as worker:
            with sending.going_on():
                wait_out(setting, SOME)
            began_s = time.monotonic()
            brokers.kill(1)
            brokers.kill(2)
            wait_until(lambda: worker.ask("ready")[0] == 503, TOLD_S, "not ready")
            print(f"not ready after {time.monotonic() - began_s:.1f} s")
            print(worker.ask("ready"))
            for node in (1, 2):
                brokers.nodes[node].start()
            worker.wait_ready()
