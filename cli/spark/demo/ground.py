"""The ground of the Spark demo: a real Kafka from Maven jars, and the real worker.

Spark's connector wants what the embedded broker has not: a protocol of its age, append time
and transactions it can read. Since Spark needs Java anyhow, the broker costs nothing more.

The topology is that of `inorder demo` but for one partition a topic: then the order of the
raw topic is the order of arrival over all sources, and disorder can be read off the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agents.kafka.declared import declared
from agents.kafka.topics import create
from cli.demo.stage import TOPOLOGY, Ground, worker_on
from cli.local.kafka import KafkaBroker
from topology.config import Topology, parse

ONE_PARTITION: Final = TOPOLOGY.replace("partitions: 4", "partitions: 1")
STAGES: Final = 2


def topology() -> Topology:
    return parse(ONE_PARTITION)


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Up and ready; worker and broker are ended with it, by their ids."""
    with KafkaBroker(folder / "kafka") as kafka:
        create(declared(topology()), kafka.bootstrap, 1)
        with worker_on(kafka.bootstrap, ONE_PARTITION, folder, places=STAGES) as here:
            yield here
