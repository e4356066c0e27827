"""Who has the token is let in; who has not is told only whether the worker lives.

It is sent as `Authorization: Bearer TOKEN`; a browser opens `/?token=TOKEN` once and keeps it as a
cookie, for this server alone. `/live` and `/ready` stay open, since an orchestrator asks them;
what they say names topics and stages, no source.

Proved by: tests/agents/watch/test_token.py
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from agents.watch.token import BEARER

OPEN: Final = frozenset({"/live", "/ready"})
COOKIE: Final = "inorder_token"
QUERY: Final = "token"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def guard(token: str) -> Middleware:
    """Lets in who has the token; for `web.Application(middlewares=…)`."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN:
            return await handler(request)
        if _is_it(token, request.query.get(QUERY)):
            found = web.HTTPSeeOther(request.path)
            found.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            raise found
        sent = request.headers.get("Authorization", "")
        bearer = sent.removeprefix(BEARER) if sent.startswith(BEARER) else None
        if _is_it(token, bearer) or _is_it(token, request.cookies.get(COOKIE)):
            return await handler(request)
        return web.Response(
            status=401,
            text=f"the token is missing or wrong: send `Authorization: {BEARER}…`, or open"
            f" /?{QUERY}=… once\n",
            headers={"WWW-Authenticate": BEARER.strip()},
        )

    return guarded


def _is_it(token: str, told: str | None) -> bool:
    if told is None:
        return False
    # bytes that are no UTF-8 come as lone surrogates, which `strict` cannot encode
    return hmac.compare_digest(token.encode(), told.encode(errors="surrogatepass"))
