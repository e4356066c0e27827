"""Run a serving command of `inorder` as a process, and ask it over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cli.local.process import Process
from cli.program import PROGRAM
from tests import ROOT
from tests.waiting import POLL_S, Patience, wait_until

T = TypeVar("T")

ASK_TIMEOUT_S = 5.0
ADDRESS = re.compile(r"http://(\S+?)/ready")


class Command:
    """A process of a serving command.

    `name` names its log, `words` come after `inorder`, and `env` is added to this process's
    environment.
    """

    begun_as: ClassVar[type[Process]] = Process
    """An interpreter of its own, or one that has already imported the command
    (tests/kit/nursery.py)."""

    def __init__(
        self, name: str, folder: Path, *words: str, env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [*PROGRAM, *words]
        self.process = self.begun_as(
            name, command, folder, {"PYTHONPATH": str(ROOT), **(env or {})}
        )
        self._log_begin = 0

    def start(self) -> None:
        log = self.process.log
        self._log_begin = log.stat().st_size if log.exists() else 0
        self.process.start()

    @property
    def log(self) -> str:
        """Return the log since the last start."""
        if not self.process.log.exists():
            return ""
        return self.process.log.read_bytes()[self._log_begin :].decode(errors="replace")

    def await_true(self, true: Callable[[], T | None], what: str) -> T:
        """Return the first true result of `true`.

        Raises AssertionError if the process ends first.
        """
        patience = Patience()
        while not (found := true()):
            assert self.process.is_alive(), f"it ended before {what}:\n{self.log[-3000:]}"
            patience.look(self.log, lambda: f"{what}:\n{self.log[-3000:]}")
            time.sleep(POLL_S)
        return found

    def await_said(self, pattern: str) -> re.Match[str]:
        """Wait until the log matches the pattern, and return the match."""
        return self.await_true(lambda: re.search(pattern, self.log), pattern)

    def ends_by(self, number: signal.Signals) -> None:
        """Send the signal, and assert that the command exits with 0."""
        os.kill(self.process.pid, number)
        wait_until(lambda: not self.process.is_alive(), "its end", lambda: self.log)
        assert self.process.stop() == 0, self.log

    @property
    def http(self) -> str | None:
        """Return the address of the HTTP server, or None while the log lacks it."""
        found = ADDRESS.search(self.log)
        return found[1] if found else None

    def ask(self, path: str) -> tuple[int, Any]:
        """Return the status and the JSON answer; the status is 0 while nothing answers."""
        try:
            with self._open(path) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def families(self) -> Iterable[Metric]:
        """Return the metrics of `/metrics`.

        Raises OSError while nothing answers.
        """
        with self._open("metrics") as response:
            return text_string_to_metric_families(response.read().decode())

    def _open(self, path: str) -> Any:
        if self.http is None:
            raise ConnectionRefusedError(f"{self.process.name} has not told its address")
        return urllib.request.urlopen(f"http://{self.http}/{path}", timeout=ASK_TIMEOUT_S)
