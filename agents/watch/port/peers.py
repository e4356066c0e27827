"""The other workers of a topology: who they are, and what they answer.

`--peers` names them, and may name the worker itself, so that all can have the same setting:

    http://10.0.0.7:8080            one worker (https:// where something before it ends TLS)
    dns://inorder-peers:8080        all that the name resolves to, as a headless service does

Nobody is asked unless somebody asks this worker, and what a worker answers of itself does not hang
on others: its `/live`, `/ready` and `/metrics` are its own. The token goes to those who are named
and to nobody else: no redirect is followed. Where a name is resolved, whoever answers under it gets
the token; so name only what is the topology's own.

Bounds: `MAX_PEERS` are asked, at once, for `TIMEOUT_S` each and `MAX_ANSWER_BYTES` of an answer; a
name is resolved anew every `RESOLVE_EVERY_S`. What fails is reported with the reason, and the
others' answers count; so is a worker of another version whose answers are of another `FORMAT`.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from agents.watch.port.token import bearing

MAX_PEERS: Final = 64
TIMEOUT_S: Final = 2.0
RESOLVE_EVERY_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 8 << 20
SCHEMES: Final = ("http", "https", "dns")
SIGNED: Final = "worker"
"""In an answer: the mark of the process that gave it, by which a worker knows itself."""
FORMAT_KEY: Final = "format"
FORMAT: Final = 1
"""In an answer: the words that the rest is made of. It is raised when one of them that others read
goes, or comes to mean something else."""


def signed(me: str) -> dict[str, Any]:
    """What each answer to a peer has, whatever it was asked."""
    return {SIGNED: me, FORMAT_KEY: FORMAT}


class PeersRefused(ValueError):
    """The value of `--peers` is wrong; the message states what to write."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """One word of `--peers`."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """`content` is None where there is a `fault`."""

    who: str
    content: Mapping[str, Any] | None
    fault: str = ""


def peers_in(text: str) -> tuple[PeerAddress, ...]:
    """The addresses between the commas. PeersRefused: a word is no address."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return tuple(dict.fromkeys(map(_named, words)))


def _named(word: str) -> PeerAddress:
    try:
        parts = urlsplit(word)
        port = parts.port
    except ValueError:
        port = None
    if port is None or parts.scheme not in SCHEMES or not parts.hostname:
        raise PeersRefused(
            f"{word!r} names no worker; write http://HOST:PORT for one, or dns://NAME:PORT for all"
            " that the name resolves to"
        )
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise PeersRefused(f"{word!r}: only a host and a port are allowed")
    return PeerAddress(parts.scheme, parts.hostname, port)


class Peers:
    """`me` is the mark of this process; its own answers are left out."""

    def __init__(self, named: Sequence[PeerAddress], me: str, token: str | None = None) -> None:
        self._named = tuple(named)
        self._me = me
        self._headers = bearing(token)
        self._known: tuple[list[str], list[Answer]] = ([], [])
        self._resolved_s = float("-inf")

    async def ask(self, path: str, query: Mapping[str, str] | None = None) -> list[Answer]:
        """What all others answer to GET `path`, and those that do not; sorted by name."""
        if not self._named:
            return []
        urls, faults = await self._urls()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session:
            asked = (self._ask_one(session, url, path, query) for url in urls)
            answers = await asyncio.gather(*asked)
        found = {
            answer.content[SIGNED] if answer.content is not None else answer.who: answer
            for answer in answers
            if answer.content is None or answer.content[SIGNED] != self._me
        }
        return sorted([*found.values(), *faults], key=lambda answer: answer.who)

    async def _ask_one(
        self,
        session: aiohttp.ClientSession,
        url: str,
        path: str,
        query: Mapping[str, str] | None,
    ) -> Answer:
        try:
            async with session.get(url + path, params=query, allow_redirects=False) as response:
                body = await _body(response)
                if response.status == 401:
                    return Answer(url, None, "refuses the token of this worker")
                if response.status != 200 or body is None:
                    return Answer(url, None, f"answers {response.status}, not with {path}")
                content = orjson.loads(body)
        except TimeoutError:
            return Answer(url, None, f"does not answer within {TIMEOUT_S:.0f} s")
        except (aiohttp.ClientError, OSError) as error:
            return Answer(url, None, f"does not answer: {type(error).__name__}")
        except orjson.JSONDecodeError:
            content = None
        if not isinstance(content, dict) or not isinstance(content.get(SIGNED), str):
            return Answer(url, None, "answers as no worker does")
        if content.get(FORMAT_KEY) != FORMAT:
            return Answer(url, None, "is of another version, and cannot be shown beside this one")
        return Answer(url, content)

    async def _urls(self) -> tuple[list[str], list[Answer]]:
        """Where to ask, and what could not be found out; at most MAX_PEERS."""
        now_s = time.monotonic()
        if now_s - self._resolved_s < RESOLVE_EVERY_S:
            return self._known
        urls: dict[str, None] = {}
        faults: list[Answer] = []
        for named in self._named:
            if named.scheme != "dns":
                urls[str(named)] = None
                continue
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    found = await asyncio.get_running_loop().getaddrinfo(
                        named.host, named.port, type=socket.SOCK_STREAM
                    )
            except (TimeoutError, OSError) as error:
                faults.append(Answer(str(named), None, f"cannot be resolved: {error}"))
                continue
            hosts = sorted({str(each[4][0]) for each in found})
            urls.update((f"http://{_bracketed(host)}:{named.port}", None) for host in hosts)
        left = list(urls)[MAX_PEERS:]
        if left:
            faults.append(
                Answer(f"{len(left)} more", None, f"beyond the {MAX_PEERS} that are asked")
            )
        self._known, self._resolved_s = (list(urls)[:MAX_PEERS], faults), now_s
        return self._known


async def _body(response: aiohttp.ClientResponse) -> bytes | None:
    """None: it is longer than an answer may be."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            return None
    return bytes(body)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
