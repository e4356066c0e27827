"""Examples: a client without the token sees only whether the worker is alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from agents.watch.page.view import View
from agents.watch.port.token import FILE_VARIABLE, VARIABLE, TokenRefused, token_in
from tests.agents.watch.page import many

TOKEN = "0123456789abcdef"
TIMEOUT = aiohttp.ClientTimeout(total=10)
GUARDED = ("/", "/page.js", "/page.css", "/events", "/explain", "/metrics", "/health")


async def nothing() -> View:
    return {}


@asynccontextmanager
async def guarded(token: str | None = TOKEN) -> AsyncIterator[str]:
    """Yield the address of a server with this token."""
    server = many.server(nothing, token)
    try:
        yield "{}:{}".format(*await server.start())
    finally:
        await server.stop()


def statuses_of(*paths: str, headers: Mapping[str, str] | None = None) -> list[int]:
    """Return the status of each path, requested in order with the cookies received so far."""

    async def run() -> list[int]:
        found = []
        jar = aiohttp.CookieJar(unsafe=True)  # Cookies from an IP address are allowed.
        async with (
            guarded() as address,
            aiohttp.ClientSession(f"http://{address}", timeout=TIMEOUT, cookie_jar=jar) as session,
        ):
            for path in paths:
                async with session.get(path, headers=headers) as response:
                    found.append(response.status)
        return found

    return asyncio.run(run())


def test_only_health_needs_no_token() -> None:
    assert statuses_of("/live", "/ready") == [200, 200]
    assert statuses_of(*GUARDED) == [401] * len(GUARDED)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer \u00e9", 401),
        ("", 401),
    ],
)
def test_token_is_sent_as_bearer(sent: str, status: int) -> None:
    assert statuses_of(*GUARDED, headers={"Authorization": sent}) == [status] * len(GUARDED)


def answer_head(path: bytes, header: bytes, token: str | None = TOKEN) -> bytes:
    """Return the head of the answer to these bytes."""

    async def run() -> bytes:
        async with guarded(token) as address:
            reader, writer = await asyncio.open_connection(*address.split(":"))
            try:
                writer.write(b"GET %b HTTP/1.1\r\n%b\r\n\r\n" % (path, header))
                return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            finally:
                writer.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "header"),
    [
        (b"/metrics", b"Authorization: Bearer \xff\xfe"),
        (b"/metrics", b"Cookie: inorder_token=\xff\xfe"),
        (b"/metrics", b'Cookie: inorder_token="\\377"'),
        (b"/metrics?token=%ff%fe", b"Accept: */*"),
    ],
)
def test_undecodable_token_is_refused(path: bytes, header: bytes) -> None:
    assert answer_head(path, b"Host: w\r\n" + header).split()[1] == b"401"


@pytest.mark.parametrize(
    ("path", "called", "status"),
    [
        ("/explain", "127.0.0.1:80", 200),
        ("/explain", "localhost:80", 200),
        ("/explain", "[::1]:80", 200),
        ("/explain", "rebound.example:80", 403),
        ("/", "rebound.example", 403),
        ("/metrics", "127.0.0.1.rebound.example", 403),
        ("/explain", "[", 403),
        ("/live", "rebound.example", 200),
    ],
)
def test_foreign_host_is_refused(path: str, called: str, status: int) -> None:
    head = answer_head(path.encode(), f"Host: {called}".encode(), token=None)
    assert int(head.split()[1]) == status


def test_browser_keeps_the_token() -> None:
    assert statuses_of("/?token=wrong", "/") == [401, 401]
    assert statuses_of(f"/?token={TOKEN}", "/", "/events", "/metrics") == [200] * 4


async def test_cookie_is_bound_to_its_port() -> None:
    """Browsers send a cookie to every port of the host."""

    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        guarded() as one,
        guarded() as other,
        aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=jar) as session,
    ):
        async with session.get(f"http://{one}/?token={TOKEN}") as response:
            assert response.status == 200
        async with session.get(f"http://{other}/metrics") as response:
            assert response.status == 401
        (cookie,) = jar
        assert cookie.key.endswith(one.rpartition(":")[2])
        assert TOKEN not in cookie.value
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        forged = {cookie.key.replace(one[-5:], other[-5:]): cookie.value}
        async with session.get(f"http://{other}/metrics", cookies=forged) as response:
            assert response.status == 401


@pytest.mark.parametrize("path", [b"//evil.example/", b"/\\evil.example/", b"/%5Cevil.example/"])
def test_token_never_redirects_elsewhere(path: bytes) -> None:
    head = answer_head(path + b"?token=" + TOKEN.encode(), b"Host: w")
    assert b" 404 " in head
    assert b"Location" not in head


def test_token_comes_from_variables(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert token_in({}) is None
    assert token_in({VARIABLE: TOKEN}) == TOKEN
    assert token_in({FILE_VARIABLE: str(file)}) == TOKEN


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({VARIABLE: "short"}, "needs 16 or more ASCII letters"),
        ({VARIABLE: ""}, "needs 16 or more ASCII letters"),
        ({VARIABLE: TOKEN + " "}, "needs 16 or more ASCII letters"),
        ({VARIABLE: TOKEN, FILE_VARIABLE: "x"}, "both set; leave one out"),
        ({FILE_VARIABLE: "/nowhere/token"}, "/nowhere/token cannot be read"),
    ],
)
def test_invalid_token_is_refused(environment: Mapping[str, str], says: str) -> None:
    with pytest.raises(TokenRefused, match=says):
        token_in(environment)
