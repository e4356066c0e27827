"""A real Kafka for tests, benchmarks and chaos, from what the machine has.

`KafkaBroker` runs from Maven jars and needs Java 17 (`cli.local.kafka`); `ContainerBroker` is the
same for a machine that has a Docker engine and no Java. `new_broker` takes what is there,
`missing` names what is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cli.local.kafka import KafkaBroker, jars
from infra.kafka import container
from infra.kafka.container import ContainerBroker

__all__ = ["ContainerBroker", "missing", "new_broker"]


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
