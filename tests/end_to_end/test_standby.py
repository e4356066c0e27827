"""End to end: one task and two workers, of which the owner is killed or stops.

The standby, which reports that it is one, takes over the task, and restores what the owner wrote
last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.end_to_end.flow import flowing
from tests.end_to_end.setting import ONE_TASK, Setting, Settles
from tests.end_to_end.worker import Worker, worker_on
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BEFORE = 3_000
RESTORED = re.compile(r"restores (\d+) entries, of which the changelog gave (\d+)")


def notes(worker: Worker) -> list[str]:
    """Return the notes in `/ready` of a worker that is ready."""
    status, told = worker.ask("ready")
    return told.get("notes", []) if status == 200 else []


def follows(worker: Worker) -> bool:
    """Return whether the worker reports that it has read almost all of the changelog."""
    found = re.findall(r"standby: \S+ is followed, ([\d,]+) records behind", str(notes(worker)))
    return any(int(count.replace(",", "")) < 100 for count in found)


def asked_for_its_place(worker: Worker) -> list[str]:
    """Return the worker's answer to a question about an event."""
    status, told = worker.ask("event?source=s00&seq=1")
    assert status == 200
    said: list[str] = told["said"]
    return said


@pytest.mark.parametrize("goes", [Worker.kill_all, Worker.stop], ids=["killed", "stopped"])
@pytest.mark.parametrize("state", ["rocksdb", "memory"])
def test_standby_takes_over_with_its_state(
    settles: Settles, goes: Callable[[Worker], Any], state: str
) -> None:
    setting: Setting = settles(**ONE_TASK, state=state)
    workers = [worker_on(setting, name=name) for name in "ab"]
    with flowing(setting, workers, 2, BEFORE) as flow:
        wait_until(lambda: any(worker.partitions() for worker in workers), "an owner")
        owner, standby = sorted(workers, key=lambda each: not each.partitions())
        flow.until(lambda: follows(standby), "a standby that follows")
        assert any("standby: another worker has the task" in note for note in notes(standby))
        assert notes(owner) == []
        assert "this worker is a standby" in str(asked_for_its_place(standby))
        assert standby.partitions() == []
        flow.for_seconds(3.0)
        before = len(RESTORED.findall(standby.log))
        goes(owner)
        flow.until(lambda: bool(standby.partitions()), "the task at the standby")
        flow.for_seconds(1.0)
        ((entries, read),) = RESTORED.findall(standby.log)[before:]
        print(f"{flow.silence_s:.1f} s of silence, {read} of {entries} entries read")
        assert int(read) < int(entries), standby.log[-3000:]
        assert not any("standby" in note for note in notes(standby))
