"""What a soak kills in turn, the time sync of its sources, and the alerts that fire meanwhile."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.backlog import Setting
from benchmarks.race import ROOT
from benchmarks.tables import Page
from benchmarks.worker import Worker
from cli.local.ports import LOOPBACK, free_ports
from cli.local.process import Process
from infra.dashboard import FILE as DASHBOARD
from infra.prometheus import Prometheus
from inorder.sync.client import SyncClient
from inorder.sync.settings import SyncSettings

KILL_EVERY_S: Final = 60.0
SILENT_S: Final = 10.0
"""A source that has sent nothing for so long has left."""
LOOK_S: Final = 1.0
RULES: Final = DASHBOARD.with_name("alerts.yaml")
EXPECTED: Final = frozenset({"InorderSourceSilent", "InorderRestless"})
"""Sources of the workload leave without a bye, and a kill a minute is a rebalance a minute."""


class SyncServer:
    """A process of `inorder sync-server`, which stays at its address."""

    def __init__(self, setting: Setting, bootstrap: str, folder: Path) -> None:
        port, http_port = free_ports(2)
        self.address = f"{LOOPBACK}:{port}"
        self.http = f"{LOOPBACK}:{http_port}"
        command = [
            *(sys.executable, "-m", "inorder_engine", "sync-server", "--bind", self.address),
            *("--topology", str(setting.path), "--brokers", bootstrap, "--http", self.http),
        ]
        self._process = Process("sync", command, folder, {"PYTHONPATH": str(ROOT)})
        self.start = self._process.start
        self.stop = self._process.stop

    def kill(self) -> None:
        """SIGKILL it, and start it again."""
        self._process.kill()
        self._process.start()


class Clocks:
    """Measures the clock of each source that is sending, against the server at `address`."""

    def __init__(self, address: str) -> None:
        self._settings = SyncSettings(address)
        self._clients: dict[str, SyncClient] = {}
        self._seen_s: dict[str, float] = {}
        self._looked_s = 0.0

    def note(self, source: str) -> None:
        now_s = time.monotonic()
        self._seen_s[source] = now_s
        if source not in self._clients:
            client = self._clients[source] = SyncClient(source, self._settings, clock=time.time_ns)
            client.start()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            for name in [n for n, seen_s in self._seen_s.items() if now_s - seen_s > SILENT_S]:
                self._leave(name)

    def close(self) -> None:
        for name in [*self._clients]:
            self._leave(name)

    def _leave(self, name: str) -> None:
        del self._seen_s[name]
        self._clients.pop(name).close(0.0)


class Kills:
    """Kills in turn, one each `KILL_EVERY_S`, beside a Prometheus with the rules that ship."""

    def __init__(
        self, worker: Worker, broker: Any, sync_server: SyncServer, folder: Path, page: Page
    ) -> None:
        self._worker, self._broker, self._sync_server = worker, broker, sync_server
        self._page = page
        self._done = 0
        self._fired_s: dict[str, float] = {}
        targets = [worker.address, sync_server.http]
        self._prometheus = Prometheus(folder / "prometheus", targets, [RULES])
        self._prometheus.start()

    def stop(self) -> None:
        self._prometheus.stop()

    def look(self, at_s: float) -> None:
        with suppress(OSError):
            for one in self._prometheus.ask('ALERTS{alertstate="firing"}'):
                self._fired_s.setdefault(one["metric"]["alertname"], at_s)
        if at_s < (self._done + 1) * KILL_EVERY_S:
            return
        turns = (self._stage, self._whole, self._one_broker, self._one_sync_server)
        name = turns[self._done % len(turns)]()
        self._done += 1
        self._page.say(f"{time.strftime('%H:%M:%S')} minute {at_s / 60:.1f}: {name} was killed")

    def faults(self) -> list[str]:
        """Which alerts fired that were not expected, in sentences."""
        return [
            f"{name} fired first at minute {at_s / 60:.1f}"
            for name, at_s in self._fired_s.items()
            if name not in EXPECTED
        ]

    def _stage(self) -> str:
        self._worker.kill_stage(self._done // 4)
        return "a stage"

    def _whole(self) -> str:
        self._worker.kill()
        self._worker.start()
        return "the worker"

    def _one_broker(self) -> str:
        self._broker.kill()
        self._broker.restart()
        return "the broker"

    def _one_sync_server(self) -> str:
        self._sync_server.kill()
        return "the sync server"
