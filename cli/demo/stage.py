"""Runs the worker of the demo, waits until it is ready, and asks it for reports and metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.demo.patience import STILL_S, Patience
from cli.http_token import fetch
from cli.kafka_options import forget_security
from cli.local.ports import free_ports
from cli.local.process import Process
from cli.program import PROGRAM

TOPOLOGY: Final = """\
# Three brokers of a recorded cluster are the sources of one stream; two clocks are wrong.
# Every event should be emitted in order, so the worker waits instead of marking one late. The
# longest delay is 0.4 s, and the longest silence of a source is 11 s.
streams:
  default:
    reorder: {rule: fixed, max_wait: 1s}
    merge: {miss_target: 0.000001, max_wait: 1s, idle_after: 30s}
topics: {partitions: 4, replication: 1}
application: demo
state: memory
"""

ASK_S: Final = 2.0
ASK_EVERY_S: Final = 0.2


Report = Callable[[str], None]


class DemoFailed(Exception):
    """The worker of the demo did not become ready."""


@dataclass
class Ground:
    """The addresses of the demo's Kafka and worker, and the worker's process."""

    brokers: str
    worker: str
    process: Process

    def explain(self) -> list[dict[str, Any]]:
        """Return the worker's report on each partition, or an empty list if it does not answer."""
        answer = self._ask("explain", [])
        return answer if isinstance(answer, list) else []

    def count_held(self) -> int:
        """Return the number of events that wait in the worker, or 0 if it does not answer."""
        return sum(task["held"] for task in self.explain())

    def ask_why_unready(self) -> tuple[str, ...]:
        """Return the reasons why the worker is not ready, or none if it does not answer."""
        return tuple(self._ask("ready", {}).get("reasons", ()))

    def metrics(self) -> str:
        return fetch(self.worker, "/metrics", ASK_S)[1]

    def _ask(self, path: str, otherwise: Any) -> Any:
        """Return the JSON that the worker serves at a path, or `otherwise` if it serves none.

        The body of an error response is returned too.
        """
        with suppress(OSError, ValueError):
            return json.loads(fetch(self.worker, f"/{path}", ASK_S)[1])
        return otherwise


@contextmanager
def run_worker(
    brokers: str, topology: str, folder: Path, tasks: int = 1, report: Report = print
) -> Iterator[Ground]:
    """Run a real worker during the body, which begins when its stages own this many tasks.

    The worker is stopped at the end of the body. `report` is called with sentences about the wait.
    """
    file = folder / "demo.yaml"
    file.write_text(topology)
    worker = f"127.0.0.1:{free_ports(1)[0]}"
    options = ("--topology", str(file), "--brokers", brokers, "--http", worker)
    state = ("--state-dir", str(folder / "state"))
    forget_security()
    process = Process("worker", [*PROGRAM, "worker", *options, *state], folder)
    process.start()
    try:
        here = Ground(brokers, worker, process)
        _wait_until_ready(here, tasks, report)
        yield here
    finally:
        process.stop()


def _wait_until_ready(here: Ground, tasks: int, report: Report) -> None:
    """Wait until the worker owns this many tasks; raise `DemoFailed` if progress stops.

    Progress is another task, a change of the reasons, or more text in the log.
    """
    patience = Patience(report, STILL_S)
    while here.process.is_alive():
        owned, reasons = len(here.explain()), here.ask_why_unready()
        if owned >= tasks:
            return
        waited_for = f"the worker: {owned} of {tasks} tasks taken"
        if reasons:
            waited_for += f"; {reasons[0]}"
        if not patience.lasts((owned, reasons, here.process.log.stat().st_size), waited_for):
            break
        time.sleep(ASK_EVERY_S)
    raise DemoFailed(f"the worker did not become ready; its log:\n{here.process.log.read_text()}")
