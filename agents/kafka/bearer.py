"""Provides tokens for SASL OAUTHBEARER, from a file or an endpoint.

* A *file* that another program renews, such as a projected service account token of Kubernetes. It
  is read for each new connection. librdkafka needs its token in advance, so the file is read at
  least every `REREAD_S` for it.
* An *endpoint*, by the client credentials grant of OAuth 2.0 (RFC 6749, 4.4). The client's id and
  secret are in the header `Authorization` (2.3.1). A new token is requested when the fraction
  `RENEW_AT` of a token's lifetime has passed. If that fails, the old token is used until it
  expires.

A JWT contains its expiry (`exp`), and an expired one is not sent. So the error message names the
cause, whereas a broker would only say "refused". Other tokens are sent unchecked. The broker checks
the signatures.

Both clients use this module: aiokafka awaits `token`, librdkafka calls `refresh`. Tokens and
secrets are never logged or shown in errors.

Bounds: an endpoint must complete its answer within `ANSWER_S`, even if the bytes arrive slowly. The
answer has at most `MAX_BYTES`. Only the machine's resolver may take longer. One thread at a time
requests a token, and not within `PAUSE_S` after a failure. Redirects are not followed, because
their target would receive the secret. The proxies of the environment are used; a `.netrc` is not
read.
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
"""Lifetime of a token whose endpoint does not state one."""

JWT_PARTS: Final = 3
SHOWN_CHARACTERS: Final = 80


class TokenUnavailable(Exception):
    """No token is available; the message says why and what to check."""


class Token(NamedTuple):
    """A token, with its expiry `expires_s` in seconds since 1970."""

    text: str
    expires_s: float

    def __repr__(self) -> str:
        return f"Token(expires_s={self.expires_s:.0f})"


class Bearer(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types here
    """A source of tokens with the interfaces of both clients."""

    def current(self) -> Token:
        """Return a token that has not expired, or raise TokenUnavailable.

        Blocks for at most `ANSWER_S`.
        """
        raise NotImplementedError

    async def token(self) -> str:
        """Return a token for aiokafka.

        A missing token is raised as KafkaConnectionError, so the client tries again.
        """
        try:
            return (await asyncio.to_thread(self.current)).text
        except TokenUnavailable as error:
            log.warning("%s", error)
            raise KafkaConnectionError(str(error)) from error

    def refresh(self, _: str) -> tuple[str, float]:
        """Return a token and its expiry for librdkafka.

        After a failure, librdkafka calls this again some seconds later. It does not report the
        reason, so the reason is logged here.
        """
        try:
            return self.current()
        except TokenUnavailable as error:
            log.warning("%s", error)
            raise


class TokenFile(Bearer):
    """A source of tokens from a file that contains the token and nothing else."""

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
            raise TokenUnavailable(f"the token file {self._path} contains no token") from error
        if len(content) > MAX_BYTES or len(text.split()) != 1:
            raise TokenUnavailable(
                f"the token file {self._path} contains no token, or more than one"
            )
        now_s = time.time()
        expires_s = expiry_of(text)
        if expires_s is not None and expires_s <= now_s:
            raise TokenUnavailable(
                f"the token in {self._path} expired {now_s - expires_s:.0f} s ago; check that the"
                " program that writes the file still runs, and check this machine's clock"
            )
        ask_again_s = now_s + REREAD_S
        return Token(text, ask_again_s if expires_s is None else min(expires_s, ask_again_s))


@dataclass(eq=False, repr=False)
class TokenEndpoint(Bearer):
    """A source that requests tokens from the endpoint `url`; `context` verifies its certificate."""

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
            # The caller's thread may have a running loop, so the request gets a separate thread.
            with ThreadPoolExecutor(1) as thread:
                self._token = thread.submit(asyncio.run, self._fetch()).result()
        except TokenUnavailable as failed:
            self._failed = str(failed)
            self._renew_s = self.now_s() + PAUSE_S
            if self._token.text:
                log.warning("%s; the current token is used until it expires", failed)
            return
        now_s = self.now_s()
        self._renew_s = now_s + RENEW_AT * (self._token.expires_s - now_s)

    async def _fetch(self) -> Token:
        import aiohttp  # This import takes longer than all others here.

        where = f"the token endpoint {_remove_user(self.url)}"
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
                    proxy=_find_proxy(self.url),
                ) as answer,
            ):
                content, status = await read_at_most(answer.content, MAX_BYTES), answer.status
        except TimeoutError as error:
            raise TokenUnavailable(f"{where} has not answered within {ANSWER_S:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # aiohttp raises a bare ValueError for some URLs.
            why = _remove_user(str(error))
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
        lasts_s = _read_number(said, "expires_in")
        if lasts_s is not None:
            expires_s = now_s + lasts_s
        if expires_s <= now_s:
            raise TokenUnavailable(
                f"{where} gave a token that has expired; check this machine's clock"
            )
        return Token(text, expires_s)


def expiry_of(text: str) -> float | None:
    """Return when a JWT expires, in seconds since 1970; None if that is unknown.

    The time is unknown if the token has no `exp`, or is not a JWT.
    """
    parts = text.split(".")
    if len(parts) != JWT_PARTS:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return None
    return _read_number(_fields(claims), "exp")


def _find_proxy(url: str) -> str | None:
    """Return the proxy that the environment sets for a URL, or None.

    The option `trust_env` of aiohttp is no alternative, because it also reads `.netrc`. It fails if
    that file has an entry for the host, because the request already has the header `Authorization`.
    """
    place = urlsplit(url)
    return None if proxy_bypass(place.hostname or "") else getproxies().get(place.scheme)


def _remove_user(text: str) -> str:
    """Remove everything before an `@` in each word, because a URL may contain a password there."""
    return re.sub(r"\S*@", "", text)


def _fields(content: bytes) -> dict[str, msgspec.Raw]:
    """Split a JSON object into its undecoded fields.

    The object comes from an endpoint (RFC 6749, 5.1 and 5.2) or a JWT. Each field is decoded
    separately later, so an invalid one does not affect the others.
    """
    return _decode(content, dict[str, msgspec.Raw]) or {}


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    return _decode(fields.get(name, b""), str) or ""


def _read_number(fields: dict[str, msgspec.Raw], name: str) -> float | None:
    """Return a field as a finite number, even if it is in quotes; None for anything else."""
    number = _decode(fields.get(name, b""), float)
    return number if number is not None and math.isfinite(number) else None


def _decode(content: bytes | msgspec.Raw, kind: Any) -> Any:
    """Decode JSON as `kind`; return None if it is invalid or of another type."""
    try:
        return msgspec.json.decode(content, type=kind, strict=False)
    except (msgspec.MsgspecError, RecursionError):
        return None
