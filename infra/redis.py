"""Starts a private redis-server on a free loopback port, for tests and benchmarks.

The machine's own Redis is not touched. With `durable`, the server appends every write to its file
before it answers. So the state survives `kill` and `restart`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import redis

from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import Process
from cli.local.server import Server

START_TIMEOUT_S = 20.0
MAX_MEMORY = "256mb"


def missing() -> str | None:
    """Return why no Redis can be started here; None if one can."""
    if shutil.which("redis-server") is None:
        return "redis-server not found; run infra/ensure.sh or install it"
    return None


class RedisServer(Server):
    """A private server; `folder` has its log and data.

    With `cluster` it is a cluster node that serves no slot yet. `tls` is a folder with `ca.crt`,
    `server.crt`, `server.key`, `client.crt` and `client.key`. The server then accepts only TLS
    connections, and only clients whose certificate the authority has signed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        cluster: bool = False,
        tls: Path | None = None,
        password: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.bus_port = free_ports(2)
        settings = {
            "bind": LOOPBACK,
            **({"port": str(self.port)} if tls is None else _tls_options(self.port, tls)),
            **({"requirepass": password} if password else {}),
            "dir": str(folder),
            "save": "",
            "appendonly": "yes" if durable else "no",
            "appendfsync": "always",
            **({"cluster-enabled": "yes", "cluster-port": str(self.bus_port)} if cluster else {}),
            "maxmemory": MAX_MEMORY,
            "maxmemory-policy": "noeviction",  # State is never dropped silently.
        }
        self._tls, self._password = tls, password
        options = (word for name, value in settings.items() for word in (f"--{name}", value))
        self.process = Process("redis", ["redis-server", *options], folder)

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        self.process.start()
        self.process.wait_until(self._answers, timeout_s)

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def restart(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Restart on the same port; with `durable` the data is kept."""
        self.process.stop()
        self.start(timeout_s)

    def _take_down(self) -> None:
        self.kill()

    def _answers(self) -> bool:
        try:
            with redis.Redis(**self._settings(), socket_timeout=1.0) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {"host": LOOPBACK, "port": self.port, "password": self._password}
        if self._tls is not None:
            files = {"ca_certs": "ca.crt", "certfile": "client.crt", "keyfile": "client.key"}
            found |= {f"ssl_{name}": str(self._tls / file) for name, file in files.items()}
            found["ssl"] = True
        return found


def _tls_options(port: int, tls: Path) -> dict[str, str]:
    return {
        "port": "0",
        "tls-port": str(port),
        "tls-ca-cert-file": str(tls / "ca.crt"),
        "tls-cert-file": str(tls / "server.crt"),
        "tls-key-file": str(tls / "server.key"),
        "tls-auth-clients": "yes",
    }
