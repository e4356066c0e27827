"""Run `inorder worker` as a process: start it, ask it, act on it, and stop it in any case."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from cli.local.process import Process, find_descendants
from tests.command import Command
from tests.end_to_end.setting import Setting
from tests.kit.nursery import ForkedProcess
from tests.waiting import wait_until

REFUSED = 2
STOP_QUIET_S = 45.0
ORPHAN_QUIET_S = 30.0
COMMANDS = (b"inorder/__main__.py", b"tests/kit/nursery.py")
"""Commands that run a stage."""

SESSION_S = 3.0
"""Seconds of a session, half of the default; after them others get the partitions of a killed
worker."""


class Worker(Command):
    """A supervisor with its stage processes; `name` also names its state folder."""

    begun_as: ClassVar[type[Process]] = ForkedProcess

    def __init__(
        self,
        name: str,
        topology: Path,
        brokers: str,
        folder: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        super().__init__(
            name,
            folder,
            *("worker", "--topology", str(topology), "--brokers", brokers),
            *("--state-dir", str(folder / "state" / name), "--verbose"),
            *("--session", f"{SESSION_S:g}s", *options),
            env=env,
        )
        self._orphans: set[int] = set()
        self._paused: set[int] = set()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    # -- asked -------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        assert self.http, f"{self.name} has not told its address:\n{self.log}"
        return self.http

    def metrics(self) -> dict[str, float]:
        """Return the sums of samples by family and stage, with keys such as `records_in:merge`."""
        sums: dict[str, float] = {}
        for family in self.families():
            for sample in family.samples:
                name = sample.name.removeprefix("inorder_").removesuffix("_total")
                key = f"{name}:{sample.labels.get('stage', '')}"
                sums[key] = sums.get(key, 0.0) + sample.value
        return sums

    def wait_ready(self) -> None:
        self.await_true(lambda: self.ask("ready")[0] == 200, f"{self.name} is ready")

    def is_cut_off(self) -> bool:
        """Return whether the worker is not ready because its brokers do not answer one of its
        requests.
        """
        status, told = self.ask("ready")
        why = "no (broker answers|sign of life|checkpoint has been|assignment by the group|leader)"
        return status == 503 and re.search(why, str(told)) is not None

    def begin(self) -> None:
        """Start the worker, and wait until it is ready."""
        self.start()
        self.wait_ready()

    # -- its stages ----------------------------------------------------------------------------

    def stages(self) -> list[int]:
        """Return the ids of the worker's stage processes."""
        return find_descendants(self.process.pid) if self.alive else []

    def partitions(self) -> list[dict[str, Any]]:
        """Return the partitions that the worker's stages have open, as in `/explain`."""
        status, told = self.ask("explain")
        return told if status == 200 else []

    def _stage(self, index: int) -> int:
        stages = self.stages()
        assert len(stages) > index, f"{self.name} has the stages {stages}:\n{self.log[-3000:]}"
        return stages[index]

    def kill_stage(self, index: int) -> int:
        """Kill one stage process with SIGKILL, and return its id."""
        return _signal([self._stage(index)], signal.SIGKILL)[0]

    def kill_stages(self) -> list[int]:
        return _signal(self.stages(), signal.SIGKILL)

    def pause_stage(self, index: int) -> int:
        """Pause one stage process with SIGSTOP: it keeps its connections and does nothing."""
        return self._pause([self._stage(index)])[0]

    def pause_stages(self) -> list[int]:
        return self._pause(self.stages())

    def _pause(self, pids: list[int]) -> list[int]:
        self._paused.update(pids)
        return _signal(pids, signal.SIGSTOP)

    def wake(self, *pids: int) -> None:
        """Wake these stage processes, or all that are paused."""
        self._paused.difference_update(_signal([*(pids or self._paused)], signal.SIGCONT))

    # -- ended ---------------------------------------------------------------------------------

    def kill(self) -> list[int]:
        """Kill the supervisor with SIGKILL; return the ids of its stages, which have to notice that
        and stop.
        """
        stages = self.stages()
        self._orphans.update(stages)
        self.process.kill()
        return stages

    def kill_all(self) -> list[int]:
        """Kill the supervisor and its stages with SIGKILL, as a machine that loses power does."""
        stages = self.stages()
        self.process.kill()
        return _signal(stages, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM, and do not wait."""
        self.process.terminate()

    def exit_code(self) -> int | None:
        """Wait until the worker ends, and return the exit code.

        A worker whose log has stood still for STOP_QUIET_S is killed.
        """
        with suppress(AssertionError):
            wait_until(lambda: not self.alive, "its end", lambda: self.log, quiet_s=STOP_QUIET_S)
        return self.process.kill()

    def stop(self) -> int | None:
        """Send SIGTERM, and return the exit code."""
        self.terminate()
        return self.exit_code()

    def ends_refused(self, *says: str) -> None:
        """Assert that the worker exits by itself with 2, without a stack trace, and with these
        words.
        """
        assert self.exit_code() == REFUSED, self.log[-3000:]
        assert "Traceback" not in self.log, self.log[-3000:]
        for words in says:
            assert words in self.log, self.log[-3000:]

    def await_orphans(self) -> None:
        """Wait until the stages that lost their supervisor have stopped by themselves."""
        wait_until(
            lambda: not any(map(_lives, self._orphans)),
            f"the stages {sorted(self._orphans)} of {self.name}, whose supervisor was killed",
            lambda: self.log,
            quiet_s=ORPHAN_QUIET_S,
        )

    def close(self) -> None:
        """Kill what is left of the worker, whatever the test has done."""
        stages = {*self.stages(), *self._orphans, *self._paused}
        self.process.kill()
        _signal([*filter(_lives, stages)], signal.SIGKILL)


def _signal(pids: list[int], number: int) -> list[int]:
    for pid in pids:
        with suppress(ProcessLookupError):  # The process has ended.
            os.kill(pid, number)
    return pids


def _lives(pid: int) -> bool:
    """Return whether a stage process with that id runs.

    Ids are reused in time, and a dead process that nobody has waited for has no command.
    """
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(name in command for name in COMMANDS)


class Spawned(Worker):
    """A worker that is started as users start theirs."""

    begun_as = Process


@contextmanager
def running(*workers: Worker, may_start: Sequence[Worker] = ()) -> Iterator[None]:
    """Start the workers; at the end kill what is left of them and of `may_start`."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in {*workers, *may_start}:
            worker.close()


def worker_on(
    setting: Setting,
    *options: str,
    name: str = "a",
    kind: type[Worker] = Worker,
    env: Mapping[str, str] | None = None,
) -> Worker:
    """Return a worker for the setting's file, with its state in the same folder."""
    return kind(name, setting.path, setting.bootstrap, setting.folder, *options, env=env)


@contextmanager
def at_work(
    setting: Setting,
    *options: str,
    name: str = "a",
    kind: type[Worker] = Worker,
    env: Mapping[str, str] | None = None,
) -> Iterator[Worker]:
    """Yield a worker that is ready; at the end assert that it exits with 0, unless it has stopped
    before.
    """
    worker = worker_on(setting, *options, name=name, kind=kind, env=env)
    with running(worker):
        worker.wait_ready()
        yield worker
        if worker.alive:
            assert worker.stop() == 0, worker.log[-3000:]
