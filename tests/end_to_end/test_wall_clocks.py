"""End to end: the wall clock of a worker's machine is wrong for a while, or always.

The clock is replaced in the worker's processes only (tests/kit/wall_clock). Waits end as with a
right clock, nothing is late, and a replay of the log gives the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.numbered import NUMBERED, send_all
from tests.end_to_end.records import events_of
from tests.end_to_end.replaying import dump, replay, said
from tests.end_to_end.setting import Setting, Settles
from tests.end_to_end.waiting import wait_out
from tests.end_to_end.wall_clock import WallClock
from tests.end_to_end.worker import Spawned, Worker, at_work

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SOURCES = 6
HOUR_S = 3_600


def await_note(worker: Worker, words: str) -> None:
    worker.await_true(lambda: words in str(worker.ask("ready")), words)


def await_no_note(worker: Worker) -> None:
    worker.await_true(lambda: "this machine's clock" not in str(worker.ask("ready")), "no note")


def assert_as_replayed(setting: Setting, tmp_path: Path) -> None:
    """Assert that each event is in order, with the time and the error that a replay of the log
    gives it.
    """
    path = tmp_path / "dumped.jsonl"
    dump(setting, path)
    expected = [event for event, _ in replay(setting, path).events]
    found = [event for event, _ in said(events_of(setting))]
    assert not any(event.is_late for event in found)
    assert found == expected


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, 5])
def test_clock_step_changes_nothing(settles: Settles, tmp_path: Path, step_s: int) -> None:
    setting, wall = settles.fused(stream=NUMBERED), WallClock(tmp_path)
    with at_work(setting, kind=Spawned, env=wall.env) as worker:
        send_all(setting, SOURCES, 0, 1)
        wait_out(setting, 2 * SOURCES)
        wall.set_off(step_s)
        side = "ahead of" if step_s > 0 else "behind"
        await_note(worker, f"this machine's clock is {abs(step_s)} s {side} the brokers' clocks")
        assert worker.ask("ready")[0] == 200
        # After a gap, events wait for time alone.
        send_all(setting, SOURCES, 3, 4)
        wait_out(setting, 4 * SOURCES)
        wall.set_off(0)
        await_no_note(worker)
        send_all(setting, SOURCES, 6, 7)
        wait_out(setting, 6 * SOURCES)
    assert_as_replayed(setting, tmp_path)


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S])
def test_wrong_clock_stops_nothing(settles: Settles, tmp_path: Path, off_s: int) -> None:
    """One worker has a wrong clock from its start, and the next one a right clock."""
    setting, wall = settles.fused(stream=NUMBERED), WallClock(tmp_path)
    wall.set_off(off_s)
    with at_work(setting, kind=Spawned, env=wall.env):
        send_all(setting, SOURCES, 0, 2)
        wait_out(setting, 2 * SOURCES)
    wall.set_off(0)
    with at_work(setting, name="b", kind=Spawned, env=wall.env) as worker:
        send_all(setting, SOURCES, 4)
        wait_out(setting, 3 * SOURCES)
        assert not worker.ask("ready")[1].get("notes")
    assert_as_replayed(setting, tmp_path)
