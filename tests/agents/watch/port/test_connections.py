"""Examples: half requests, too many of them, and what others get meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from agents.watch.port import connections
from agents.watch.port.http import Health, HttpServer

HALF = b"GET /live HTTP/1.1\r\nHost: w\r\nX-A: "
WHOLE = b"GET /live HTTP/1.1\r\nHost: w\r\n\r\n"
TIMEOUT_S = 10.0

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Ask = Callable[[bytes], Awaitable[Peer]]


def well() -> Health:
    return Health(ok=True)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Ask]:
    """Sends bytes on a connection of their own."""
    server = HttpServer(registry=CollectorRegistry(), live=well, ready=well, explain=dict)
    at = await server.start()
    writers = []

    async def ask(raw: bytes) -> Peer:
        reader, writer = await asyncio.open_connection(*at)
        writers.append(writer)
        writer.write(raw)
        return reader, writer

    try:
        yield ask
    finally:
        for writer in writers:
            writer.close()
        await server.stop()


async def first_line(peer: Peer) -> bytes:
    """Nothing where the server has closed it."""
    try:
        return await asyncio.wait_for(peer[0].readline(), TIMEOUT_S)
    except ConnectionError:
        return b""


async def test_who_asks_is_answered_however_many_send_half_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as ask:
        half = [await ask(HALF) for _ in range(300)]
        for _ in range(20):
            assert b"200" in await first_line(await ask(WHOLE))
            await ask(HALF)
        closed = [await first_line(peer) for peer in half[: 300 - connections.MOST]]
        assert set(closed) == {b""}
    assert len(caplog.messages) == 1
    assert "64 at a time" in caplog.messages[0]


async def test_a_request_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)

    async with serving() as ask:
        half, whole = await ask(HALF), await ask(WHOLE)
        assert b"200" in await first_line(whole)
        assert await first_line(half) == b""
        whole[1].write(WHOLE)
        while b"200" not in await first_line(whole):
            pass  # the rest of the first answer
