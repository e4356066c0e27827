"""Laws: nothing is open to other machines by default.

A port for other machines must be asked for; tests/infra/test_compose.py checks the same for
`infra/compose.yaml`.
"""

from __future__ import annotations

import inspect
import re

from agents.watch.port.http import HttpServer
from cli.local.ports import LOOPBACK
from producers.sync_server.server import is_loopback
from tests.cli.invoking import commands
from topology.config import parse

ADDRESS = re.compile(r"(?P<host>[^\s:/]+):\d+")
PLACES = {"--http", "--bind"}
"""Options that set the address on which a command listens."""


def test_commands_listen_on_loopback() -> None:
    found = {}
    for words, command in commands():
        for option in command.params:
            if PLACES & {*option.opts}:
                name = " ".join(words)
                default = option.default if isinstance(option.default, str) else None
                address = ADDRESS.fullmatch(default or f"{LOOPBACK}:0")
                assert address, (name, default)
                assert is_loopback(address["host"]), (name, default)
                found[name] = default
    assert {"worker", "sync-server", "sink redis"} <= found.keys()


def test_web_server_listens_on_loopback() -> None:
    assert inspect.signature(HttpServer).parameters["host"].default == LOOPBACK


def test_topology_defaults_are_safe() -> None:
    """Redis is local, no functions run, and delivery is exactly once."""
    topology = parse("streams: {default: {}}")
    assert not topology.functions
    assert is_loopback(re.split("[/:]+", topology.redis)[1])
    assert topology.delivery == "exactly_once"
