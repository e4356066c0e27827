"""End to end: `make up` as written, with events, while a worker is killed and another restarted.

Then `make down`, and `make up` again on the volumes.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request

import pytest

from benchmarks.workloads import crowd
from infra.containers.engine import Engine
from tests import ROOT
from tests.containers.command import run_to_end
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Sender
from tests.end_to_end.setting import Setting
from tests.end_to_end.waiting import wait_out
from tests.waiting import wait_until
from topology.config import parse

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

FILE = ROOT / "infra/topology.yaml"
BROKERS = "localhost:9092"
EVENTS = 20_000
PAGES = ("http://127.0.0.1:8081", "http://127.0.0.1:8082")
PROJECT = "inorder"
MAKE_TIMEOUT_S = 1200.0


def make(engine: Engine, target: str) -> str:
    return run_to_end(["make", target], engine.env, MAKE_TIMEOUT_S)


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


def state_of(engine: Engine, service: str) -> dict[str, object]:
    """The state of a service's container, and how often the engine has restarted it."""
    name = f"{PROJECT}-{service}-1"
    (found,) = json.loads(engine.docker("inspect", name))
    return {**found["State"], "restarts": found["RestartCount"]}


def is_well(engine: Engine, service: str) -> bool:
    health = state_of(engine, service)["Health"]
    return isinstance(health, dict) and health["Status"] == "healthy"


@pytest.fixture
def setting() -> Setting:
    return Setting(BROKERS, FILE, parse(FILE.read_text()))


def test_up_kill_down_and_up(engine: Engine, image: str, setting: Setting) -> None:
    rows = crowd(EVENTS, seed=75, delayed=0.01).rows
    half = len(rows) // 2
    assert "localhost:8081" in make(engine, "up")
    try:
        assert [status(f"{page}/ready") for page in PAGES] == [200, 200]
        sender = Sender(setting, rows[:half], speed=0.5, epoch=0).start()
        sender.await_share(0.3)
        pid = int(str(state_of(engine, "worker-1")["Pid"]))
        assert pid > 0, "worker-1 runs"  # A signal to 0 would end these tests.
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: state_of(engine, "worker-1")["restarts"] == 1, "a new worker-1")
        sender.await_share(0.6)
        engine.docker("restart", "--time", "45", f"{PROJECT}-worker-2-1")
        sender.finish()
        wait_out(setting, sender.different)
        assert assert_sound(setting).raw == half
        for service in ("worker-1", "worker-2"):
            wait_until(lambda name=service: is_well(engine, name), f"{service} to be well")  # type: ignore[misc]
        make(engine, "down")
        assert engine.docker("ps", "--all", "--quiet") == ""
        make(engine, "up")
        Sender(setting, rows[half:], speed=0.5, epoch=0).start().finish()
        wait_out(setting, len({(row.source, row.seq) for row in rows}))
        verdict = assert_sound(setting)
        assert (verdict.raw, verdict.dead) == (len(rows), 0)
    finally:
        make(engine, "down")
