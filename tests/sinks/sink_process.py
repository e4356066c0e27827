"""`inorder sink` as a process: started, asked, killed, and ended for certain."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from infra.process import Process

ROOT = Path(__file__).parents[2]
ASK_TIMEOUT_S = 5.0
READY_TIMEOUT_S = 60.0
ADDRESS = re.compile(r"http://(\S+?)/ready")


class SinkProcess:
    """`folder` holds its log; `arguments` come after `inorder sink`."""

    def __init__(
        self, name: str, folder: Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cli", "sink", *arguments]
        self.process = Process(name, command, folder, {"PYTHONPATH": str(ROOT), **(env or {})})
        self._log_begin = 0

    def start(self) -> None:
        log = self.process.log
        self._log_begin = log.stat().st_size if log.exists() else 0
        self.process.start()

    @property
    def log(self) -> str:
        """What it has said since its last start; dead letters are lines of it too."""
        return self.process.log.read_bytes()[self._log_begin :].decode(errors="replace")

    @property
    def dead_letters(self) -> list[dict[str, Any]]:
        """Of all its starts."""
        lines = self.process.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"kind":"dead"')]

    def ready(self) -> tuple[int, Any]:
        """Status and JSON; status 0 while nobody answers."""
        found = ADDRESS.search(self.log)
        if found is None:
            return 0, None
        try:
            with urllib.request.urlopen(
                f"http://{found[1]}/ready", timeout=ASK_TIMEOUT_S
            ) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, None

    def metrics(self) -> dict[str, float]:
        """Sum of each family's samples since its last start; empty while nobody answers."""
        found = ADDRESS.search(self.log)
        if found is None:
            return {}
        try:
            with urllib.request.urlopen(
                f"http://{found[1]}/metrics", timeout=ASK_TIMEOUT_S
            ) as response:
                text = response.read().decode()
        except OSError:
            return {}
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            name = family.name.removeprefix("inorder_sink_")
            sums[name] = sum(sample.value for sample in family.samples)
        return sums

    def wait_until_written(self, count: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        self.process.wait_until(lambda: self.metrics().get("written", 0) >= count, timeout_s)
