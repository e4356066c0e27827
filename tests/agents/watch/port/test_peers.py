"""Examples: who is asked, with what token, and what is said of those that do not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agents.watch.port import peers as peering
from agents.watch.port.peers import MAX_PEERS, Answer, PeerAddress, Peers, PeersRefused, peers_in
from cli.local.ports import free_ports

TOKEN = "0123456789abcdef"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """The port of a server that answers any path so."""
    application = web.Application()
    application.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def says(mark: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization")
        said = {**peering.signed(mark), "sent": sent, "asked": request.path_qs}
        return web.json_response(said)

    return answer


def at(port: int) -> PeerAddress:
    return PeerAddress("http", "127.0.0.1", port)


def ask(*handlers: Handler, me: str = "me", token: str | None = TOKEN) -> list[Answer]:
    async def run() -> list[Answer]:
        async with serving(handlers[0]) as one:
            if len(handlers) == 1:
                return await Peers([at(one)], me, token).ask("/view")
            async with serving(handlers[1]) as two:
                return await Peers([at(one), at(two)], me, token).ask("/view", {"seq": "1"})

    return asyncio.run(run())


def test_all_are_asked_with_the_token_of_the_asker() -> None:
    said = [answer.content for answer in ask(says("a"), says("b"))]
    assert {each["worker"] for each in said if each} == {"a", "b"}
    assert all(each and each["sent"] == f"Bearer {TOKEN}" for each in said)
    assert all(each and each["asked"] == "/view?seq=1" for each in said)
    (alone,) = ask(says("a"), token=None)
    assert alone.content is not None
    assert alone.content["sent"] is None


def test_a_worker_knows_itself_among_them_and_another_by_two_names() -> None:
    (other,) = ask(says("me"), says("b"))
    assert other.content is not None
    assert other.content["worker"] == "b"
    assert len(ask(says("b"), says("b"))) == 1


def test_the_token_follows_no_redirect() -> None:
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound("/stolen")

    (answer,) = ask(elsewhere)
    assert (answer.content, asked) == (None, ["/view"])
    assert "answers 302" in answer.fault


async def refuses(_: web.Request) -> web.Response:
    return web.Response(status=401)


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def babbles(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def speaks_otherwise(_: web.Request) -> web.Response:
    return web.json_response({**peering.signed("a"), "format": peering.FORMAT + 1})


async def speaks_as_before_there_were_formats(_: web.Request) -> web.Response:
    return web.json_response({"worker": "a", "name": "a"})


async def floods(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * 2_000)


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (refuses, "refuses the token of this worker"),
        (hangs, "does not answer within"),
        (babbles, "answers as no worker"),
        (speaks_otherwise, "is of another version, and cannot be shown"),
        (speaks_as_before_there_were_formats, "is of another version, and cannot be shown"),
        (floods, "answers 200, not with /view"),
    ],
)
def test_one_that_fails_is_named_and_the_other_stands(
    handler: Handler, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peering, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(peering, "MAX_ANSWER_BYTES", 1_000)
    answers = ask(handler, says("b"))
    assert [answer.content is None for answer in answers].count(True) == 1
    (fault,) = [answer.fault for answer in answers if answer.content is None]
    assert words in fault


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    (answer,) = asyncio.run(Peers([at(port)], "me").ask("/view"))
    assert (answer.content, answer.who) == (None, f"http://127.0.0.1:{port}")
    assert "does not answer" in answer.fault
    assert asyncio.run(Peers([], "me").ask("/view")) == []


def resolving(found: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names are resolved so; the names that were asked for."""
    asked: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        asked.append(host)
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", staticmethod(getaddrinfo))
    return asked


def test_a_name_stands_for_all_that_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(["10.0.0.2", "10.0.0.1", "10.0.0.2"], monkeypatch)
    peers = Peers(peers_in("dns://inorder-peers:8080,http://w:1"), "me")

    async def twice() -> Any:
        return await peers._urls(), await peers._urls()

    (first, second) = asyncio.run(twice())
    assert first == second
    assert first[0] == ["http://10.0.0.1:8080", "http://10.0.0.2:8080", "http://w:1"]
    assert asked == ["inorder-peers"], "it is resolved once in a while"


def test_a_name_that_resolves_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(socket.gaierror(-2, "Name or service not known"), monkeypatch)
    (answer,) = asyncio.run(Peers(peers_in("dns://nowhere:8080"), "me").ask("/view"))
    assert (answer.who, answer.content) == ("dns://nowhere:8080", None)
    assert "cannot be resolved" in answer.fault


def test_so_many_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving([f"10.0.0.{n}" for n in range(MAX_PEERS + 5)], monkeypatch)
    urls, faults = asyncio.run(Peers(peers_in("dns://many:80"), "me")._urls())
    assert len(urls) == MAX_PEERS
    assert [fault.who for fault in faults] == ["5 more"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("http://w:80", ["http://w:80"]),
        (" http://w:80 , dns://n:81,http://w:80 ", ["http://w:80", "dns://n:81"]),
        ("https://[::1]:443/", ["https://[::1]:443"]),
    ],
)
def test_what_names_workers(text: str, found: list[str]) -> None:
    assert [str(named) for named in peers_in(text)] == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("w:80", "write http://HOST:PORT"),
        ("http://w", "write http://HOST:PORT"),
        ("ftp://w:80", "write http://HOST:PORT"),
        ("http://w:80/view", "only a host and a port"),
        ("http://me:secret@w:80", "only a host and a port"),
        ("http://w:800000", "write http://HOST:PORT"),
    ],
)
def test_what_names_none(text: str, words: str) -> None:
    with pytest.raises(PeersRefused, match=words):
        peers_in(text)
