"""The page served on loopback, of views that somebody makes up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from prometheus_client import CollectorRegistry

from agents.watch.location import verdict
from agents.watch.page.serving import Page
from agents.watch.page.view import View
from agents.watch.port.http import Health, HttpServer
from agents.watch.port.question import Question
from tests.agents.watch.page.many import located_in


async def located(asked: Question) -> Any:
    where = {"where": "not_come", "epoch": 0, "highest": 3}
    return verdict(asked, [located_in(where)])


def server(look: Callable[[], Awaitable[View]], token: str | None = None) -> HttpServer:
    fine = Health(ok=True)
    return HttpServer(
        registry=CollectorRegistry(),
        live=lambda: fine,
        ready=lambda: fine,
        explain=dict,
        page=Page(look, lambda: "streams: {}\n"),
        token=token,
        event=located,
    )


@contextmanager
def up(look: Callable[[], Awaitable[View]], token: str | None = None) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    told: list[str] = []
    known, ended = Event(), Event()

    async def serve() -> None:
        serves = server(look, token)
        told.append("{}:{}".format(*await serves.start()))
        known.set()
        await asyncio.to_thread(ended.wait)
        await serves.stop()

    thread = Thread(target=lambda: asyncio.run(serve()), name="page", daemon=True)
    thread.start()
    assert known.wait(10)
    try:
        yield told[0]
    finally:
        ended.set()
        thread.join(10)
