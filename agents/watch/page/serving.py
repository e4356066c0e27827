"""Serves a worker's status page: three files without external resources, and a stream of views.

| path        | answer                                                          |
|-------------|-----------------------------------------------------------------|
| `/`         | the page; `/page.css` and `/page.js` belong to it               |
| `/events`   | server-sent events, a view (`agents.watch.page.view`) a second  |
| `/settings` | the topology file with every key that may be set, as text       |

All viewers share one view, and a slow connection delays only its own page. The browser connects
again by itself, and a proxy passes the events on like any answer. The stages are asked once a
second while somebody views the page, and never otherwise. At most `MAX_VIEWERS` pages are open at
once; another one gets 503. A header forbids the page to load anything from elsewhere. The dashboard
of Grafana shows all workers together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from agents.watch.page.view import View

EVERY_S: Final = 1.0
MAX_VIEWERS: Final = 32
FOLDER: Final = Path(__file__).parent
FILES: Final = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


Look = Callable[[], Awaitable[View]]


class Page:
    """A worker's status page; `look` returns the view, `settings` the whole topology file."""

    def __init__(self, look: Look, settings: Callable[[], str] = str) -> None:
        self._look = look
        self._asking = asyncio.Lock()
        self._seen, self._seen_s = b"", float("-inf")
        self._settings = settings
        self._viewers = 0

    def routes(self) -> list[web.RouteDef]:
        files = [web.get(path, _serve_file(*file)) for path, file in FILES.items()]
        return [*files, web.get("/events", self._events), web.get("/settings", self._whole)]

    async def _whole(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._settings)
        return web.Response(text=text, headers=HEADERS)

    async def _encode_view(self) -> bytes:
        """Return the view as JSON; all requests within half a second share it.

        Only one view is computed at a time.
        """
        async with self._asking:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._seen_s >= EVERY_S / 2:
                self._seen = orjson.dumps(await self._look(), option=orjson.OPT_NON_STR_KEYS)
                self._seen_s = now_s
            return self._seen

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._viewers >= MAX_VIEWERS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_VIEWERS} pages are open already; close one\n"
            )
        response = web.StreamResponse(headers={"Cache-Control": "no-store"})
        response.content_type = "text/event-stream"
        self._viewers += 1
        try:
            await response.prepare(request)
            while True:
                await response.write(b"data: " + await self._encode_view() + b"\n\n")
                await asyncio.sleep(EVERY_S)
        except ConnectionError:
            return response  # The page was closed.
        finally:
            self._viewers -= 1


def _serve_file(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = (FOLDER / name).read_bytes()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=HEADERS)

    return answer
