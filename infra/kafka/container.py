"""Runs a one-node Kafka in a container, for machines with a Docker engine and no Java.

Its settings, and its methods `kill`, `pause`, `resume`, `restart` and `create_topic`, are those of
`KafkaBroker`. The data is in the container's file system, and is lost with the container. Ryuk,
which removes what a killed run leaves, runs beside it only if its image can be had.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from functools import cache, partial
from typing import Any

from cli.local.kafka import settings
from cli.local.kafka.client import create_topic, is_answering
from cli.local.kafka.jars import VERSION
from cli.local.poll import wait_until
from cli.local.ports import LOOPBACK, free_ports
from cli.local.server import Server

IMAGE = f"apache/kafka:{VERSION}"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10


@cache
def missing() -> str | None:
    """Return why no container can be started here; None if one can."""
    if shutil.which("docker") is None:
        return "no Docker engine: docker not found"
    import docker
    from docker.errors import DockerException

    try:
        docker.from_env(timeout=5).ping()
    except DockerException as error:
        return f"no Docker engine: {error}"
    return None


@cache
def has_image(name: str) -> bool:
    """Return whether the engine has the image, or can fetch it."""
    import docker
    from docker.errors import DockerException, ImageNotFound

    with closing(docker.from_env()) as engine:
        try:
            engine.images.get(name)
        except ImageNotFound:
            try:
                engine.images.pull(*name.rsplit(":", 1))
            except (DockerException, OSError):  # The engine may wait longer than its client.
                return False
    return True


class ContainerBroker(Server):
    def __init__(self, *, overrides: Mapping[str, str] | None = None) -> None:
        self._port, controller_port = free_ports(2)
        own = settings.settings_of_node(0, {settings.PLAIN: [self._port]}, [controller_port])
        # In its own network the broker listens on all addresses; clients use the loopback address.
        own["listeners"] = f"PLAINTEXT://:{self._port},CONTROLLER://:{controller_port}"
        self._settings = settings.shared_settings(1) | own | dict(overrides or {})
        self._container: Any = None

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        if self._container is None:
            self._container = self._make()
            self._container.start()
        else:
            self._engine.start()
        self._wait(timeout_s)

    def stop(self) -> None:
        self._engine.stop(timeout=STOP_TIMEOUT_S)

    def kill(self, node: int = 0) -> None:
        self._container_of(node).kill()

    def pause(self, node: int = 0) -> None:
        self._container_of(node).pause()

    def resume(self, node: int = 0) -> None:
        self._container_of(node).unpause()

    def restart(self, node: int = 0, timeout_s: float = START_TIMEOUT_S) -> None:
        self._container_of(node).restart(timeout=STOP_TIMEOUT_S)
        self._wait(timeout_s)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        create_topic(self.bootstrap, name, partitions, config=config)

    def _take_down(self) -> None:
        self._remove()

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def _engine(self) -> Any:
        if self._container is None:
            raise RuntimeError("the broker's container has not been started")
        return self._container.get_wrapped_container()

    def _make(self) -> Any:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        if not testcontainers_config.ryuk_disabled:
            testcontainers_config.ryuk_disabled = not has_image(testcontainers_config.ryuk_image)
        container: Any = DockerContainer(IMAGE)
        # It has no password, and with_bind_ports would publish it on all addresses.
        container.ports[str(self._port)] = (LOOPBACK, self._port)
        for name, value in settings.as_environment(self._settings).items():
            container = container.with_env(name, value)
        return container

    def _container_of(self, node: int) -> Any:
        if node != 0:
            raise ValueError(f"node={node}: a container has one node, number 0")
        return self._engine

    def _wait(self, timeout_s: float) -> None:
        wait_until(partial(is_answering, self.bootstrap, 1), timeout_s, f"{IMAGE} to answer")

    def _remove(self) -> None:
        if self._container is not None:
            self._container.stop()
            self._container = None
