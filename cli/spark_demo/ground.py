"""The ground of the Spark demo: a real Kafka from Maven jars, and the real worker.

Spark's connector wants what the embedded broker has not: a protocol of its age, append time
and transactions it can read. Since Spark needs Java anyhow, the broker costs nothing more.

The topology is that of `inorder demo` but for one partition a topic: then the order of the
raw topic is the order of arrival over all sources, and disorder can be read off the offsets.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agents.security import without_security
from agents.topics import create, declared
from cli.demo.stage import (
    ASK_EVERY_S,
    READY_TIMEOUT_S,
    STOP_TIMEOUT_S,
    TOPOLOGY,
    DemoFailed,
    Ground,
)
from infra.kafka import KafkaBroker
from infra.ports import free_ports
from topology.description import Topology, parse

ONE_PARTITION: Final = TOPOLOGY.replace("partitions: 4", "partitions: 1")


def topology() -> Topology:
    return parse(ONE_PARTITION)


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Up and ready; worker and broker are ended with it, by their ids."""
    file = folder / "demo.yaml"
    file.write_text(ONE_PARTITION)
    log = folder / "worker.log"
    with KafkaBroker(folder / "kafka") as kafka, log.open("wb") as out:
        create(declared(topology()), kafka.bootstrap, 1)
        address = f"127.0.0.1:{free_ports(1)[0]}"
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", "worker", "--topology", str(file)),
                *("--brokers", kafka.bootstrap, "--state-dir", str(folder / "state")),
                *("--http", address),
            ],
            stdout=subprocess.DEVNULL,
            stderr=out,
            env=without_security(os.environ),
        )
        try:
            here = Ground(kafka.bootstrap, address, process, log)
            _wait_until_ready(here)
            yield here
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(here: Ground) -> None:
    """Both stages own their partition."""
    end_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end_s and here.process.poll() is None:
        if len({part["stage"] for part in here.explain()}) == 2:
            return
        time.sleep(ASK_EVERY_S)
    raise DemoFailed(f"the worker did not get ready; its log:\n{here.log.read_text()}")
