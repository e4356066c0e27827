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

Bounds: an endpoint answers within `ANSWER_S` in all, however it spreads its bytes, and with at most
`MAX_BYTES`; it is asked by one thread at a time, also where one was left behind that still reads,
and not again within `PAUSE_S` of a failure. Redirections are not followed, as they would get the
secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

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


class _NoRedirection(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class TokenEndpoint(Bearer):
    """A token endpoint, `url`. `context`: by which its certificate is judged."""

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str = "",
        context: ssl.SSLContext | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._now_s = now_s
        form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        self._request = Request(url, urlencode(form).encode(), headers)
        self._opener = build_opener(HTTPSHandler(context=context), _NoRedirection())
        self._guard = threading.Lock()
        self._token = Token("", 0.0)
        self._renew_s = 0.0
        self._failed = ""
        self._asking: Future[Token] | None = None

    def current(self) -> Token:
        with self._guard:
            if self._now_s() >= self._renew_s:
                self._renew()
            if self._token.expires_s <= self._now_s():
                raise TokenUnavailable(self._failed)
            return self._token

    def _renew(self) -> None:
        try:
            self._token = self._asked()
        except TokenUnavailable as failed:
            self._failed = str(failed)
            self._renew_s = self._now_s() + PAUSE_S
            if self._token.text:
                log.warning("%s; the token at hand serves until it expires", failed)
            return
        now_s = self._now_s()
        self._renew_s = now_s + RENEW_AT * (self._token.expires_s - now_s)

    def _asked(self) -> Token:
        # urllib's time is for each read: who sends a byte now and then is waited for by a thread
        # of its own, which is left behind.
        late = f"the token endpoint {self._url} has not answered within {ANSWER_S:g} s"
        if self._asking is not None and not self._asking.done():
            raise TokenUnavailable(f"{late}, and still sends")
        answer: Future[Token] = Future()
        self._asking = answer
        threading.Thread(target=self._ask, args=(answer,), name="token", daemon=True).start()
        try:
            return answer.result(ANSWER_S)
        except TimeoutError as error:
            raise TokenUnavailable(late) from error

    def _ask(self, answer: Future[Token]) -> None:
        try:
            answer.set_result(self._answered())
        except BaseException as failed:  # noqa: BLE001 - whoever asked gets it
            answer.set_exception(failed)

    def _answered(self) -> Token:
        where = f"the token endpoint {self._url}"
        try:
            with self._opener.open(self._request, timeout=ANSWER_S) as answer:
                content = answer.read(MAX_BYTES + 1)
        except HTTPError as error:
            with error:
                said = _why(error.read(MAX_BYTES))
            if error.code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}:
                said += "; check the client's id and secret"
            raise TokenUnavailable(f"{where} answers {error.code}{said}") from error
        except (OSError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise TokenUnavailable(f"{where} does not answer: {why}") from error
        found = _object(content)
        text = found.get("access_token")
        if len(content) > MAX_BYTES or not isinstance(text, str) or len(text.split()) != 1:
            raise TokenUnavailable(f"{where} answers without an `access_token`")
        now_s = self._now_s()
        lasts_s = found.get("expires_in")
        expires_s = expiry_of(text)
        if isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool):
            expires_s = now_s + lasts_s
        elif expires_s is None:
            expires_s = now_s + LIFETIME_S
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
    expires_s = _object(claims).get("exp")
    if isinstance(expires_s, bool) or not isinstance(expires_s, int | float):
        return None
    return float(expires_s)


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _why(content: bytes) -> str:
    """What an endpoint says of its refusal (RFC 6749, 5.2)."""
    error = _object(content).get("error")
    return f" ({error[:SHOWN_CHARACTERS]!r})" if isinstance(error, str) else ""
