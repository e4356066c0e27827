"""End to end: the processes of stages, seen from outside, without a broker.

The stages are fakes (tests.agents.process.fake_stage); forked ones run in their own program
(tests.agents.process.forking).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agents.process.child_process import NotBegun, can_fork, spawn, watch_children
from cli.local.ports import free_ports
from cli.program import PROGRAM as INORDER
from tests.cli.invoking import inorder
from tests.kit.programs import printed
from tests.waiting import wait_until

PROGRAM = [sys.executable, "-m", "tests.agents.process.forking"]
TIMEOUT_S = 300.0
"""A limit that no passing run reaches."""
ENDS = 60

is_known = Path("/proc/self/task").exists()
forks = pytest.mark.skipif(not is_known, reason="stages are not forked here")


@contextmanager
def running(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    (port,) = free_ports(1)
    child = subprocess.Popen([*PROGRAM, str(port), *options], stderr=subprocess.PIPE)
    try:
        yield child, port
    finally:
        child.kill()
        child.communicate()


def pids(port: int) -> list[int]:
    """Return the process ids of the stages that answer."""
    told: list[dict[str, Any]] = []
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/explain") as answer:
        told = json.load(answer)
    return [part["pid"] for part in told]


def is_fresh(pid: int) -> bool:
    """Return whether the process is a new interpreter, not a fork."""
    return b"fake_stage.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


@forks
def test_forked_stage_restarts_fresh() -> None:
    with running() as (worker, port):
        wait_until(lambda: len(pids(port)) == 2, "both stages")
        first, second = pids(port)
        assert not is_fresh(first)
        assert not is_fresh(second)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: bool({*pids(port)} - {first, second}), "another one")
        (third,) = {*pids(port)} - {first, second}
        assert is_fresh(third)
        worker.terminate()
        _, said = worker.communicate(timeout=TIMEOUT_S)
        assert worker.returncode == 0, said
        assert b"stage reorder: exit -9" in said
        assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second, third))


@forks
def test_early_stop_leaves_no_process() -> None:
    with running("--told-early") as (worker, _):
        _, said = worker.communicate(timeout=TIMEOUT_S)  # This waits for the stages' ends too.
        assert (worker.returncode, said) == (0, b"")


def run_program(option: str) -> subprocess.CompletedProcess[str]:
    """Run the program of forked children with this option, and return its result."""
    return subprocess.run(
        [*PROGRAM, option], capture_output=True, timeout=TIMEOUT_S, check=True, text=True
    )


@forks
def test_child_has_usual_exit_codes() -> None:
    done = run_program("--codes")
    assert done.stdout == f"0 2 1\n{-signal.SIGKILL}\n"
    assert "prints done\n" in done.stderr
    assert "ValueError: failed" in done.stderr


@forks
def test_child_inherits_only_its_pipe() -> None:
    """Every child has the same open descriptors, even if its worker listens on a socket."""
    kinds = run_program("--open").stdout.splitlines()
    assert len(kinds) == 6
    assert len(set(kinds)) == 1, "also beside a socket"
    assert kinds[0].endswith("pipe")
    assert "socket" not in kinds[0]


def test_waiting_stage_ends_with_worker(tmp_path: Path) -> None:
    """A stage keeps the pipe of the log open, so the pipe closes when the last stage ends."""
    topology = tmp_path / "topology.yaml"
    topology.write_text("streams: {default: {input: raw}}\n")
    command = ["worker", "--topology", str(topology), "--brokers", "127.0.0.1:1"]
    worker = subprocess.Popen([*INORDER, *command], stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        assert worker.stderr is not None
        line = worker.stderr.readline()
        while b" all" not in line:
            assert line, "ended before"
            line = worker.stderr.readline()
    finally:
        worker.kill()
    worker.communicate(timeout=TIMEOUT_S)


def test_taken_port_starts_no_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr("cli.run.worker._begin", lambda *_: begun.append("stages"))
    topology = tmp_path / "topology.yaml"
    topology.write_text("streams: {default: {input: raw}}\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        where = ("--topology", topology, "--brokers", "127.0.0.1:1", "--http", place)
        said = inorder("worker", *where, "--verbose")
    assert (said.code, begun) == (2, [])
    assert f"cannot listen on {place}" in said.err
    agents = logging.getLogger("agents")
    assert agents.level == logging.DEBUG, "--verbose is for the worker too"
    agents.setLevel(logging.NOTSET)


def test_threads_prevent_forking() -> None:
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        assert not can_fork()
    finally:
        over.set()
        other.join()


@forks
def test_stage_imports_start_no_thread() -> None:
    program = "import cli.run.worker as worker, cli.run.stage; print(worker.can_fork())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"True\n"


async def test_repeated_signal_keeps_exit_code() -> None:
    """Each process is terminated until its exit code is known; it can end by itself first."""

    async def end_of_one() -> int:
        process = spawn(["sh", "-c", "exit 3"])
        watch_children(lambda: [process])
        with process.pipe:
            while process.returncode is None:
                process.terminate()
                await asyncio.sleep(0)
            return await process.wait()

    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(ENDS):
            assert await end_of_one() in (3, -signal.SIGTERM)


def test_missing_program_is_reported() -> None:
    held = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(NotBegun, match="install it again, restart the worker"):
        spawn(["/there/is/no/such/python"])
    assert len(list(Path("/dev/fd").iterdir())) == held, "the pipe is closed again"


WITHOUT_FILES = """
import resource
from agents.process.child_process import NotBegun, spawn
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    spawn(["true"])
except NotBegun as refused:
    print(refused)
"""
"""A separate program, as other threads of this process need their files."""


def test_file_limit_is_reported() -> None:
    assert "raise the limit of open files" in printed("-c", WITHOUT_FILES)
