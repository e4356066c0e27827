"""End to end: a worker's reports about itself, how it stops, and the faults that it survives.

Tests ask through the supervisor's one port, as an operator or Kubernetes would.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from tests.cli.invoking import inorder
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender, contract, events_of, send
from tests.end_to_end.setting import Settles, settle
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.worker import Spawned, Worker, at_work, running, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MS = 1_000_000
HELD_S = 60
"""Seconds that events stay buffered: enough on a busy machine, since each question takes
milliseconds."""

HELD = (
    f"reorder: {{rule: fixed, max_wait: {HELD_S}s, start: zero}},"
    f" merge: {{max_wait: {HELD_S}s, idle_after: {2 * HELD_S}s}}"
)
SHORTLY = (
    "reorder: {rule: fixed, max_wait: 100ms, start: zero},"
    " merge: {max_wait: 100ms, idle_after: 200ms}"
)

UNREADY_S = 15.0
"""Longest standstill that `/ready` accepts (agents.watch.watchdog)."""


def lines_of(worker: Worker, *options: str) -> str:
    """Return the output of `inorder explain`."""
    return inorder("explain", worker.address, *options).well().out


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def wait_for_words(worker: Worker, *patterns: str) -> None:
    """Wait until the output of `inorder explain` matches all of these patterns."""

    def are_said() -> bool:
        return all(re.search(pattern, lines_of(worker), re.MULTILINE) for pattern in patterns)

    wait_until(are_said, f"the words {patterns}")


def test_stop_keeps_buffered_events(settles: Settles) -> None:
    """`inorder explain` names the gap that buffered events wait for. A graceful stop neither loses
    nor flushes them, and the next worker continues.
    """
    setting = settles.fused(stream=HELD)
    worker = worker_on(setting)
    now_ns = time.time_ns()

    def tell(*events: tuple[str, int, int]) -> None:
        """Send events, each given as (source, number, milliseconds from now)."""
        records = [(name, contract(name, seq, now_ns + ms * MS)) for name, seq, ms in events]
        send(setting, [(name, b"{}", headers) for name, headers in records])

    with running(worker):
        worker.wait_ready()
        tell(("hole", 0, 0), ("quick", 0, 1), ("slow", 0, 2), ("hole", 2, 4))
        wait_for_words(
            worker,
            r"/0: 3 buffered, next offset 4, end 4$",
            r"default/hole epoch 0: 1 buffered after a gap at number 1, for \d+ m?s,"
            r" at most \d+ s more$",
            r"default: 2 wait for the merge, the first from quick ",
            r"held back by hole: its events are buffered after a gap$",
        )
        assert "held back" not in lines_of(worker, "--source", "slow")
        of_event = lines_of(worker, "--source", "hole", "--seq", "2")
        assert "default: hole/0/2: buffered by reorder" in of_event
        assert "after a gap at number 1, awaited for" in of_event
        assert "has not arrived; awaited" in lines_of(worker, "--source", "hole", "--seq", "1")
        quick = lines_of(worker, "--source", "quick", "--seq", "0")
        assert "default: quick/0/0: buffered by merge" in quick
        assert "  waits for hole: its events are buffered after a gap" in quick
        assert "no partition that answered" in lines_of(worker, "--source", "x", "--seq", "1")
        tell(("hole", 1, 3), ("quick", 1, 1000), ("other", 0, 500), ("other", 2, 2000))
        wait_for_words(
            worker,
            r"default/other epoch 0: 1 buffered after a gap at number 1,",
            r"default: 4 wait for the merge, the first from hole ",
            r"held back by slow: it is idle, until \d+ at most$",
        )
        began_s = time.monotonic()
        assert worker.stop() == 0, worker.log
        assert time.monotonic() - began_s < HELD_S
        assert len(events_of(setting)) == 3
        text = setting.path.read_text()
        assert HELD in text
        setting.path.write_text(text.replace(HELD, SHORTLY))  # The test need not wait so long.
        worker.begin()
        tell(("other", 1, 600))
        wait_out(setting, 9)
        assert worker.stop() == 0, worker.log
    verdict = assert_sound(setting)
    assert (verdict.unmarked, verdict.gaps) == (9, 0)
    inorder("explain", "127.0.0.1:1").refused("no worker answers at 127.0.0.1:1")


def test_explain_covers_all_stages(settles: Settles) -> None:
    setting = settles(partitions=1, stream=HELD)
    now_ns = time.time_ns()

    def words_of(seq: int) -> str:
        return lines_of(worker, "--source", "s", "--seq", str(seq))

    with at_work(setting) as worker:
        headers = [contract("s", seq, now_ns + seq) for seq in (0, 2)]
        send(setting, [("s", b"{}", each) for each in headers])
        held = "default: s/0/2: buffered by reorder"
        wait_until(lambda: held in words_of(2), "the word of reorder")
        wait_until(lambda: "s/0/0: emitted by merge" in words_of(0), "the word of merge")
        assert "has not arrived; awaited" in words_of(1)


def is_balanced(worker: Worker, stages: list[str], records: int) -> bool:
    """Return whether in = emitted + late + duplicate + dead + held, for each stage."""
    counted = worker.metrics()
    ways = ("emitted", "late", "duplicate", "dead", "held")
    return (
        all(
            counted.get(f"records_in:{stage}")
            == sum(counted.get(f"records_{way}:{stage}", 0.0) for way in ways)
            for stage in stages
        )
        and counted[f"records_in:{stages[0]}"] == records
        and counted[f"checkpoint_commits:{stages[0]}"] > 0
    )


def test_worker_replaces_a_killed_stage(settles: Settles) -> None:
    setting = settles()
    rows = crowd(6_000, seed=5).rows
    half = len(rows) // 2
    with at_work(setting, kind=Spawned) as worker:
        assert worker.ask("live") == (200, {"ok": True, "reasons": []})
        first = Sender(setting, rows[:half], speed=0.5, epoch=0).start()
        first.finish()
        wait_out(setting, first.different)
        wait_until(lambda: is_balanced(worker, setting.stages, half), "the balance")
        before = worker.stages()
        assert {command_of(pid) for pid in before} == {command_of(worker.process.pid)}  # forked
        killed = worker.kill_stage(0)
        wait_until(lambda: len({*worker.stages()} - {killed}) == len(before), "a new one")
        wait_until(lambda: worker.ask("ready")[0] == 503, "not ready, a stage starts")
        assert worker.ask("live")[0] == 200
        Sender(setting, rows[half:], speed=0.5, epoch=0).start().finish()
        worker.wait_ready()
        wait_out(setting, len({(r.source, r.seq) for r in rows}))
    assert "exit -9" in worker.log
    assert assert_sound(setting).raw == len(rows)


def test_early_stop_exits_with_0(settles: Settles) -> None:
    """A stage that is stopped while it starts owns nothing yet, so this is no failure."""
    setting = settles()
    worker = worker_on(setting, kind=Spawned)
    with running(worker):
        wait_until(lambda: bool(worker.stages()), "a stage that starts")
        assert worker.stop() == 0, worker.log


def test_unreachable_brokers_are_awaited(
    own_kafka: KafkaBroker | ContainerBroker, tmp_path: Path
) -> None:
    """A worker waits for brokers that come later. When they fall silent it is not ready, gives the
    reason, and recovers.
    """
    setting = settle(own_kafka.bootstrap, tmp_path, partitions=1)
    own_kafka.stop()
    worker = worker_on(setting)
    with running(worker):
        for stage in setting.stages:
            worker.await_said(f" {re.escape(stage)} WARNING waiting")
        assert worker.ask("live")[0] == 200
        assert worker.ask("ready")[0] == 503
        own_kafka.start()
        worker.wait_ready()
        assert "exit" not in worker.log
        own_kafka.pause()
        try:
            wait_until(worker.is_cut_off, "not ready, and why", quiet_s=2 * UNREADY_S)
            assert worker.ask("live")[0] == 200
        finally:
            own_kafka.resume()
        worker.wait_ready()
        send(setting, [("s", b"{}", contract("s", seq)) for seq in range(3)])
        wait_out(setting, 3)
        assert worker.stop() == 0, worker.log


def test_worker_brings_embedded_broker(tmp_path: Path) -> None:
    """Without Java or a container, the worker brings its own Kafka, which lives as long as the
    worker.
    """
    setting = settle("embedded", tmp_path, make=False)
    with at_work(setting) as worker:
        found = re.search(r"embedded broker at (\S+)", worker.log)
        assert found, worker.log
        inside = replace(setting, bootstrap=found[1])
        sender = Sender(inside, crowd(2_000, seed=6).rows, speed=0.5).start()
        sender.finish()
        wait_out(inside, sender.different)
        # Arrival times are missing here, so the test checks only that each event came once.
        ordered = [event.name for event in events_of(inside)]
    assert len(ordered) == len({*ordered})


@pytest.mark.chaos
def test_stop_during_start_exits_with_0(settles: Settles) -> None:
    """Workers are stopped at a dozen moments of the start, while another worker runs."""
    setting = settles(state="memory")
    sender = Sender(setting, crowd(20_000).rows, speed=0.02).start()
    with at_work(setting, name="other"):
        for number in range(12):
            worker = worker_on(setting, name=f"w{number}")
            with running(worker):
                time.sleep(1.0 + 0.5 * number)
                assert worker.stop() == 0, worker.log[-3000:]
    sender.stop()
