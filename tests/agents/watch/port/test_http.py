"""Examples: a worker's web server answers over loopback, even during half-sent requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from agents.watch.port import connections
from agents.watch.port.http import Health, HttpServer, HttpUnavailable, parse_address
from agents.watch.port.question import Question

TIMEOUT = aiohttp.ClientTimeout(total=10)
Answer = tuple[int, str, Any]


def well() -> Health:
    return Health(ok=True)


def server_of(**how: Any) -> HttpServer:
    """Return a healthy server without content, changed by the arguments."""
    plain = {"registry": CollectorRegistry(), "live": well, "ready": well, "explain": dict}
    return HttpServer(**{**plain, **how})


def served(ask: Callable[[aiohttp.ClientSession], Awaitable[Any]], **how: Any) -> Any:
    """Return the result of `ask` while the server is up."""

    async def run() -> Any:
        server = server_of(**how)
        host, port = await server.start()
        assert host == "127.0.0.1"
        try:
            base = f"http://{host}:{port}"
            async with aiohttp.ClientSession(base, timeout=TIMEOUT) as session:
                return await ask(session)
        finally:
            await server.stop()
            await server.stop()

    return asyncio.run(run())


def get(path: str, **headers: str) -> Callable[[aiohttp.ClientSession], Awaitable[Answer]]:
    async def ask(session: aiohttp.ClientSession) -> Answer:
        async with session.get(path, headers=headers) as response:
            kind = response.content_type
            body = await (response.json() if kind == "application/json" else response.text())
            return response.status, kind, body

    return ask


FINE = {"ok": True, "reasons": []}
BAD = {"ok": False, "reasons": ["a", "b"]}
CODEC = {"codec": "plain: no build"}
HELD: dict[Any, Any] = {"source": "s1", "deadline_ns": 2**62}


def bad() -> Health:
    return Health(ok=False, reasons=("a", "b"))


@pytest.mark.parametrize(
    ("path", "how", "status", "body"),
    [
        pytest.param("/live", {"ready": bad}, 200, FINE, id="alive and not ready"),
        pytest.param("/ready", {"ready": bad}, 503, BAD, id="not ready"),
        pytest.param("/live", {"live": bad}, 503, BAD, id="not alive"),
        pytest.param(
            *("/live", {"live": lambda: Health(ok=True, notes=("x",))}, 200),
            {**FINE, "notes": ["x"]},
            id="alive, with a note",
        ),
        pytest.param(
            *("/health", {"about": lambda: CODEC}, 200),
            {"live": FINE, "ready": FINE, **CODEC},
            id="how it runs",
        ),
        pytest.param(
            *("/explain", {"explain": lambda: {"held": [{**HELD, 3: None}]}}, 200),
            {"held": [{**HELD, "3": None}]},
            id="what is explained",
        ),
    ],
)
def test_answers_are_json(path: str, how: dict[str, Any], status: int, body: Any) -> None:
    assert served(get(path), **how) == (status, "application/json", body)


def test_metrics_format_is_negotiated() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things", registry=registry).inc(3)
    status, kind, body = served(get("/metrics"), registry=registry)
    assert (status, kind) == (200, "text/plain")
    assert "things_total 3.0" in body
    _, kind, body = served(
        get("/metrics", Accept="application/openmetrics-text; version=1.0.0"), registry=registry
    )
    assert kind == "application/openmetrics-text"
    assert body.endswith("# EOF\n")


def test_failure_hides_stack_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explain() -> Any:
        raise KeyError("partition 3")

    with caplog.at_level(logging.ERROR, logger="inorder.http"):
        answer = served(get("/explain"), explain=explain)
    assert answer == (500, "application/json", {"error": "KeyError: 'partition 3'"})
    assert "/explain failed" in caplog.text
    assert "Traceback" in caplog.text  # The log has the stack trace.


@pytest.mark.parametrize("path", ["/", "/nothing", "/metrics/"])
def test_other_paths_and_methods_are_refused(path: str) -> None:
    assert served(get(path))[0] == 404

    async def post(session: aiohttp.ClientSession) -> int:
        async with session.post("/live", data=b"x") as response:
            return response.status

    assert served(post) == 405


NO_NUMBER = "seq: '' is not a number of at most 19 digits, such as 17"


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [("?source=s&seq=17", 200, {"asked": ["s", 17]}), ("?source=s", 400, {"error": NO_NUMBER})],
)
def test_event_query_is_answered(query: str, status: int, told: Any) -> None:
    async def locate(asked: Question) -> Any:
        return {"asked": [asked.source, asked.seq]}

    assert served(get("/event" + query), event=locate) == (status, "application/json", told)
    assert served(get("/event" + query))[0] == 404


async def test_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HttpUnavailable, match=rf"127\.0\.0\.1:{port}.*--http"):
            await server_of(port=port).start()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("worker-1:80", ("worker-1", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_address_is_parsed(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "host:", "host:x", "host:65536", "::1:80", "host:٣"]
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


# -- half requests -----------------------------------------------------------------------------

HALF = b"GET /live HTTP/1.1\r\nHost: w\r\nX-A: "
WHOLE = b"GET /live HTTP/1.1\r\nHost: w\r\n\r\n"
TIMEOUT_S = 10.0

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Ask = Callable[[bytes], Awaitable[Peer]]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Ask]:
    """Yield a function that sends bytes on a new connection."""
    server = server_of()
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
    """Return the first line of the answer; it is empty if the server has closed the connection."""
    try:
        return await asyncio.wait_for(peer[0].readline(), TIMEOUT_S)
    except ConnectionError:
        return b""


async def test_half_requests_block_nobody(
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


async def test_half_request_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)

    async with serving() as ask:
        half, whole = await ask(HALF), await ask(WHOLE)
        assert b"200" in await first_line(whole)
        assert await first_line(half) == b""
        whole[1].write(WHOLE)
        while b"200" not in await first_line(whole):
            pass  # the rest of the first answer
