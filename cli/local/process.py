"""Runs a child process that tests and benchmarks can start, pause and end by its id.

The output is appended to `<folder>/<name>.log` over restarts. While the process is needed,
`<folder>/<name>.pid` has its id, so that processes left by a killed test run can be ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from cli.local.poll import Countdown

STOP_TIMEOUT_S = 30.0
POLL_S = 0.05
LOG_TAIL_LINES = 20


class NotReady(RuntimeError):
    """A server ended early, or did not answer in time."""


class Process:
    """A child process whose working directory is `folder`; each `start` runs the same command."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._pid_file = folder / f"{name}.pid"
        self._env = None if env is None else {**os.environ, **env}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the child; RuntimeError if it has not been started."""
        if self._child is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._child.pid

    def is_alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.is_alive():
            raise RuntimeError(f"{self.name} runs already, as process {self.pid}")
        with self.log.open("ab") as log:
            self._child = self._begin(log)
        self._pid_file.write_text(f"{self._child.pid}\n")

    def _begin(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the command, whose output goes to the log."""
        return subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach only the test run, which then stops the child.
            start_new_session=True,
        )

    def wait_until(self, answers: Callable[[], bool], timeout_s: float) -> None:
        """Return once `answers()` is true.

        Raises NotReady, with the end of the log, if the process ends or does not answer in time.
        """
        countdown = Countdown(timeout_s)
        while not answers():
            if not self.is_alive():
                raise NotReady(f"{self.name} ended early; {self.log} closes with\n{self.tail()}")
            if countdown.has_passed():
                raise NotReady(
                    f"{self.name} did not answer within {timeout_s:g} s;"
                    f" {self.log} closes with\n{self.tail()}"
                )
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """Send SIGTERM, then SIGKILL after `timeout_s`, and return the exit code.

        The result is None if the process has never been started.
        """
        if self._child is None:
            return None
        self.terminate()
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
        return self._reap()

    def terminate(self) -> None:
        """Send SIGTERM without waiting, so that `stop` can then end several processes at once."""
        if self._child is not None and self.is_alive():
            self._child.terminate()
            self.resume()  # A paused process would not act on the signal.

    def kill(self) -> int | None:
        """Send SIGKILL to the process, wait for its end, and return the exit code."""
        if self._child is not None and self.is_alive():
            self._child.kill()
        return self._reap()

    def pause(self) -> None:
        """Send SIGSTOP to the process, and wait until every thread has stopped.

        The process keeps its connections and does nothing.
        """
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self) -> str:
        if not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _reap(self) -> int | None:
        if self._child is None:
            return None
        code = self._child.wait(STOP_TIMEOUT_S)
        self._pid_file.unlink(missing_ok=True)
        return code


def read_stat_fields(stat: Path) -> list[str]:
    """Return the fields of a /proc stat file after the process's name, which may have spaces.

    The first field is the state.
    """
    return stat.read_text().rpartition(")")[2].split()


def find_descendants(pid: int) -> list[int]:
    """Return the process ids of all descendants of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, task.read_text().split()):
                found += [child, *find_descendants(child)]
    return found


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return read_stat_fields(Path(f"/proc/{pid}/stat"))[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
