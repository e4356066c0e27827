"""Commands of `inorder` that are forked from a process that has imported them.

The imports are most of what a start costs: a second of a processor, hundreds of times in a run. So
one process for each of pytest imports, and waits; a command that is asked of it is forked. It has a
session, an environment, a folder and a log of its own, no thread, and Python's own end. What Python
reads as it starts is the forking process's: `PYTHON...` variables, and the seed of hashes, by which
sets have their order. So workers that are killed and begun anew (tests.end_to_end.trouble) are real
ones, as are those of tests/end_to_end/test_worker.py and tests/cli. A worker starts its stages in
the same way (agents.process.child_process).

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
"""Without `pyarrow`, which has threads: who has some cannot fork."""

TOPOLOGY: Final = """\
streams: {default: {}}
queries:
  p: {pattern: "PATTERN SEQ(A a, B b) WHERE a.x = b.x WITHIN 1 s RETURN a.i AS i"}
  w: {window: tumbling 1s, aggregate: {n: count()}}
"""
"""What is read once is not read again: the grammar of patterns takes half a second."""

POLL_S: Final = 0.01


class Forked:
    """What a Process uses of a `subprocess.Popen`."""

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
    """The process that forks, as the tests see it. It ends with them: then nobody asks it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests, which end what they have begun
        )
        self._lock = threading.Lock()

    def ask(self, what: Mapping[str, Any]) -> int | None:
        """The id of what it has forked, or the exit code of what it has forked before."""
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
    """The one of this process."""
    return Nursery()


class ForkedProcess(Process):
    """A command of `inorder`, started in a tenth of the time."""

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
    """Answer until the tests end; in a child, return what it is to become."""
    codes: dict[int, int] = {}  # of those that ended: threads may ask twice
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
            codes.pop(answer, None)  # ids are given to others in time
            if answer == 0:
                return cast("Mapping[str, Any]", asked)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    os._exit(0)


def become(asked: Mapping[str, Any]) -> None:
    """Be the command, as if by an interpreter of its own."""
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
