"""Starts a private PostgreSQL on a free loopback port, for tests.

Its programs come from Debian's packages (`/usr/lib/postgresql/<version>/bin`), or else from `PATH`.
The machine's own server is not touched. PostgreSQL refuses to run as root, so for root it runs as
SERVER_USER. That user cannot read the temporary folders of root's tests. So the cluster has a
separate folder, which `stop` removes. The server ends with the process that started it.

Committed data survives `kill` and `start`, but not a crash of the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import psycopg

from cli.local.poll import wait_until
from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import NotReady, Process, find_descendants, is_alive
from cli.local.server import Server

SERVER_USER: Final = "postgres"
"""The user that Debian's package creates; any user but root would do."""

DEBIAN: Final = Path("/usr/lib/postgresql")
INIT_TIMEOUT_S: Final = 60.0
START_TIMEOUT_S: Final = 30.0
END_TIMEOUT_S: Final = 30.0
RESTART_PAUSE_S: Final = 0.2
SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "20",
    "shared_buffers": "32MB",
    "fsync": "off",
}


def missing() -> str | None:
    """Return why no PostgreSQL can be started here; None if one can."""
    if _program("initdb") is None or _program("postgres") is None:
        return "PostgreSQL's initdb and postgres not found; run infra/ensure.sh or install it"
    if shutil.which("setpriv") is None:
        return "setpriv not found; install util-linux"
    if os.geteuid() == 0 and _server_user() is None:
        return f"PostgreSQL does not run as root, and there is no user {SERVER_USER}"
    return None


class PostgresServer(Server):
    """A private server; `folder` has its log, and every user of this machine is its superuser."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(1)[0]
        self._home: Path | None = None
        settings = {**SETTINGS, "port": str(self.port)}
        self._options = [
            word for name, value in settings.items() for word in ("-c", f"{name}={value}")
        ]
        self.process = Process("postgres", [], folder)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/postgres"

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the server; try again while child processes of a killed one are still running."""
        if self._home is None:
            self._home = _make_cluster()
            server = [str(_program("postgres")), "-D", str(self._home / "cluster")]
            self.process.command = [*_server_user_prefix(), *server, *self._options]
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.process.start()
            try:
                return self.process.wait_until(self._answers, deadline_s - time.monotonic())
            except NotReady:
                if self.process.is_alive() or time.monotonic() > deadline_s:
                    raise
                time.sleep(RESTART_PAUSE_S)

    def stop(self) -> None:
        """End the sessions of the server's clients, stop the server, and remove the cluster."""
        if self.process.is_alive():
            # On SIGTERM alone, the server would wait for its clients.
            os.kill(self.process.pid, signal.SIGINT)
        self.process.stop()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def kill(self) -> None:
        """Kill the server, and wait until the child processes that serve clients have ended."""
        sessions = find_descendants(self.process.pid) if self.process.is_alive() else []
        self.process.kill()
        wait_until(lambda: not any(map(is_alive, sessions)), END_TIMEOUT_S, "PostgreSQL's children")

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                return connection.execute("select 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


def _make_cluster() -> Path:
    """Return a new folder that contains a new cluster."""
    home = Path(tempfile.mkdtemp(prefix="inorder-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(home, SERVER_USER)
    made = subprocess.run(
        [
            *(*_server_user_prefix(), str(_program("initdb")), "--pgdata", str(home / "cluster")),
            *("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"),
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=INIT_TIMEOUT_S,
        check=False,
    )
    if made.returncode:
        shutil.rmtree(home, ignore_errors=True)
        raise NotReady(f"initdb failed: {made.stderr.strip()}")
    return home


def _server_user_prefix() -> list[str]:
    """Return a command prefix that sets the user, and ends the program with its parent."""
    command = ["setpriv", "--pdeathsig", "INT"]
    user = _server_user()
    if os.geteuid() == 0 and user is not None:
        command += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return command


def _server_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(SERVER_USER)
    except KeyError:
        return None


def _program(name: str) -> Path | None:
    """Return the path of Debian's newest version of a program, or of the one on `PATH`.

    Returns None if there is none.
    """
    versions = [path for path in DEBIAN.glob("*") if path.name.isdigit()]
    for version in sorted(versions, key=lambda path: int(path.name), reverse=True):
        if (version / "bin" / name).exists():
            return version / "bin" / name
    found = shutil.which(name)
    return None if found is None else Path(found)
