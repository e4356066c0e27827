"""Starts a real Kafka for tests, benchmarks and chaos tests.

`new_broker` returns a `KafkaBroker`, which runs from Maven jars and needs Java 17
(`cli.local.kafka`). If it cannot run here and one node is enough, it returns a `ContainerBroker`,
which needs a Docker engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cli.local.kafka import KafkaBroker, jars
from infra.kafka import container
from infra.kafka.container import ContainerBroker

__all__ = ["ContainerBroker", "missing", "new_broker"]


def missing() -> str | None:
    """Return why no broker can be started here; None if one can."""
    no_jars = jars.missing()
    no_engine = no_jars and container.missing()
    return no_engine and f"no Kafka broker: {no_jars}; {no_engine}"


def new_broker(
    folder: Path, *, nodes: int = 1, overrides: Mapping[str, str] | None = None
) -> KafkaBroker | ContainerBroker:
    """Return a broker that is not started yet; use it as a context manager."""
    if jars.missing() is None or nodes > 1:
        return KafkaBroker(folder, nodes=nodes, overrides=overrides)
    return ContainerBroker(overrides=overrides)
