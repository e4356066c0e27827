"""Examples: a child process is started, paused, stopped and killed by its own id."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from cli.local.lock import lock_file
from cli.local.ports import FIRST, LAST, free_ports
from cli.local.process import NotReady, Process
from tests.kit.processes import sweep

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


def started(folder: Path, command: list[str] = SLEEPER) -> Process:
    process = Process("sleeper", command, folder)
    process.start()
    return process


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_process_runs_until_stopped(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.wait_until(lambda: process.tail() == "up", timeout_s=10)
    assert process.is_alive()
    with pytest.raises(RuntimeError, match=f"runs already, as process {process.pid}"):
        process.start()
    with pytest.raises(NotReady, match="did not answer within 0.1 s"):
        process.wait_until(lambda: False, timeout_s=0.1)
    assert process.stop() == -signal.SIGTERM
    assert not process.is_alive()
    assert list(tmp_path.glob("*.pid")) == []


def test_paused_process_can_be_stopped(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.pause()
    assert state_of(process.pid) == "T"
    assert process.stop(timeout_s=10) == -signal.SIGTERM


def test_process_ignoring_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)"
    process = started(tmp_path, [sys.executable, "-c", f"{deaf}; time.sleep(60)"])
    process.wait_until(lambda: process.tail() == "up", timeout_s=10)
    assert process.stop(timeout_s=0.2) == -signal.SIGKILL


def test_early_exit_shows_the_log(tmp_path: Path) -> None:
    process = started(tmp_path, [sys.executable, "-c", "print('no such disk'); exit(3)"])
    with pytest.raises(NotReady, match="ended early.*\n.*no such disk"):
        process.wait_until(lambda: False, timeout_s=10)
    assert process.stop() == 3


def test_sweep_kills_only_leftovers(tmp_path: Path) -> None:
    left, elsewhere = tmp_path / "left", tmp_path / "elsewhere"
    left.mkdir()
    elsewhere.mkdir()
    forgotten, stranger = started(left), started(elsewhere)
    # A stale id file now names a process that works in another folder.
    (left / "stale.pid").write_text(f"{stranger.pid}\n")
    (elsewhere / "sleeper.pid").unlink()
    foreign = left / "postmaster.pid"
    foreign.write_text(f"{stranger.pid}\n/var/lib/postgresql\n")
    assert sweep(tmp_path) == [forgotten.pid]
    assert foreign.exists()
    assert forgotten.stop() == -signal.SIGKILL
    assert stranger.is_alive()
    stranger.kill()


def test_lock_times_out_when_held(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with (
        lock_file(path, timeout_s=1),
        pytest.raises(TimeoutError, match="locked by another process"),
        lock_file(path, timeout_s=0.2),
    ):
        pass
    with lock_file(path, timeout_s=0.2):
        pass


def test_free_ports_are_not_ephemeral() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(FIRST <= port <= LAST for port in ports)
    assert ephemeral > LAST
