"""End to end: the commands of the chart's containers, run one after the other as in a cluster.

There is no cluster: each command runs here as a process, with its ConfigMap's files and its
environment variables. Addresses and folders in a pod are replaced by those of this machine.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cli.local.ports import LOOPBACK, free_ports
from cli.program import PROGRAM
from infra.helm import missing
from tests import ROOT
from tests.command import Command
from tests.infra.test_alerts_fire import ending
from tests.infra.test_helm import Manifest, containers, manifests
from tests.services import SharedKafka, UniqueName, require
from tests.waiting import wait_until

RUN_S = 60
VALUES = """\
brokers: {brokers}
topology: |
  streams:
    default: {{input: raw-{name}, output: ordered-{name}}}
  application: {name}
  stages: [reorder+merge]
  topics:
    partitions: 1
    replication: 1
    sequenced: sequenced-{name}
    late: late-{name}
    gaps: gaps-{name}
    dead: dead-{name}
    clock: clock-{name}
"""

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Pods:
    """A release's containers, which run here as processes."""

    def __init__(self, found: list[Manifest], folder: Path) -> None:
        self._containers = {one["name"]: one for one in containers(found)}
        self._secrets = {
            (one["metadata"]["name"], key): base64.b64decode(value).decode()
            for one in found
            if one["kind"] == "Secret"
            for key, value in one["data"].items()
        }
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        self._places = {
            "/etc/inorder/": f"{folder}/",
            "/var/lib/inorder": str(folder / "state"),
            "0.0.0.0:8080": self.address,
            "test-all:8080": self.address,
        }
        for one in found:
            for name, text in one.get("data", {}).items() if one["kind"] == "ConfigMap" else ():
                (folder / name).write_text(text)

    def words(self, name: str) -> list[str]:
        return [self._here(word) for word in self._containers[name]["args"]]

    def env(self, name: str) -> dict[str, str]:
        return {one["name"]: self._value(one) for one in self._containers[name]["env"]}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *self.words(name)],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **self.env(name)},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    def _value(self, variable: Mapping[str, Any]) -> str:
        if "value" in variable:
            return self._here(variable["value"])
        source = variable["valueFrom"]
        if "fieldRef" in source:
            return "test-all-0"
        secret = source["secretKeyRef"]
        return self._secrets[secret["name"], secret["key"]]

    def _here(self, word: str) -> str:
        for place, here in self._places.items():
            if place in word:
                return word.replace(place, here)
        return word


def test_container_commands_succeed(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    require(missing())
    values = tmp_path / "values.yaml"
    values.write_text(VALUES.format(brokers=kafka.bootstrap, name=unique_name("chart")))
    pods = Pods(manifests(values), tmp_path)
    made = pods.run("topics")
    assert made.returncode == 0, made.stderr
    assert "created" in made.stdout
    worker = Command("worker", tmp_path, *pods.words("worker"), env=pods.env("worker"))
    with ending(worker):
        wait_until(lambda: worker.ask("ready")[0] == 200, "/ready, open", lambda: worker.log)
        assert worker.ask("live")[0] == 200
        for path in ("metrics", "explain"):
            with pytest.raises(OSError, match="401"):
                urlopen(f"http://{worker.http}/{path}")
        for name in ("doctor", "explain-all"):
            done = pods.run(name)
            assert done.returncode == 0, done.stdout + done.stderr
        assert worker.process.stop() == 0, worker.log
    assert '"level"' in worker.log, "the log is JSON"
