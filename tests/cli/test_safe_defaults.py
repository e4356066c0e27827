"""Laws: what nobody has asked for is not open to others.

Who wants a port to be reached from elsewhere has to write it: `infra/compose.yaml` is held to the
same by tests/infra/test_compose.py.
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
"""Options by which a command is told where to listen."""


def test_every_command_listens_on_loopback_unless_told() -> None:
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


def test_a_web_server_listens_on_loopback_unless_told() -> None:
    assert inspect.signature(HttpServer).parameters["host"].default == LOOPBACK


def test_what_the_topology_file_does_not_say_is_the_safe_way() -> None:
    """The Redis is this machine's, functions are none; no
    signature is asked for, which docs/operate/secure.md says loudly."""
    topology = parse("streams: {default: {}}")
    assert not topology.functions
    assert is_loopback(re.split("[/:]+", topology.redis)[1])
    assert topology.delivery == "exactly_once"
