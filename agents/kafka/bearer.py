"""Tokens for SASL OAUTHBEARER: where they come from, and how long each is used.

From a *file* that somebody else renews (a projected service account token of Kubernetes): it is
read for each new connection, and every `REREAD_S` at least for librdkafka, which has to be given
one beforehand. Or from an *endpoint*, by the client credentials grant of OAuth 2.0 (RFC 6749, 4.4;
the client's id and secret in the header `Authorization`, 2.3.1): it is asked anew when `RENEW_AT`
of a token's time is over, and if it fails then, the old token serves until its end.

A token that is a JWT says when it expires (`exp`), and one that has expired is not sent: who reads
the message learns it here, and not from a broker that says no more than "refused". What is no JWT
is sent as it is. Signatures are the broker's to check.

Both clients ask here: aiokafka awaits `token`, librdkafka calls `refreshed`. No token and no secret
is ever shown.

Bounds: an endpoint answers within `ANSWER_S` in all, however it spreads its bytes (the machine's
resolver may take longer), and with at most `MAX_BYTES`. It is asked by one thread at a time, and
not again within `PAUSE_S` of a failure. Redirections are not followed, as they would get the
secret. The proxies of the environment are used; a `.netrc` is not read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import re
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from agents.answers import read_at_most

log = logging.getLogger(__name__)

REREAD_S: Final = 300.0
RENEW_AT: Final = 0.8
ANSWER_S: Final = 10.0
PAUSE_S: Final = 1.0
MAX_BYTES: Final = 64 << 10
LIFETIME_S: Final = 300.0
"""How long a token lasts whose endpoint does not say."""

JWT_PARTS: Final = 3
SHOWN_CHARACTERS: Final = 80


class TokenUnavailable(Exception):
    """There is no token to send; the message says why, and what to look at."""


class Token(NamedTuple):
    """`expires_s`: seconds since 1970."""

    text: str
    expires_s: float

    def __repr__(self) -> str:
        return f"Token(expires_s={self.expires_s:.0f})"


class Bearer(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types here
    """A source of tokens, as both clients ask it."""

    def current(self) -> Token:
        """Return one that has not expired. TokenUnavailable. Blocks, for `ANSWER_S` at most."""
        raise NotImplementedError

    async def token(self) -> str:
        """Return one to aiokafka. What is unavailable counts as a broker that cannot be reached: it
        is tried again."""
        try:
            return (await asyncio.to_thread(self.current)).text
        except TokenUnavailable as error:
            log.warning("%s", error)
            raise KafkaConnectionError(str(error)) from error

    def refreshed(self, _: str) -> tuple[str, float]:
        """Return one to librdkafka, which asks again some seconds after a failure and reports the
        reason to nobody."""
        try:
            return self.current()
        except TokenUnavailable as error:
            log.warning("%s", error)
            raise


class TokenFile(Bearer):
    """A file that holds the token and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> Token:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            text = content.decode("ascii").strip()
        except OSError as error:
            raise TokenUnavailable(f"the token file {self._path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TokenUnavailable(f"the token file {self._path} holds no token") from error
        if len(content) > MAX_BYTES or len(text.split()) != 1:
            raise TokenUnavailable(f"the token file {self._path} holds no token, or more than one")
        now_s = time.time()
        expires_s = expiry_of(text)
        if expires_s is not None and expires_s <= now_s:
            raise TokenUnavailable(
                f"the token of {self._path} has expired {now_s - expires_s:.0f} s ago; look whether"
                " what writes the file still does, and at this machine's clock"
            )
        ask_again_s = now_s + REREAD_S
        return Token(text, ask_again_s if expires_s is None else min(expires_s, ask_again_s))


@dataclass(eq=False, repr=False)
class TokenEndpoint(Bearer):
    """A token endpoint, `url`. `context`: by which its certificate is judged."""

    url: str
    client_id: str
    secret: str
    scope: str = ""
    context: ssl.SSLContext | None = None
    now_s: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._guard = threading.Lock()
        self._token = Token("", 0.0)
        self._renew_s = 0.0
        self._failed = ""

    def current(self) -> Token:
        with self._guard:
            if self.now_s() >= self._renew_s:
                self._renew()
            if self._token.expires_s <= self.now_s():
                raise TokenUnavailable(self._failed)
            return self._token

    def _renew(self) -> None:
        try:
            # The caller may have a loop that runs, so this one has a thread of its own.
            with ThreadPoolExecutor(1) as thread:
                self._token = thread.submit(asyncio.run, self._answered()).result()
        except TokenUnavailable as failed:
            self._failed = str(failed)
            self._renew_s = self.now_s() + PAUSE_S
            if self._token.text:
                log.warning("%s; the token at hand serves until it expires", failed)
            return
        now_s = self.now_s()
        self._renew_s = now_s + RENEW_AT * (self._token.expires_s - now_s)

    async def _answered(self) -> Token:
        import aiohttp  # which takes longer to import than all else here

        where = f"the token endpoint {_without_user(self.url)}"
        pair = quote_plus(self.client_id), quote_plus(self.secret)
        headers = {
            "Accept": "application/json",
            "Authorization": aiohttp.encode_basic_auth(*pair),
        }
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        limit = aiohttp.ClientTimeout(ANSWER_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, headers=headers) as session,
                session.post(
                    self.url,
                    data=form,
                    ssl=self.context or True,
                    allow_redirects=False,
                    proxy=_proxy_for(self.url),
                ) as answer,
            ):
                content, status = await read_at_most(answer.content, MAX_BYTES), answer.status
        except TimeoutError as error:
            raise TokenUnavailable(f"{where} has not answered within {ANSWER_S:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # aiohttp raises a bare ValueError for some URLs.
            why = _without_user(str(error))
            raise TokenUnavailable(f"{where} does not answer: {why}") from error
        said = _fields(content)
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            refusal = _text(said, "error")
            why = f" ({refusal[:SHOWN_CHARACTERS]!r})" if refusal else ""
            if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
                why += "; check the client's id and secret"
            raise TokenUnavailable(f"{where} answers {status}{why}")
        text = _text(said, "access_token")
        if len(content) > MAX_BYTES or len(text.split()) != 1:
            raise TokenUnavailable(f"{where} answers without an `access_token`")
        now_s = self.now_s()
        expires_s = expiry_of(text) or now_s + LIFETIME_S
        lasts_s = _number(said, "expires_in")
        if lasts_s is not None:
            expires_s = now_s + lasts_s
        if expires_s <= now_s:
            raise TokenUnavailable(
                f"{where} gives a token that has expired; look at this machine's clock"
            )
        return Token(text, expires_s)


def expiry_of(text: str) -> float | None:
    """When a JWT expires, in seconds since 1970; None where that is not said, or it is no JWT."""
    parts = text.split(".")
    if len(parts) != JWT_PARTS:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return None
    return _number(_fields(claims), "exp")


def _proxy_for(url: str) -> str | None:
    """Return the proxy of the environment for a URL. With `trust_env`, aiohttp reads `.netrc` too,
    and refuses its entry beside our `Authorization`."""
    place = urlsplit(url)
    return None if proxy_bypass(place.hostname or "") else getproxies().get(place.scheme)


def _without_user(text: str) -> str:
    """Remove what precedes an `@` in each word: a URL may hold a password there."""
    return re.sub(r"\S*@", "", text)


def _fields(content: bytes) -> dict[str, msgspec.Raw]:
    """Split a JSON object of an endpoint (RFC 6749, 5.1 and 5.2) or of a JWT into its fields. Each
    is decoded on its own, so that an odd one spoils no other."""
    return _decoded(content, dict[str, msgspec.Raw]) or {}


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    return _decoded(fields.get(name, b""), str) or ""


def _number(fields: dict[str, msgspec.Raw], name: str) -> float | None:
    """Return a finite number, which may stand in quotes; None for all else."""
    number = _decoded(fields.get(name, b""), float)
    return number if number is not None and math.isfinite(number) else None


def _decoded(content: bytes | msgspec.Raw, kind: Any) -> Any:
    """Decode JSON; None for what is not of this kind."""
    try:
        return msgspec.json.decode(content, type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError):
        return None
