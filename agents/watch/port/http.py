"""Serves a process's health, readiness, metrics and explanations by HTTP.

| path       | answer                                                                          |
|------------|---------------------------------------------------------------------------------|
| `/live`    | 200 or 503, JSON `{"ok": …, "reasons": […]}`; 503 asks for a restart            |
| `/ready`   | the same; 503 means that there is no progress; `notes`, if there are any, say   |
|            | what lags although there is progress                                            |
| `/health`  | 200 with JSON of both, `{"live": …, "ready": …}`, for frequent requests, and    |
|            | how the process runs: `core` and `codec` of a stage, `stages` of a worker;      |
|            | `standby` of a stage says that it has no partition because others have them all |
| `/metrics` | the registry, as Prometheus or OpenMetrics text                                 |
| `/explain` | JSON of the buffered events and what they wait for                              |
| `/event`   | JSON of one event: where it is and why (`agents.watch.port.question`); 400 says |
|            | how to ask                                                                      |
| `/`        | a page with all of this, if there is one (`agents.watch.page.serving`)          |

The server only reads. It runs in the caller's event loop, so a worker whose loop hangs does not
answer and cannot claim to be alive. By default it listens on a free port of 127.0.0.1. Its answers
are confidential, so it listens on another address only if the command asks for it. It requires the
token if one is set; otherwise, on loopback, it requires a name of this machine (`guard`).
Connections are bounded (`connections`). If a callable fails, the answer is 500 with the error's
text, and the stack trace is logged.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from agents.watch.page.serving import Page
from agents.watch.port.connections import ACCEPTED, BACKLOG, Connections
from agents.watch.port.guard import make_guards
from agents.watch.port.question import NoQuestion, Question, parse_question

LOOPBACK: Final = "127.0.0.1"
FREE_PORT: Final = 0
STOP_TIMEOUT_S: Final = 2.0
MAX_PORT: Final = 65_535
NOT_HERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""Errors for an address that a host name has but this machine has not, for example ::1."""

logger = logging.getLogger("inorder.http")


class HttpUnavailable(Exception):
    """The server cannot listen at the given address."""


@dataclass(frozen=True, slots=True)
class Health:
    """An answer to `/live` or `/ready`.

    If `ok` is False, `reasons` say why. `notes` may be present in both cases.
    """

    ok: bool
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the answer's fields; `notes` only if there are any."""
        return {"ok": self.ok, "reasons": self.reasons} | (
            {"notes": self.notes} if self.notes else {}
        )


Locate = Callable[[Question], Any]


@dataclass(kw_only=True, eq=False, repr=False)
class HttpServer:
    """The HTTP port of a process, which serves from `start` to `stop`.

    It listens on `sockets`, which are bound already, or else on `host` and `port`. The callables
    run in the event loop and must be quick. `explain` and `event` return a value that orjson can
    encode, or an awaitable of one. `scrape`, if there is one, is awaited before `/metrics` is
    answered.
    """

    registry: CollectorRegistry
    live: Callable[[], Health]
    ready: Callable[[], Health]
    explain: Callable[[], Any]
    host: str = LOOPBACK
    port: int = FREE_PORT
    scrape: Callable[[], Awaitable[None]] | None = None
    page: Page | None = None
    token: str | None = None
    about: Callable[[], Mapping[str, Any]] = dict
    event: Locate | None = None
    sockets: Sequence[socket.socket] = ()
    _runner: web.AppRunner | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._connections = Connections()
        self._routes = (
            web.get("/live", _guard_handler(_make_health_handler(self.live))),
            web.get("/ready", _guard_handler(_make_health_handler(self.ready))),
            web.get("/health", _guard_handler(self._answer_both)),
            web.get("/metrics", _guard_handler(self._answer_metrics)),
            web.get("/explain", _guard_handler(lambda _: _answer_found(self.explain()))),
            *(
                ()
                if self.event is None
                else (web.get("/event", _guard_handler(self._answer_event)),)
            ),
            *(() if self.page is None else self.page.routes()),
        )

    async def start(self) -> tuple[str, int]:
        """Listen, and return the host and the port; raise HttpUnavailable if that fails."""
        if self._runner is not None:
            raise RuntimeError("the server has been started already")
        sockets = self.sockets or bind(self.host, self.port)
        host, port = sockets[0].getsockname()[:2]
        guarding = [self._connections.middleware, *make_guards(self.host, port, self.token)]
        application = web.Application(middlewares=guarding)
        application.add_routes(self._routes)
        runner = self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=STOP_TIMEOUT_S
        )
        await runner.setup()
        assert runner.server is not None
        self._connections.watch(runner.server)
        for listening in sockets:
            await web.SockSite(runner, listening, backlog=ACCEPTED).start()
            listening.listen(BACKLOG)
        return host, port

    async def stop(self) -> None:
        """Close all connections, busy ones after `STOP_TIMEOUT_S`; a second call is harmless."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _answer_both(self, _: web.Request) -> web.Response:
        both = {"live": self.live().plain(), "ready": self.ready().plain()}
        return _respond_json({**both, **self.about()})

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        if self.scrape is not None:
            await self.scrape()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = encode(self.registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer_event(self, request: web.Request) -> web.Response:
        assert self.event is not None
        try:
            asked = parse_question(request.query)
        except NoQuestion as wrong:
            return _respond_json({"error": str(wrong)}, status=400)
        return await _answer_found(self.event(asked))


Handler = Callable[[web.Request], Awaitable[web.Response]]


def _make_health_handler(ask: Callable[[], Health]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        health = ask()
        return _respond_json(health.plain(), status=200 if health.ok else 503)

    return answer


def _guard_handler(handler: Handler) -> Handler:
    """Return a handler that logs the stack trace of a failure and answers with the error's text."""

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except Exception as error:  # The callables are the caller's code.
            logger.exception("%s failed", request.path)
            return _respond_json({"error": f"{type(error).__name__}: {error}"}, status=500)

    return answer


async def _answer_found(found: Any) -> web.Response:
    return _respond_json(await found if isawaitable(found) else found)


def _respond_json(value: Any, status: int = 200) -> web.Response:
    body = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, status=status, content_type="application/json")


def bind(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets, one for each address of the host that this machine has.

    They need no event loop. Raises HttpUnavailable if there is no such address.
    """
    found: list[socket.socket] = []
    unknown = OSError(f"{host} has no address")
    try:
        kind, passive = socket.SOCK_STREAM, socket.AI_PASSIVE
        for family, *_, place in socket.getaddrinfo(host, port, type=kind, flags=passive):
            try:
                found.append(socket.create_server(place, family=family))
            except OSError as error:
                if error.errno not in NOT_HERE:
                    raise
                unknown = error
        if not found:
            raise unknown
    except (OSError, OverflowError) as error:
        for listening in found:
            listening.close()
        raise HttpUnavailable(
            f"cannot listen on {host}:{port}: {error}; give --http another HOST:PORT, or none for a"
            " free port"
        ) from error
    return found


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT; raise ValueError if the text is invalid.

    An IPv6 host is in brackets.
    """
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and digits.isascii() and digits.isdigit() and int(digits) <= MAX_PORT):
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:8080")
    return host, int(digits)
