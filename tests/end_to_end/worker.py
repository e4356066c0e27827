"""`inorder worker` as a process: started, asked, hurt, and ended for certain."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from cli.local.process import Process
from tests.command import Command
from tests.end_to_end.setting import Setting
from tests.kit.nursery import ForkedProcess
from tests.waiting import POLL_S, Patience, wait_until

REFUSED = 2
STOP_QUIET_S = 45.0
ORPHAN_QUIET_S = 30.0
COMMANDS = (b"inorder/__main__.py", b"tests/kit/nursery.py")
"""What runs a stage."""

SESSION_S = 3.0
"""Half the default: a killed one's partitions go to others when this is over."""


class Worker(Command):
    """One supervisor with its stage processes; `name` is also its state folder's."""

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
        """Sum of each family's samples: `records_in` of a stage is `records_in:stage`."""
        sums: dict[str, float] = {}
        for family in self.families():
            for sample in family.samples:
                name = sample.name.removeprefix("inorder_").removesuffix("_total")
                key = f"{name}:{sample.labels.get('stage', '')}"
                sums[key] = sums.get(key, 0.0) + sample.value
        return sums

    def wait_ready(self) -> None:
        patience = Patience()
        while self.ask("ready")[0] != 200:
            assert self.alive, f"{self.name} ended early:\n{self.log[-3000:]}"
            patience.look(self.log, lambda: f"{self.name} to be ready:\n{self.log[-3000:]}")
            time.sleep(POLL_S)

    def begin(self) -> None:
        """Start it, and wait until it is ready."""
        self.start()
        self.wait_ready()

    # -- its stages ----------------------------------------------------------------------------

    def stages(self) -> list[int]:
        """The ids of its stage processes."""
        if not self.alive:
            return []
        pid = self.process.pid
        try:
            return [
                int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            ]
        except FileNotFoundError:
            return []

    def kill_stage(self, index: int) -> int | None:
        """SIGKILL one stage process; its id, None if there is none at the moment."""
        return self._signal_stage(index, signal.SIGKILL)

    def pause_stage(self, index: int) -> int | None:
        """SIGSTOP one stage process: it keeps its connections and does nothing."""
        pid = self._signal_stage(index, signal.SIGSTOP)
        if pid is not None:
            self._paused.add(pid)
        return pid

    def _signal_stage(self, index: int, number: int) -> int | None:
        found = self.stages()
        if not found:
            return None
        pid = found[index % len(found)]
        _signal(pid, number)
        return pid

    def wake(self, pid: int) -> None:
        self._paused.discard(pid)
        _signal(pid, signal.SIGCONT)

    # -- ended ---------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL the supervisor; its stages have to see that and stop."""
        self._orphans.update(self.stages())
        self.process.kill()

    def kill_all(self) -> None:
        """SIGKILL the supervisor and its stages, as a machine that loses power does."""
        stages = self.stages()
        self.process.kill()
        for pid in stages:
            _signal(pid, signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM, without a wait."""
        self.process.terminate()

    def exit_code(self) -> int | None:
        """Wait for the end; when its log has stood still for STOP_QUIET_S it is killed."""
        with suppress(AssertionError):
            wait_until(lambda: not self.alive, "its end", lambda: self.log, quiet_s=STOP_QUIET_S)
        return self.process.kill()

    def stop(self) -> int | None:
        """SIGTERM, and the exit code."""
        self.terminate()
        return self.exit_code()

    def ends_refused(self, *says: str) -> None:
        """Assert that it ends of itself with exit 2, without a stack trace, and says these."""
        assert self.exit_code() == REFUSED, self.log[-3000:]
        assert "Traceback" not in self.log, self.log[-3000:]
        for words in says:
            assert words in self.log, self.log[-3000:]

    def await_orphans(self) -> None:
        """Until the stages that lost their supervisor have stopped of themselves."""
        wait_until(
            lambda: not any(map(_lives, self._orphans)),
            f"the stages {sorted(self._orphans)} of {self.name}, whose supervisor was killed",
            lambda: self.log,
            quiet_s=ORPHAN_QUIET_S,
        )

    def close(self) -> None:
        """Nothing of it is left, whatever the test has done."""
        stages = {*self.stages(), *self._orphans, *self._paused}
        self.process.kill()
        for pid in stages:
            if _lives(pid):
                _signal(pid, signal.SIGCONT)
                _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(pid, number)


def _lives(pid: int) -> bool:
    """A stage process of that id runs; ids are given to others in time."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(name in command for name in COMMANDS) and state != "Z"


class Spawned(Worker):
    """One that is begun as users begin theirs."""

    begun_as = Process


@contextmanager
def running(*workers: Worker, may_start: Sequence[Worker] = ()) -> Iterator[None]:
    """Started at the begin; at the end nothing of them, or of `may_start`, is left."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in {*workers, *may_start}:
            worker.close()


def worker_on(
    setting: Setting, *options: str, name: str = "a", kind: type[Worker] = Worker
) -> Worker:
    """A worker of that file, which keeps its state beside it."""
    return kind(name, setting.path, setting.bootstrap, setting.folder, *options)


@contextmanager
def at_work(
    setting: Setting, *options: str, name: str = "a", kind: type[Worker] = Worker
) -> Iterator[Worker]:
    """A worker that is ready; at the end it stops in peace, if it has not stopped before."""
    worker = worker_on(setting, *options, name=name, kind=kind)
    with running(worker):
        worker.wait_ready()
        yield worker
        if worker.alive:
            assert worker.stop() == 0, worker.log[-3000:]
