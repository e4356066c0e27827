"""Starts a real Kafka for tests, benchmarks and chaos tests.

`new_broker` returns a `KafkaBroker`, which runs from Maven jars and needs Java 17
(`cli.local.kafka`). If it cannot run here and one node is enough, it returns a `ContainerBroker`,
which needs a Docker engine. With `INORDER_BROKER=container` it does so wherever one node is enough.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cli.local.kafka import KafkaBroker, jars
from infra.kafka import container
from infra.kafka.container import ContainerBroker

__all__ = ["ContainerBroker", "missing", "new_broker"]


def missing() -> str | None:
    """Return why no broker can be started here; None if one can."""
    if _prefers_container():
        return container.missing()
    no_jars = jars.missing()
    no_engine = no_jars and container.missing()
    return no_engine and f"no Kafka broker: {no_jars}; {no_engine}"


def new_broker(
    folder: Path, *, nodes: int = 1, overrides: Mapping[str, str] | None = None
) -> KafkaBroker | ContainerBroker:
    """Return a broker that is not started yet; use it as a context manager."""
    if nodes > 1 or not (_prefers_container() or jars.missing()):
        return KafkaBroker(folder, nodes=nodes, overrides=overrides)
    return ContainerBroker(overrides=overrides)


def _prefers_container() -> bool:
    return os.environ.get("INORDER_BROKER") == "container"
