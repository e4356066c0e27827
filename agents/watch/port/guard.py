"""Admits requests with the token; all others learn only whether the worker is live and ready.

The token is sent as `Authorization: Bearer TOKEN`. A browser opens `/?token=TOKEN` once and keeps a
cookie. Browsers show the cookies of a host to all its ports, so the cookie is not the token. It is
derived from the token and this port, opens this port alone, and has the port in its name. `/live`
and `/ready` stay open for orchestrators; their answers name topics and stages, but no source.

Without a token, a port on loopback answers requests to an address or to `localhost`. A foreign web
page may make its host name resolve to 127.0.0.1 after it is loaded (DNS rebinding). The browser
then sends that name in `Host`, and such requests are refused.
"""

from __future__ import annotations

import hmac
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from agents.watch.port.token import BEARER

OPEN: Final = frozenset({"/live", "/ready"})
QUERY: Final = "token"

OTHER_HOSTS: Final = ("//", "/\\")
"""Beginnings of a path that a browser would interpret as a host followed by a path."""

LOCALHOST: Final = "localhost"


def make_guard(token: str, port: int) -> Middleware:
    """Return the middleware that checks the token, for `web.Application(middlewares=…)`."""
    cookie = f"inorder_{port}"
    content = hmac.digest(token.encode(), cookie.encode(), "sha256").hex()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN:
            return await handler(request)
        if request.path.startswith(OTHER_HOSTS):
            raise web.HTTPNotFound
        if _is_token(token, request.query.get(QUERY)):
            found = web.HTTPSeeOther(request.path)
            found.set_cookie(cookie, content, httponly=True, samesite="Strict")
            raise found
        sent = request.headers.get("Authorization", "")
        bearer = sent.removeprefix(BEARER) if sent.startswith(BEARER) else None
        if _is_token(token, bearer) or _is_token(content, request.cookies.get(cookie)):
            return await handler(request)
        return web.Response(
            status=401,
            text=f"the token is missing or wrong: send `Authorization: {BEARER}…`, or open"
            f" /?{QUERY}=… once\n",
            headers={"WWW-Authenticate": BEARER.strip()},
        )

    return guard


def make_guards(host: str, port: int, token: str | None) -> list[Middleware]:
    """Return the middleware that checks the token, or `Host` on loopback without a token."""
    if token is not None:
        return [make_guard(token, port)]
    address = _parse_address(host)
    on_loopback = host == LOCALHOST or (address is not None and address.is_loopback)
    return [refuse_foreign_host] if on_loopback else []


@web.middleware
async def refuse_foreign_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Admit requests that name this machine by an address or as localhost; refuse others."""
    if request.path in OPEN or _is_own(request.headers.get("Host", "")):
        return await handler(request)
    return web.Response(
        status=403,
        text="this port must be requested by an IP address or as localhost; set"
        " INORDER_HTTP_TOKEN to use another name\n",
    )


def _is_own(called: str) -> bool:
    """Return whether `Host` names this machine or is empty; no browser sends an empty one."""
    try:
        name = urlsplit(f"//{called}").hostname or ""
    except ValueError:
        return False
    return not called or name == LOCALHOST or _parse_address(name) is not None


def _parse_address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _is_token(token: str, shown: str | None) -> bool:
    if shown is None:
        return False
    # Bytes that are not UTF-8 arrive as lone surrogates, which `strict` cannot encode.
    return hmac.compare_digest(token.encode(), shown.encode(errors="surrogatepass"))
