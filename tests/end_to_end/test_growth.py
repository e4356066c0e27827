"""End to end, marked `chaos`: partitions are added to an input under a running worker."""

from __future__ import annotations

import time

import pytest

from benchmarks.workloads import crowd
from cli.local.poll import wait_until as within
from tests.cli.invoking import inorder
from tests.end_to_end.oracle import check
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import FUSED, ONE_TASK, SPLIT, Setting, Settles
from tests.end_to_end.topics import grow
from tests.end_to_end.waiting import Emitted
from tests.end_to_end.worker import Worker, at_work

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

TOLD_S = 10.0
BEFORE, AFTER = 2, 4


def epochs(setting: Setting) -> tuple[Sender, Sender]:
    """Return one sender for the time before the partitions are added, and one for after."""
    first, second = (
        Sender(setting, crowd(3_000, seed=5 + epoch).rows, speed=0.5, epoch=epoch)
        for epoch in range(2)
    )
    return first, second


def told_of_growth(setting: Setting, worker: Worker, before: int) -> str:
    """Add partitions to the input, and return the words in which `/ready` reports them."""
    grow(setting.bootstrap, setting.raw, AFTER)
    grown_s = time.monotonic()
    told = f"{setting.raw} has {AFTER} partitions, {before} when this stage started"
    within(lambda: told in str(worker.ask("ready")), TOLD_S, told)
    print(f"not ready after {time.monotonic() - grown_s:.1f} s")
    return told


@pytest.mark.parametrize("stages", [SPLIT, FUSED])
def test_new_partitions_need_a_restart(settles: Settles, stages: str) -> None:
    """Growth is reported at once. A restart asks for room for the new state, and then reads all
    partitions.

    Events stay in order although sources move: the input was read to its end before, and the next
    events are of a new epoch. In a fused stage two partitions with mixed watermarks work on one
    stream. There the test checks only that each event is emitted once.
    """
    setting = settles(stages=stages, partitions=BEFORE)
    before, after = epochs(setting)
    with at_work(setting) as worker:
        emitted = Emitted(setting)
        before.start().finish()
        emitted.wait_for(before.different)
        told = told_of_growth(setting, worker, BEFORE)
        assert told in worker.log
        assert worker.ask("live")[0] == 200
        assert worker.stop() == 0, worker.log

        worker.start()
        worker.ends_refused("run `inorder topics create --grow`")
        where = ("--topology", str(setting.path), "--brokers", setting.bootstrap)
        grown = f"changelog to {AFTER} partitions"
        inorder("topics", "create", "--grow", *where).well(grown)

        worker.begin()
        after.start().finish()
        emitted.wait_for(before.different + after.different)
        emitted.close()
        read = {part["partition"] for part in worker.partitions() if part["next_offset"]}
        print(f"read partitions {sorted(read)}")
    verdict = check(setting)
    print(verdict)
    faults = [fault for fault in verdict.faults if stages == SPLIT or "watermark" not in fault]
    assert not faults, verdict
    assert verdict.raw == before.sent + after.sent


@pytest.mark.parametrize("before", [1, BEFORE])
def test_task_reads_added_partitions(settles: Settles, before: int) -> None:
    """A task's state has room for added partitions, so each event is emitted once, in order."""
    setting = settles(**{**ONE_TASK, "partitions": before})
    first, second = epochs(setting)
    with at_work(setting) as worker:
        emitted = Emitted(setting)
        first.start().finish()
        emitted.wait_for(first.different)
        told_of_growth(setting, worker, before)
        assert worker.stop() == 0, worker.log
        worker.begin()
        second.start().finish()
        emitted.wait_for(first.different + second.different)
        emitted.close()
        (task,) = worker.partitions()
        assert {lane["partition"] for lane in task["lanes"] if lane["next_offset"]} == {
            *range(AFTER)
        }
    verdict = check(setting)
    assert not verdict.faults, verdict
    assert verdict.raw == first.sent + second.sent
