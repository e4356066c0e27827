"""End to end, marked `chaos`: workers that have a name of their own in the consumer group.

Two workers share two partitions, and all events lie in one of these: whoever has it is killed,
stopped, or meets a namesake. INORDER_CHAOS_SESSION_S is the group's session (15).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.workloads import crowd
from benchmarks.workloads.crowd import RATE_HZ
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, Setting, settle
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

RATE = 1_000.0
EVENTS = 25_000
QUIET_S = 4.0
SESSION_S = float(os.environ.get("INORDER_CHAOS_SESSION_S", "15"))
"""Enough for a start, which takes two seconds on a quiet machine and ten on a busy one."""

REFUSED = 2

Watch = Callable[[float], None]
"""Look at the output for so many seconds."""

Act = Callable[[Worker, Worker, Watch], None]
"""What happens to the worker that has the events, and to the other one."""


def played(setting: Setting, workers: Sequence[Worker], act: Act) -> float:
    """The longest silence of the output, in seconds, over what happened after `QUIET_S`."""
    rows = crowd(EVENTS, seed=3).rows
    first, second = workers
    with running(first, second):
        for worker in workers:
            worker.wait_ready()
        sender = Sender(setting, rows, speed=RATE / RATE_HZ).start()
        emitted = Emitted(setting)
        emitted.wait_for(int(QUIET_S * RATE))
        owner, other = (first, second) if has_events(first) else (second, first)

        def watch(seconds: float) -> None:
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                emitted.poll()

        act(owner, other, watch)
        emitted.wait_for(len({(row.source, row.seq) for row in rows}))
        sender.finish()
        emitted.close()
        for worker in workers:
            if worker.alive:
                assert worker.stop() == 0, worker.log
    assert_sound(setting)
    return emitted.longest_silence_s


def has_events(worker: Worker) -> bool:
    return any(part["next_offset"] for part in worker.ask("explain")[1] or [])


def rebalances(worker: Worker) -> float:
    return worker.metrics()["rebalances:reorder+merge"]


def pair(setting: Setting, folder: Path, *names: str) -> list[Worker]:
    """Workers of these names, or without one where it is empty."""
    return [
        Worker(
            f"w{number}",
            setting.path,
            setting.bootstrap,
            folder,
            *("--session", f"{SESSION_S:.0f}s"),
            *(("--instance", name) if name else ()),
        )
        for number, name in enumerate(names)
    ]


def test_one_that_is_killed_and_back_takes_its_partitions_back(
    kafka: SharedKafka, tmp_path: Path
) -> None:
    silences = {}
    for names in (("", ""), ("one", "two")):
        setting = settle(kafka.bootstrap, tmp_path, stages=FUSED)
        told: list[float] = []

        def act(owner: Worker, other: Worker, watch: Watch, told: list[float] = told) -> None:
            told.append(rebalances(other))
            owner.kill_all()
            owner.start()
            watch(SESSION_S + 5.0)
            told.append(rebalances(other))

        silences[names] = played(setting, pair(setting, tmp_path, *names), act)
        print(f"{names}: {silences[names]:.1f} s of silence, rebalances of the other one {told}")
        assert (told[0] == told[1]) == bool(names[0])
    # A session counts from the last heartbeat, which may be a third of it old at the kill.
    assert silences["", ""] > SESSION_S * 2 / 3
    assert silences["one", "two"] < min(SESSION_S, silences["", ""])


def test_one_that_is_stopped_without_a_name_leaves_at_once(
    kafka: SharedKafka, tmp_path: Path
) -> None:
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED)

    def act(owner: Worker, other: Worker, watch: Watch) -> None:
        owner.terminate()
        watch(SESSION_S)
        assert has_events(other)
        assert owner.exit_code() == 0

    silence_s = played(setting, pair(setting, tmp_path, "", ""), act)
    print(f"{silence_s:.1f} s of silence")
    assert silence_s < SESSION_S


def test_two_that_live_under_one_name(kafka: SharedKafka, tmp_path: Path) -> None:
    """The later one stays, the former says why it leaves; each event comes out once."""
    setting = settle(kafka.bootstrap, tmp_path, stages=FUSED)
    first, second, third = pair(setting, tmp_path, "one", "two", "one")

    def act(_: Worker, __: Worker, watch: Watch) -> None:
        third.start()
        watch(SESSION_S)
        assert first.exit_code() == REFUSED
        assert "two workers have the same name" in first.log
        assert "Traceback" not in first.log
        third.wait_ready()

    with running(may_start=[third]):
        silence_s = played(setting, [first, second], act)
        print(f"{silence_s:.1f} s of silence")
        assert third.stop() == 0, third.log
