"""End to end: `make up` processes events while the worker with the task is killed.

The worker that then has the task is restarted. After `make down`, a second `make up` continues on
the same volumes.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from contextlib import suppress
from http.client import HTTPException

import pytest

from benchmarks.workloads import crowd
from infra.containers.command import CommandFailed
from infra.containers.engine import Engine
from tests import ROOT
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import wait_out
from tests.infra.containers.command import run_to_end
from tests.waiting import wait_until
from topology.config import parse

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

FILE = ROOT / "infra/topology.yaml"
BROKERS = "localhost:9092"
EVENTS = 20_000
PAGES = {"worker-1": "http://127.0.0.1:8081", "worker-2": "http://127.0.0.1:8082"}
PROJECT = "inorder"
MAKE_TIMEOUT_S = 3000.0
"""Time limit of `make`, which may build the image again if that of the tests was made of wheels."""


def make(engine: Engine, target: str) -> str:
    return run_to_end(["make", target], engine.env, MAKE_TIMEOUT_S)


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


def has_task(worker: str) -> bool:
    """Return whether a worker has the task; one that does not answer has none."""
    try:
        with urllib.request.urlopen(f"{PAGES[worker]}/explain", timeout=5) as answer:
            return bool(json.load(answer))
    except (OSError, HTTPException):
        return False


def await_task() -> str:
    """Wait until a worker has the task, and return that worker; the other one is its standby."""
    found: list[str] = []

    def is_taken() -> bool:
        found[:] = filter(has_task, PAGES)
        return bool(found)

    wait_until(is_taken, "a worker that has the task")
    return found[0]


def state_of(engine: Engine, service: str) -> dict[str, object]:
    """Return the state of a service's container, and how often the engine has restarted it."""
    name = f"{PROJECT}-{service}-1"
    (found,) = json.loads(engine.docker("inspect", name))
    return {**found["State"], "restarts": found["RestartCount"]}


def is_well(engine: Engine, service: str) -> bool:
    health = state_of(engine, service)["Health"]
    return isinstance(health, dict) and health["Status"] == "healthy"


@pytest.fixture
def setting() -> Setting:
    return Setting(BROKERS, FILE, parse(FILE.read_text()))


def test_up_survives_kill_and_down(engine: Engine, image: str, setting: Setting) -> None:
    rows = crowd(EVENTS, seed=75, delayed=0.01).rows
    half = len(rows) // 2
    try:
        assert "localhost:8081" in make(engine, "up")
        assert [status(f"{page}/ready") for page in PAGES.values()] == [200, 200]
        sender = Sender(setting, rows[:half], speed=0.5, epoch=0).start()
        sender.await_share(0.3)
        first = await_task()
        pid = int(str(state_of(engine, first)["Pid"]))
        assert pid > 0, f"{first} runs"  # A signal to 0 would end these tests.
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: state_of(engine, first)["restarts"] == 1, f"a new {first}")
        sender.await_share(0.6)
        # The task goes to the standby, or back to the killed worker if it has rejoined by then.
        second = await_task()
        print(f"{first} was killed, {second} has the task")
        engine.docker("restart", "--time", "45", f"{PROJECT}-{second}-1")
        sender.finish()
        wait_out(setting, sender.different)
        assert assert_sound(setting).raw == half
        for service in PAGES:
            wait_until(lambda name=service: is_well(engine, name), f"{service} to be well")  # type: ignore[misc]
        make(engine, "down")
        assert engine.docker("ps", "--all", "--quiet") == ""
        make(engine, "up")
        Sender(setting, rows[half:], speed=0.5, epoch=0).start().finish()
        wait_out(setting, len({(row.source, row.seq) for row in rows}))
        verdict = assert_sound(setting)
        assert (verdict.raw, verdict.dead) == (len(rows), 0)
    finally:
        with suppress(CommandFailed):  # A failure is shown with the ends of the logs.
            words = ("--file", str(ROOT / "infra/compose.yaml"), "logs", "--no-color", "--tail=20")
            print(engine.docker("compose", *words))
        make(engine, "down")
