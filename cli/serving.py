"""Provides the parts that serving commands share: an address, and a check that their loop turns."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from agents.watch.port.http import Health, HttpServer, parse_address
from cli.http_token import read_http_token
from cli.topology_file import refusing

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

http_option = click.option(
    "--http",
    envvar="INORDER_HTTP",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    help="/live, /ready, /metrics, /explain. Default: a free port.",
)


def parse_listen_address(option: str, text: str) -> tuple[str, int]:
    """Parse HOST:PORT; raise `Refused`, which names the option, if the text is not valid."""
    with refusing(ValueError, at=f"{option} {text}: "):
        return parse_address(text)


class Serving(Protocol):
    """A service that runs until `stop` is called, while HTTP requests ask for its state.

    `turned_s` is the monotonic time of its loop's last turn, in seconds.
    """

    @property
    def turned_s(self) -> float: ...

    def stop(self) -> None: ...


@asynccontextmanager
async def serve_http(
    serving: Serving,
    at: tuple[str, int],
    collector: Collector,
    trouble: Callable[[], str | None],
    explained: Callable[[], dict[str, Any]],
    stuck_s: float,
) -> AsyncIterator[str]:
    """Serve HTTP during the body, stop the service on a signal, and yield the server's address.

    A loop that does not turn for `stuck_s` counts as stuck. `trouble` returns why the service is
    not ready, or None.
    """
    from prometheus_client import CollectorRegistry

    def find_reasons() -> tuple[str, ...]:
        silent_s = time.monotonic() - serving.turned_s
        return () if silent_s <= stuck_s else (f"the loop has not turned for {silent_s:.0f} s",)

    def make_health(*more: str | None) -> Health:
        found = (*find_reasons(), *(each for each in more if each))
        return Health(ok=not found, reasons=found)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.stop)
    registry = CollectorRegistry()
    registry.register(collector)
    http = HttpServer(
        registry=registry,
        live=make_health,
        ready=lambda: make_health(trouble()),
        explain=explained,
        host=at[0],
        port=at[1],
        token=read_http_token(),
    )
    where = "http://{}:{}/ready /live /metrics /explain".format(*await http.start())
    try:
        yield where
    finally:
        await http.stop()
