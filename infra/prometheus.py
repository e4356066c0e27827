"""Starts a private Prometheus on a free loopback port, for tests."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import Process
from cli.local.server import Server

START_TIMEOUT_S = 30.0
ASK_TIMEOUT_S = 30.0


def missing() -> str | None:
    """Return why no Prometheus can be started here; None if one can."""
    if shutil.which("prometheus") is None:
        return "prometheus not found; run infra/ensure.sh or install it"
    return None


class Prometheus(Server):
    """A private server, which keeps its settings, data and log in `folder`.

    `targets` are HOST:PORT of workers, and `rules` files of alerts. `more` has other targets, in
    the form of `scrape_configs`. The targets are scraped every `every_s` seconds; a scrape that
    takes longer than that fails.
    """

    def __init__(
        self,
        folder: Path,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        more: Sequence[Mapping[str, Any]] = (),
        every_s: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        settings = {
            "global": {"scrape_interval": f"{every_s}s", "evaluation_interval": "1s"},
            "rule_files": [str(rule) for rule in rules],
            "scrape_configs": [
                {"job_name": "inorder", "static_configs": [{"targets": list(targets)}]},
                *more,
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(settings))  # JSON is valid YAML.
        command = [
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
        ]
        self.process = Process("prometheus", command, folder)

    def start(self) -> None:
        self.process.start()
        self.process.wait_until(self._answers, START_TIMEOUT_S)

    def stop(self) -> None:
        self.process.stop()

    def ask(self, expression: str) -> list[Any]:
        """Return the series to which an expression evaluates now; ValueError if it is invalid."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            answer = self._get(f"/api/v1/query?{query}")
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from error
        found: list[Any] = answer["data"]["result"]
        return found

    def rules(self) -> dict[str, str]:
        """Return the health of each alert rule by name; `ok` if Prometheus could evaluate it."""
        groups = self._get("/api/v1/rules")["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{self.address}/-/ready", timeout=ASK_TIMEOUT_S
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(
            f"http://{self.address}{path}", timeout=ASK_TIMEOUT_S
        ) as answer:
            return json.load(answer)
