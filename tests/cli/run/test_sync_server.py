"""Examples: `inorder sync-server`: the arguments that it refuses, and how its process runs and
stops.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inorder.sync.client import SyncClient
from inorder.sync.keys import KeyRing
from inorder.sync.settings import SyncSettings
from tests.cli.invoking import inorder, text_file
from tests.command import Command
from tests.inorder.sync.key_file import key_table
from tests.waiting import wait_until

TIMEOUT_S = 30.0
SECRET = "0123456789abcdef" * 4
LISTENS = re.compile(r"sync server on 127\.0\.0\.1 port (\d+); receive timestamps are (.*)")


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_public_address_needs_keys(bind: str) -> None:
    said = f"--bind {bind} accepts other machines: give --keys FILE, or --auth none"
    inorder("sync-server", "--brokers", "none", "--bind", bind).refused(said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bind", "4123"), "--bind 4123: '4123' is not an address; write HOST:PORT"),
        (("--bind", "127.0.0.1:70000"), "is not an address"),
        (("--http", "nowhere"), "--http nowhere: 'nowhere' is not an address"),
        (
            ("--bind", "192.0.2.1:4123", "--auth", "none"),
            "cannot listen on 192.0.2.1:4123: Cannot assign requested address; give --bind another",
        ),
        (("--auth", "all"), "'all' is not 'none'"),
        (("--keys", "absent.keys"), "--keys absent.keys: No such file or directory"),
        (("--keys", "absent.keys", "--auth", "none"), "contradict each other"),
        (("--server", ""), "write a name of 1 to 64 printable characters"),
        (("--server", "x" * 65), "write a name of 1 to 64"),
        (("--rate", "0"), "--rate"),
        (("--topology", "absent.yaml"), "absent.yaml: No such file"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    inorder("sync-server", "--brokers", "none", *arguments).refused(message)


class Server(Command):
    """A process of `inorder sync-server`, with its log."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__("sync-server", folder, "sync-server", "--bind", "127.0.0.1:0", *arguments)

    @property
    def address(self) -> str:
        found = LISTENS.search(self.log)
        assert found, self.log
        return f"127.0.0.1:{found[1]}"

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def metrics(self) -> dict[str, float]:
        return {
            sample.name.removeprefix("inorder_sync_") + sample.labels.get("outcome", ""): (
                sample.value
            )
            for family in self.families()
            for sample in family.samples
        }


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Server]:
    server = Server(folder, *arguments)
    server.start()
    try:
        server.process.wait_until(lambda: LISTENS.search(server.log) is not None, TIMEOUT_S)
        yield server
    finally:
        server.process.kill()


def wait_rounds(client: SyncClient, count: int) -> None:
    wait_until(lambda: client.status().rounds >= count, f"{count} rounds")


def test_server_answers_and_stops(tmp_path: Path) -> None:
    """Samples are lines on standard output, health and counts are served over HTTP, and SIGTERM
    exits with 0.
    """
    path = text_file(tmp_path / "keys", key_table(1, SECRET, "s1"))
    path.chmod(0o600)
    options = ("--brokers", "none", "--keys", str(path), "--server", "here")
    with running(tmp_path, *options) as server:
        with SyncClient("s1", SyncSettings(server.address, keys=KeyRing.read(path))) as client:
            wait_rounds(client, 10)
        with SyncClient("s1", SyncSettings(server.address)) as stranger:
            wait_until(lambda: bool(stranger.status().failures), "no answer")
        assert server.ask("live") == (200, {"ok": True, "reasons": []})
        assert server.ask("ready") == (200, {"ok": True, "reasons": []})
        status, explained = server.ask("explain")
        assert status == 200
        assert explained["address"] == server.address
        metrics = server.metrics()
        assert metrics["packets_totalanswered"] == metrics["packets_totaltaken"] == 10
        assert metrics["packets_totalkey_unknown"] >= 1
        assert metrics["samples_totaldelivered"] == 10
        assert metrics["samples_waiting"] == 0
        assert server.process.stop() == 0
        assert len(server.lines) == 10
        for line in server.lines:
            assert list(line) == ["clock", "t1", "t2", "t3", "t4", "server", "segment", "mono"]
            assert (line["clock"], line["server"], line["segment"]) == ("s1", "here", 0)
            assert line["t1"] < line["t4"]
            assert line["t2"] < line["t3"]
        assert "can be read by others" not in server.log
        assert "stopped; 10 samples delivered, 0 lost" in server.log
        assert "Traceback" not in server.log


def test_readable_key_file_is_reported(tmp_path: Path) -> None:
    path = text_file(tmp_path / "keys", key_table(1, SECRET))
    path.chmod(0o644)
    with running(tmp_path, "--brokers", "none", "--keys", str(path)) as server:
        assert f"chmod 600 {path}" in server.log
        server.process.stop()


def test_ctrl_c_stops_the_server(tmp_path: Path) -> None:
    with running(tmp_path, "--brokers", "none") as server:
        server.ends_by(signal.SIGINT)
        assert "everybody may report for every source" in server.log
