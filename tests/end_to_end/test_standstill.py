"""End to end: commits stop, and the worker reports this with the cause.

In the short test somebody else deletes `events.ordered` under a running worker, and recreates it.
Tests marked `chaos` also have a deleted changelog, an output that accepts nothing, and dead
brokers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from benchmarks.workloads.rows import Row
from cli.local.kafka import KafkaBroker
from cli.local.poll import wait_until as within
from tests.end_to_end.records import Sender, events_of
from tests.end_to_end.setting import FUSED, Setting, Settles, settle
from tests.end_to_end.topics import changelogs, delete_topics, largest
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import REFUSED, Worker, at_work
from tests.waiting import calm_s, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

UNREADY_S = 15.0
TOLD_S = 10.0
STUCK_S = 60.0
ROWS = [Row(n * 10**8, "s", n, n * 10**8) for n in range(10_000)]
"""Ten events a second, for longer than a test takes."""

SOME = 10
SMALL = 150
"""Bytes with room for the marker of a transaction, but not for an event with its headers."""

STANDS = "no checkpoint has been committed for"


@contextmanager
def sending(setting: Setting) -> Iterator[Sender]:
    sender = Sender(setting, ROWS, speed=1.0).start()
    try:
        yield sender
    finally:
        sender.stop()


def wait_until_it_stands(worker: Worker, told: str) -> None:
    """Wait until the worker is not ready and its log names the fault, each within a time limit."""
    began_s = time.monotonic()
    within(lambda: worker.ask("ready")[0] == 503, UNREADY_S, "not ready")
    unready_s = time.monotonic() - began_s
    within(lambda: re.search(told, worker.log) is not None, TOLD_S - calm_s(began_s), told)
    print(f"not ready after {unready_s:.1f} s, told after {time.monotonic() - began_s:.1f} s")


def test_worker_survives_recreated_output(settles: Settles) -> None:
    """A worker is ready again by itself, and emits what it had not committed."""
    setting = settles.fused()
    with at_work(setting) as worker:
        with sending(setting) as sender:
            wait_out(setting, SOME)
            for told in (f"starts; reads {setting.raw} (1)", f"owns {setting.raw}/0", "INFO ready"):
                worker.await_said(re.escape(told))
            delete_topics(setting.bootstrap, setting.ordered)
            before = sender.sent
            wait_until_it_stands(worker, f"the topic {setting.ordered} was deleted")
            within(lambda: STANDS in str(worker.ask("ready")[1]), UNREADY_S, STANDS)
            ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 1)
            worker.wait_ready()
        since = {*range(before, sender.sent)}
        assert since
        wait_until(lambda: since <= {each.name[2] for each in events_of(setting)}, "all since then")


@pytest.mark.chaos
def test_deleted_changelog_ends_worker(settles: Settles) -> None:
    setting = settles.fused()
    with at_work(setting) as worker, sending(setting):
        wait_out(setting, SOME)
        (changelog,) = changelogs(setting)
        delete_topics(setting.bootstrap, changelog)
        wait_until_it_stands(worker, f"the topic {changelog} was deleted")
        wait_until(lambda: not worker.alive, "the end of the worker", quiet_s=2 * STUCK_S)
        assert worker.exit_code() == REFUSED
        assert "Stuck: " in worker.log
        assert f"no such topic: {changelog}" in worker.log


@pytest.mark.chaos
def test_failed_commits_are_reported(settles: Settles) -> None:
    """All topics exist, but the ordered one accepts nothing. Once it does, the worker is ready
    again.
    """
    setting = settles.fused()
    with at_work(setting) as worker:
        with sending(setting) as sender:
            wait_out(setting, SOME)
            largest(setting, SMALL)
            wait_until_it_stands(worker, "CommitFailed|restoring and reading again:.*Size")
            largest(setting, 1 << 20)
            worker.wait_ready()
        wait_out(setting, sender.sent)


@pytest.mark.chaos
def test_one_dead_broker_is_named(tmp_path: Path) -> None:
    """Work continues, and the worker stays ready and names the broker until it is back."""
    with KafkaBroker(tmp_path / "kafka", nodes=3, heap_mib=256) as brokers:
        setting = settle(brokers.bootstrap, tmp_path, stages=FUSED, make=False)
        ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 3)
        with at_work(setting) as worker, sending(setting) as sender:
            wait_out(setting, SOME)
            brokers.kill(0)
            away = f"broker 1 ({brokers.bootstrap.split(',')[0]}) is away"
            wait_until(lambda: worker.ask("ready")[0] == 200 and away in note(worker), "the note")
            wait_out(setting, sender.sent + SOME)
            assert worker.ask("ready")[0] == 200
            brokers.nodes[0].start()
            wait_until(lambda: worker.ask("ready")[0] == 200 and not note(worker), "its end")
        assert "no broker answers" not in worker.log


def note(worker: Worker) -> str:
    return str(worker.ask("ready")[1].get("notes", ""))


@pytest.mark.chaos
def test_two_dead_brokers_stop_work(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", nodes=3, heap_mib=256) as brokers:
        setting = settle(brokers.bootstrap, tmp_path, stages=FUSED, make=False)
        ensure_topics(list_needed_topics(setting.topology), setting.bootstrap, 3)
        with at_work(setting) as worker:
            with sending(setting):
                wait_out(setting, SOME)
            began_s = time.monotonic()
            brokers.kill(1)
            brokers.kill(2)
            within(lambda: worker.ask("ready")[0] == 503, TOLD_S, "not ready")
            wait_until(worker.is_cut_off, "why")
            print(f"not ready after {time.monotonic() - began_s:.1f} s")
            for node in (1, 2):
                brokers.nodes[node].start()
            worker.wait_ready()
