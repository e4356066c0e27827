"""Limits the number of a port's open connections, and the time for which they may be idle.

Anybody can open a connection without a token, and each takes a descriptor of the process. At most
`MOST` are open. A further one closes the oldest that waits for its peer, or else the oldest of all.
A connection is closed if its peer has not sent a complete request head after `HEAD_S`, or is silent
for `KEPT_S` after an answer. So a client that sends its request gets its answer, however many
others wait. Closed connections are counted, and logged at most once in `LOG_S`.

If more than `ACCEPTED` connections arrive at the same time, the rest waits in the kernel.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

MOST: Final = 64
HEAD_S: Final = 10.0
KEPT_S: Final = 60.0
ACCEPTED: Final = 16
"""Maximum number of connections accepted in one turn of the loop; they may briefly exceed `MOST`.
"""

BACKLOG: Final = 128
LOG_S: Final = 60.0

logger = logging.getLogger("inorder.http")


class Connections:
    """The connections of one server; `middleware` must be its application's first middleware."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """Connections that wait for a request, the oldest first."""
        self._asking: dict[asyncio.Transport, None] = {}
        self._closed = 0
        self._logged_s = float("-inf")

    def watch(self, server: web.Server) -> None:
        """Observe each connection that the server opens and loses."""
        made, lost = server.connection_made, server.connection_lost

        def connection_made(handler: Any, transport: asyncio.Transport) -> None:
            self._note_opened(transport)
            made(handler, transport)

        def connection_lost(handler: Any, exc: BaseException | None = None) -> None:
            self._note_lost(handler.transport)
            lost(handler, exc)

        server.connection_made = connection_made  # type: ignore[method-assign]
        server.connection_lost = connection_lost  # type: ignore[method-assign]

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Suspend the idle limit of the connection until its answer is complete."""
        peer = request.transport
        if peer is None or peer not in self._waiting:
            return await handler(request)
        self._waiting.pop(peer).cancel()
        self._asking[peer] = None
        try:
            return await handler(request)
        finally:
            if peer in self._asking:
                del self._asking[peer]
                self._schedule_close(peer, KEPT_S)

    def _note_opened(self, peer: asyncio.Transport) -> None:
        if len(self._waiting) + len(self._asking) >= MOST:
            self._close(next(iter(self._waiting or self._asking)))
        self._schedule_close(peer, HEAD_S)

    def _note_lost(self, peer: asyncio.Transport) -> None:
        self._asking.pop(peer, None)
        timer = self._waiting.pop(peer, None)
        if timer is not None:
            timer.cancel()

    def _schedule_close(self, peer: asyncio.Transport, most_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[peer] = loop.call_later(most_s, self._close, peer)

    def _close(self, peer: asyncio.Transport) -> None:
        self._note_lost(peer)
        peer.abort()
        self._closed += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s >= LOG_S:
            self._logged_s = now_s
            logger.warning(
                "closed connections above the limit (%d at a time) or without a request in time:"
                " %d in total",
                *(MOST, self._closed),
            )
