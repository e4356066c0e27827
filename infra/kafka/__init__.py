"""A real Kafka for tests, benchmarks and chaos.

`KafkaBroker` runs from Maven jars and needs Java 17; `ContainerBroker` is the same
for a machine that has a Docker engine and no Java. `new_broker` takes what is
there, `missing` says what is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.kafka import container, jars
from infra.kafka.broker import KafkaBroker
from infra.kafka.client import create_topic
from infra.kafka.container import ContainerBroker

__all__ = ["ContainerBroker", "KafkaBroker", "create_topic", "missing", "new_broker"]


def missing() -> str | None:
    """Why no broker can be started here; None if one can."""
    no_jars = jars.missing()
    no_engine = no_jars and container.missing()
    return no_engine and f"no Kafka broker: {no_jars}; {no_engine}"


def new_broker(
    folder: Path, *, nodes: int = 1, overrides: Mapping[str, str] | None = None
) -> KafkaBroker | ContainerBroker:
    """A broker, not started yet; use it as a context manager."""
    if jars.missing() is None or nodes > 1:
        return KafkaBroker(folder, nodes=nodes, overrides=overrides)
    return ContainerBroker(overrides=overrides)
