"""The demo's ground: an embedded Kafka and a real worker beside it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.kafka.security import without_security
from cli.demo.patience import STILL_S, Patience
from cli.http_token import answered
from cli.local.embedded import EmbeddedBroker
from cli.local.ports import free_ports
from cli.program import PROGRAM

TOPOLOGY: Final = """\
# Three brokers of a recorded cluster are the sources of one stream; two clocks are wrong.
# Every event is to be seen in its place, so it would rather wait than mark one late: the longest
# delay is 0.4 s, the longest silence of one source 11 s.
streams:
  default:
    reorder: {rule: fixed, max_wait: 1s}
    merge: {miss_target: 0.000001, max_wait: 1s, idle_after: 30s}
stages: [reorder, merge]
topics: {partitions: 4, replication: 1}
application: demo
state: memory
"""

STOP_TIMEOUT_S: Final = 30.0
ASK_S: Final = 2.0
ASK_EVERY_S: Final = 0.2


Report = Callable[[str], None]


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
        answer = self._said("explain", [])
        return answer if isinstance(answer, list) else []

    def reasons(self) -> tuple[str, ...]:
        """Why it is not ready; nothing while it does not answer."""
        return tuple(self._said("ready", {}).get("reasons", ()))

    def metrics(self) -> str:
        return answered(self.worker, "/metrics", ASK_S)[1]

    def _said(self, path: str, otherwise: Any) -> Any:
        """An answer that says no has a text, too."""
        with suppress(OSError, ValueError):
            return json.loads(answered(self.worker, f"/{path}", ASK_S)[1])
        return otherwise


@contextmanager
def ground(folder: Path, report: Report) -> Iterator[Ground]:
    """Up and ready; the worker is stopped at the end, by its id."""
    with (
        EmbeddedBroker() as broker,
        worker_on(broker.bootstrap, TOPOLOGY, folder, 2 * PARTITIONS, report) as here,
    ):
        yield here


@contextmanager
def worker_on(
    brokers: str, topology: str, folder: Path, places: int, report: Report = print
) -> Iterator[Ground]:
    """A real worker, ready: its stages own so many partitions. It is stopped at the end, by its
    id. `report` gets sentences about the wait."""
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
            _wait_until_ready(here, places, report)
            yield here
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(here: Ground, places: int, report: Report) -> None:
    """As long as it makes progress: takes partitions, gives other reasons, or says more."""
    patience = Patience(report, STILL_S)
    while here.process.poll() is None:
        owned, reasons = len(here.explain()), here.reasons()
        if owned >= places:
            return
        waited_for = f"the worker: {owned} of {places} partitions taken"
        if reasons:
            waited_for += f"; {reasons[0]}"
        if not patience.lasts((owned, reasons, here.log.stat().st_size), waited_for):
            break
        time.sleep(ASK_EVERY_S)
    raise DemoFailed(f"the worker did not get ready; its log:\n{here.log.read_text()}")


RAW_TOPIC: Final = "events.raw"
PARTITIONS: Final = 4
"""Partitions of each topic of the embedded broker."""
