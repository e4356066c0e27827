"""What the commands that serve share: where they listen, and whether they turn."""

from __future__ import annotations

import time

import click

from agents.watch.port.http import Health, address
from cli.topology_file import Refused

http_option = click.option(
    "--http",
    envvar="INORDER_HTTP",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    help="/live, /ready, /metrics, /explain. Default: a free port.",
)


def listening(option: str, text: str) -> tuple[str, int]:
    """Host and port; `Refused` names the option."""
    try:
        return address(text)
    except ValueError as error:
        raise Refused(f"{option} {text}: {error}") from error


def turning(turned_s: float, stuck_s: float) -> Health:
    """For `/live`: a loop that made its last turn at `turned_s` (monotonic) hangs after
    `stuck_s`."""
    silent_s = time.monotonic() - turned_s
    if silent_s <= stuck_s:
        return Health(ok=True)
    return Health(ok=False, reasons=(f"no turn for {silent_s:.0f} s",))
