"""`inorder worker` as a process: started, asked, hurt, and ended for certain."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from infra.poll import wait_until
from infra.process import Process

ROOT = Path(__file__).parents[2]
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 45.0
ASK_TIMEOUT_S = 5.0
ORPHAN_TIMEOUT_S = 30.0
ADDRESS = re.compile(r"http://(\S+?)/ready")


class Worker:
    """One supervisor with its stage processes; `name` is also its state folder's."""

    def __init__(
        self, name: str, topology: Path, brokers: str, folder: Path, *options: str
    ) -> None:
        self.name = name
        command = [
            *(sys.executable, "-m", "cli", "worker"),
            *("--topology", str(topology), "--brokers", brokers),
            *("--state-dir", str(folder / "state" / name), "--verbose", *options),
        ]
        folder.mkdir(parents=True, exist_ok=True)
        self.process = Process(name, command, folder, {"PYTHONPATH": str(ROOT)})
        self._log_begin = 0
        self._orphans: set[int] = set()
        self._paused: set[int] = set()

    def start(self) -> None:
        log = self.process.log
        self._log_begin = log.stat().st_size if log.exists() else 0
        self.process.start()

    @property
    def log(self) -> str:
        """What it has said since its last start."""
        if not self.process.log.exists():
            return ""
        return self.process.log.read_bytes()[self._log_begin :].decode(errors="replace")

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    # -- asked -------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        found = ADDRESS.search(self.log)
        assert found, f"{self.name} has not told its address:\n{self.log}"
        return found[1]

    def ask(self, path: str) -> tuple[int, Any]:
        """Status and JSON; status 0 while nobody answers."""
        if ADDRESS.search(self.log) is None:
            return 0, None
        try:
            with urllib.request.urlopen(
                f"http://{self.address}/{path}", timeout=ASK_TIMEOUT_S
            ) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def metrics(self) -> dict[str, float]:
        """Sum of each family's samples: `records_in` of a stage is `records_in:stage`."""
        with urllib.request.urlopen(
            f"http://{self.address}/metrics", timeout=ASK_TIMEOUT_S
        ) as response:
            text = response.read().decode()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix("inorder_").removesuffix("_total")
                key = f"{name}:{sample.labels.get('stage', '')}"
                sums[key] = sums.get(key, 0.0) + sample.value
        return sums

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        self.process.wait_until(lambda: self.ask("ready")[0] == 200, timeout_s)

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
        found = self.stages()
        if not found:
            return None
        pid = found[index % len(found)]
        _signal(pid, signal.SIGKILL)
        return pid

    def pause_stage(self, index: int) -> int | None:
        """SIGSTOP one stage process: it keeps its connections and does nothing."""
        found = self.stages()
        if not found:
            return None
        pid = found[index % len(found)]
        self._paused.add(pid)
        _signal(pid, signal.SIGSTOP)
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
        """Wait for the end, at most STOP_TIMEOUT_S; then it is killed."""
        with suppress(TimeoutError):
            wait_until(lambda: not self.alive, STOP_TIMEOUT_S, f"the end of {self.name}")
        return self.process.kill()

    def stop(self) -> int | None:
        """SIGTERM, and the exit code."""
        self.terminate()
        return self.exit_code()

    def await_orphans(self) -> None:
        """Until the stages that lost their supervisor have stopped of themselves."""
        wait_until(
            lambda: not any(map(_lives, self._orphans)),
            ORPHAN_TIMEOUT_S,
            f"the stages {sorted(self._orphans)} of {self.name}, whose supervisor was killed",
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
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended meanwhile


def _lives(pid: int) -> bool:
    """A stage process of that id runs; ids are given to others in time."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"stage" in command and state != "Z"


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
