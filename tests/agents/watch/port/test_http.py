"""Examples: the answers of a worker's own web server, over a loopback connection: also to half
requests, to too many of them, and to others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from agents.watch.port import connections
from agents.watch.port.http import Health, HttpServer, HttpUnavailable, Locate, address
from agents.watch.port.question import Question

TIMEOUT = aiohttp.ClientTimeout(total=10)
Answer = tuple[int, str, Any]


def well() -> Health:
    return Health(ok=True)


def served(
    ask: Callable[[aiohttp.ClientSession], Awaitable[Any]],
    *,
    live: Callable[[], Health] = well,
    ready: Callable[[], Health] = well,
    explain: Callable[[], Any] = dict,
    registry: CollectorRegistry | None = None,
    about: Callable[[], Mapping[str, Any]] = dict,
    event: Locate | None = None,
) -> Any:
    """What `ask` returns while the server is up."""

    async def run() -> Any:
        known = registry or CollectorRegistry()
        server = HttpServer(
            registry=known, live=live, ready=ready, explain=explain, about=about, event=event
        )
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


@pytest.mark.parametrize(
    ("health", "status", "body"),
    [
        (Health(ok=True), 200, {"ok": True, "reasons": []}),
        (Health(ok=False, reasons=("a", "b")), 503, {"ok": False, "reasons": ["a", "b"]}),
        (Health(ok=True, notes=("x",)), 200, {"ok": True, "reasons": [], "notes": ["x"]}),
    ],
)
def test_health(health: Health, status: int, body: Any) -> None:
    assert served(get("/live"), live=lambda: health) == (status, "application/json", body)


def test_live_and_ready_are_two_questions() -> None:
    async def both(session: aiohttp.ClientSession) -> list[int]:
        return [(await get(path)(session))[0] for path in ("/live", "/ready")]

    assert served(both, ready=lambda: Health(ok=False, reasons=("restoring",))) == [200, 503]


def test_health_says_how_it_runs() -> None:
    status, _, body = served(get("/health"), about=lambda: {"codec": "plain: no build"})
    well = {"ok": True, "reasons": []}
    assert (status, body) == (200, {"live": well, "ready": well, "codec": "plain: no build"})


def test_metrics_in_the_form_that_is_asked_for() -> None:
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


def test_explain_gives_json() -> None:
    def explain() -> Any:
        return {"held": [{"source": "s1", "deadline_ns": 2**62, 3: None}]}

    told = {"held": [{"source": "s1", "deadline_ns": 2**62, "3": None}]}
    assert served(get("/explain"), explain=explain) == (200, "application/json", told)


def test_a_callable_that_fails_is_told_without_a_stack_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explain() -> Any:
        raise KeyError("partition 3")

    with caplog.at_level(logging.ERROR, logger="inorder.http"):
        answer = served(get("/explain"), explain=explain)
    assert answer == (500, "application/json", {"error": "KeyError: 'partition 3'"})
    assert "/explain failed" in caplog.text
    assert "Traceback" in caplog.text  # there it belongs


@pytest.mark.parametrize("path", ["/", "/nothing", "/metrics/"])
def test_other_paths_are_not_there_and_nothing_can_be_written(path: str) -> None:
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
def test_an_event_is_asked_for(query: str, status: int, told: Any) -> None:
    async def locate(asked: Question) -> Any:
        return {"asked": [asked.source, asked.seq]}

    assert served(get("/event" + query), event=locate) == (status, "application/json", told)
    assert served(get("/event" + query))[0] == 404


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        registry = CollectorRegistry()
        server = HttpServer(registry=registry, live=well, ready=well, explain=dict, port=port)
        with pytest.raises(HttpUnavailable, match=rf"127\.0\.0\.1:{port}.*--http"):
            await server.start()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("worker-1:80", ("worker-1", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "host:", "host:x", "host:65536", "::1:80", "host:٣"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        address(text)


# -- half requests -----------------------------------------------------------------------------

HALF = b"GET /live HTTP/1.1\r\nHost: w\r\nX-A: "
WHOLE = b"GET /live HTTP/1.1\r\nHost: w\r\n\r\n"
TIMEOUT_S = 10.0

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Ask = Callable[[bytes], Awaitable[Peer]]


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
