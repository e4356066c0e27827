"""A worker as a process of its own, asked over HTTP: whether it is ready, and what it counts."""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from benchmarks.backlog import Setting
from benchmarks.race import ROOT
from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import Process, children

START_TIMEOUT_S: Final = 300.0
ASK_TIMEOUT_S: Final = 10.0


class Worker:
    """Its state lies in `folder` below a name of its own. `options` are those of the command."""

    def __init__(
        self, name: str, setting: Setting, bootstrap: str, folder: Path, *options: str
    ) -> None:
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        self.state = folder / f"state-{name}"
        command = [
            *(sys.executable, "-m", "inorder_engine", "worker", "--http", self.address),
            *("--topology", str(setting.path), "--brokers", bootstrap),
            *("--state-dir", str(self.state), *options),
        ]
        self._process = Process(name, command, folder, {"PYTHONPATH": str(ROOT)})

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Until it is ready; NotReady if it does not come to that."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        self._process.start()

    def wait_until_ready(self) -> None:
        self._process.wait_until(self._is_ready, START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()

    def kill_stage(self, number: int) -> None:
        """SIGKILL one of its stages; it is started again by the supervisor."""
        stages = children(self.pid)
        if stages:
            os.kill(stages[number % len(stages)], signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL it and its stages, as a machine that loses power does."""
        stages = children(self.pid)
        self._process.kill()
        for each in stages:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def samples(self) -> Iterator[Sample]:
        """What `/metrics` says. OSError where nobody answers."""
        for family in text_string_to_metric_families(self._get("metrics").decode()):
            yield from family.samples

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return bool(self._get("ready"))
        return False

    def _get(self, path: str) -> bytes:
        url = f"http://{self.address}/{path}"
        with urllib.request.urlopen(url, timeout=ASK_TIMEOUT_S) as found:
            content: bytes = found.read()
        return content
