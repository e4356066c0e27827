"""Runs a private Docker engine with its own socket, data and bridge; containers have no way out.

Docker's proxy program publishes ports, so neither rules of a firewall nor forwarding are needed. A
build that fetches packages uses the host's network. Only root can run the engine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from cli.local.lock import lock_file
from cli.local.poll import wait_until
from cli.local.process import Process, is_alive
from cli.local.server import Server
from infra.containers import machine, programs
from infra.containers.command import TIMEOUT_S, CommandFailed, run

BRIDGE: Final = "inorder0"
BRIDGE_ADDRESS: Final = "10.201.0.1/24"
NETWORKS: Final = "base=10.202.0.0/16,size=24"
NAMESPACE: Final = "inorder"
LOCK: Final = Path("/run/inorder-containers.lock")
"""One engine at a time: all have the same bridge and ports. Only root writes to this folder."""

NOTE: Final = LOCK.with_suffix(".json")
"""The process id, the data and the run folder of the engine, for the next run if this is killed."""

KEPT: Final = "168h"
"""The time for which the cache keeps layers that no image with a name has."""

LOCK_TIMEOUT_S: Final = 1800.0
"""Much less than the limit of the first test, which also makes the images."""

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0


def missing() -> str | None:
    """Return why no engine can be run here; None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a private Docker engine needs Linux and root"
    absent = programs.missing()
    return absent and f"no Docker engine: {absent}"


class Engine(Server):
    """A private engine; its images stay in the project's cache.

    Attributes:
        env: The environment in which `docker`, and programs that use it, reach this engine.
        before: The machine's settings before the start.
    """

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._data = programs.folder() / "engine"
        self._process: Process | None = None
        self.env: dict[str, str] = {}

    def start(self) -> None:
        found = programs.environment()
        self._opened.enter_context(lock_file(LOCK, LOCK_TIMEOUT_S))
        _end_killed_run()
        self._opened.callback(NOTE.unlink, missing_ok=True)
        run_folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        self._opened.callback(machine.unmount, run_folder)
        self._opened.callback(machine.unmount, self._data)
        self._engine_env = {**os.environ, **found.engine}
        self._remove_bridge()
        self.before = self.read_machine()
        self._opened.callback(machine.remove_leftovers, self.before)
        self._opened.callback(self._remove_bridge)
        self._make_bridge()
        # The machine's file of settings would contradict the options.
        (run_folder / "daemon.json").write_text("{}")
        socket = f"unix://{run_folder / 'docker.sock'}"
        # BuildKit would not take layers from the cache that were built in the host's network.
        self.env = {**os.environ, **found.client, "DOCKER_HOST": socket, "DOCKER_BUILDKIT": "0"}
        options = [
            *("--config-file", str(run_folder / "daemon.json")),
            *("--host", socket, "--data-root", str(self._data)),
            *("--exec-root", str(run_folder / "exec"), "--pidfile", str(run_folder / "pid")),
            *("--bridge", BRIDGE, "--default-address-pool", NETWORKS),
            *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", machine.GROUP),
            # The engine uses the machine's containerd if there is one, beside the machine's engine.
            *("--containerd-namespace", NAMESPACE),
            *("--containerd-plugins-namespace", f"{NAMESPACE}-plugins"),
        ]
        self._process = Process("dockerd", ["dockerd", *options], programs.folder(), found.engine)
        self._process.start()
        note = {"pid": self._process.pid, "data": str(self._data), "run": str(run_folder)}
        NOTE.write_text(json.dumps(note), encoding="utf-8")
        self._process.wait_until(self._answers, START_TIMEOUT_S)
        self._remove_all()  # This has work where a run was killed.
        self.docker("image", "prune", "--force", "--filter", f"until={KEPT}")

    def stop(self) -> None:
        """Stop the engine and its containers, and remove networks and volumes but no image."""
        with self._opened:
            if self._process is not None and self._process.is_alive():
                with suppress(CommandFailed, subprocess.TimeoutExpired):
                    self._remove_all()
                self._process.stop(STOP_TIMEOUT_S)
            self._process = None

    def docker(self, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a command of Docker and return its output; raise CommandFailed if it fails."""
        return run("docker", *words, env=self.env, timeout_s=timeout_s)

    def read_machine(self) -> machine.Settings:
        """Return the machine's settings as they are now."""
        return machine.read(self._engine_env)

    def _answers(self) -> bool:
        try:
            return bool(self.docker("version", timeout_s=10.0))
        except (CommandFailed, subprocess.TimeoutExpired):
            return False

    def _remove_all(self) -> None:
        """Remove containers, networks and volumes."""
        if containers := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", "--volumes", *containers)
        self.docker("network", "prune", "--force")
        if volumes := self.docker("volume", "ls", "--quiet").split():
            self.docker("volume", "rm", "--force", *volumes)

    def _make_bridge(self) -> None:
        for words in (
            ("link", "add", BRIDGE, "type", "bridge"),
            ("address", "add", BRIDGE_ADDRESS, "dev", BRIDGE),
            ("link", "set", BRIDGE, "up"),
        ):
            run("ip", *words, env=self._engine_env)

    def _remove_bridge(self) -> None:
        if any(f" {BRIDGE}:" in line for line in machine.run_ip(self._engine_env)):
            run("ip", "link", "delete", BRIDGE, env=self._engine_env)


def _end_killed_run() -> None:
    """End the engine of a killed run, whichever clone's it is, and remove its run folder.

    The caller has the lock, so the run of an engine that is noted has ended.
    """
    try:
        note = json.loads(NOTE.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # A run that was killed meanwhile leaves half a note.
        note = None
    if note is not None:
        pid, data, run_folder = note["pid"], Path(note["data"]), Path(note["run"])
        if _runs_on(pid, data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_alive(pid), STOP_TIMEOUT_S, f"the end of process {pid}")
        for folder in (run_folder, data):
            machine.unmount(folder)
        shutil.rmtree(run_folder, ignore_errors=True)
    NOTE.unlink(missing_ok=True)
    machine.clear_groups()


def _runs_on(pid: int, data: Path) -> bool:
    """Return whether the process is an engine on this data, and not another one with its id."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False
