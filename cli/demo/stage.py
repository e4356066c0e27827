"""The demo's ground: an embedded Kafka and a real worker beside it."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.security import without_security
from cli.program import PROGRAM
from infra.embedded import EmbeddedBroker
from infra.ports import free_ports

TOPOLOGY: Final = """\
# The demo: three brokers of a recorded cluster are the sources of one stream; two clocks are wrong.
streams:
  default:
    reorder: {rule: miss, max_wait: 500ms}
    merge: {wait: delay, max_wait: 500ms, idle_after: 2s}
stages: [reorder, merge]
topics: {partitions: 4, replication: 1}
application: demo
state: memory
"""

READY_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
ASK_TIMEOUT_S: Final = 2.0
ASK_EVERY_S: Final = 0.2


class DemoFailed(Exception):
    """The worker did not come up, or did not stay."""


@dataclass
class Ground:
    """Where the demo's Kafka listens, and where its worker answers."""

    brokers: str
    worker: str
    process: subprocess.Popen[bytes]
    log: Path

    def explain(self) -> list[dict[str, Any]]:
        """What the worker holds; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://{self.worker}/explain", timeout=ASK_TIMEOUT_S
            ) as response:
                answer: list[dict[str, Any]] = json.load(response)
                return answer
        except (OSError, ValueError):
            return []

    def metrics(self) -> str:
        with urllib.request.urlopen(
            f"http://{self.worker}/metrics", timeout=ASK_TIMEOUT_S
        ) as response:
            text: str = response.read().decode()
            return text


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Up and ready; the worker is stopped at the end, by its id."""
    with (
        EmbeddedBroker() as broker,
        worker_on(broker.bootstrap, TOPOLOGY, folder, places=2 * PARTITIONS) as here,
    ):
        yield here


@contextmanager
def worker_on(brokers: str, topology: str, folder: Path, places: int) -> Iterator[Ground]:
    """A real worker, ready: its stages own so many partitions. It is stopped at the end, by its
    id."""
    file = folder / "demo.yaml"
    file.write_text(topology)
    log = folder / "worker.log"
    worker = f"127.0.0.1:{free_ports(1)[0]}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(*PROGRAM, "worker", "--topology", str(file)),
                *("--brokers", brokers, "--state-dir", str(folder / "state")),
                *("--http", worker),
            ],
            stdout=subprocess.DEVNULL,
            stderr=out,
            env=without_security(os.environ),
        )
        try:
            here = Ground(brokers, worker, process, log)
            _wait_until_ready(here, places)
            yield here
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(here: Ground, places: int) -> None:
    end_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end_s:
        if here.process.poll() is not None:
            break
        if len(here.explain()) >= places:
            return
        time.sleep(ASK_EVERY_S)
    raise DemoFailed(f"the worker did not get ready; its log:\n{here.log.read_text()}")


RAW_TOPIC: Final = "events.raw"
PARTITIONS: Final = 4
"""Of each topic of the embedded broker."""
