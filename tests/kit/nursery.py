"""Run commands of `inorder` by forking a process that has imported them.

Most of a start's cost is its imports: a second of CPU, hundreds of times in a test run. So there is
one importing process for each pytest process, and it forks each command. A command has its own
session, environment, folder and log, has no threads, and exits as Python does. Settings that Python
reads at its start are the forking process's: `PYTHON...` variables and the seed of hashes, which
orders sets. Therefore workers that are killed and restarted (tests.end_to_end.trouble) are separate
processes, as are those in tests/end_to_end/test_worker.py and tests/cli. A worker starts its stages
in the same way (agents.process.child_process).

This module is both sides: run as a program, it is the process that forks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import IO, Any, Final, cast

from cli.local.process import Process
from cli.program import PROGRAM
from tests import ROOT

IMPORTED: Final = (
    "cli.main",
    "cli.run.worker",
    "cli.run.stage",
    "agents.state.stores.rocksdb",
    "agents.state.stores.redis",
    "cli.kafka.sink",
    "sinks.postgres",
    "sinks.redis",
)
"""Without `pyarrow`, because it starts threads and a process with threads cannot fork safely."""

TOPOLOGY: Final = """\
streams: {default: {}}
queries:
  p: {pattern: "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 1 s RETURN a.i AS i"}
  w: {window: tumbling 1s, aggregate: {n: count()}}
"""
"""Parsed once before forking, because the grammar of patterns takes half a second to load."""

POLL_S: Final = 0.01


class Forked:
    """A forked process with the part of `subprocess.Popen` that a Process uses."""

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        until_s = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until_s:
                raise subprocess.TimeoutExpired("a forked command", timeout)
            time.sleep(POLL_S)
        return code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Nursery:
    """A handle of the process that forks; that process ends with the tests."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests, which end their processes.
        )
        self._lock = threading.Lock()

    def ask(self, what: Mapping[str, Any]) -> int | None:
        """Return the id of the forked process, or the exit code of an earlier one."""
        with self._lock:
            asks, answers = self._process.stdin, self._process.stdout
            assert asks is not None
            assert answers is not None
            asks.write(json.dumps(what).encode() + b"\n")
            asks.flush()
            line = answers.readline()
        assert line, "the process that forks the commands of tests has ended"
        return cast("int | None", json.loads(line))


@cache
def nursery() -> Nursery:
    """Return the nursery of this process."""
    return Nursery()


class ForkedProcess(Process):
    """A command of `inorder`, started in a tenth of the usual time."""

    def _begin(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        made = nursery()
        pid = made.ask(
            {
                "words": self.command[len(PROGRAM) :],
                "folder": str(self.folder),
                "environment": dict(os.environ if self._env is None else self._env),
                "log": str(self.log),
            }
        )
        assert pid is not None
        return cast("subprocess.Popen[bytes]", Forked(pid, made))


# -- the process that forks ------------------------------------------------------------------------


def serve() -> Mapping[str, Any]:
    """Answer until the tests end; in a child, return the command to run."""
    codes: dict[int, int] = {}  # Threads can ask for a code twice.
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "ended" in asked:
            forked = asked["ended"]
            if forked not in codes:
                pid, status = os.waitpid(forked, os.WNOHANG)
                if pid:
                    codes[forked] = os.waitstatus_to_exitcode(status)
            answer = codes.get(forked)
        else:
            answer = os.fork()
            codes.pop(answer, None)  # The system reuses ids.
            if answer == 0:
                return cast("Mapping[str, Any]", asked)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    os._exit(0)


def become(asked: Mapping[str, Any]) -> None:
    """Run the command as if it had its own interpreter."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for opened, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(opened, number)
    os.close(nothing)
    os.close(log)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    words: Sequence[str] = asked["words"]
    sys.argv = [PROGRAM[-1], *words]
    import_module("inorder.__main__").main()


if __name__ == "__main__":
    gc.disable()
    for each in IMPORTED:
        import_module(each)
    import_module("topology.config").parse(TOPOLOGY)
    gc.freeze()
    become(serve())
