"""Examples: sources of tokens, when a token is renewed, and the errors if there is none.

tests/end_to_end/test_security.py shows that brokers accept the tokens.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import orjson
import pytest
from aiokafka.errors import KafkaConnectionError

from agents.kafka import bearer as bearing
from agents.kafka.bearer import TokenEndpoint, TokenFile, TokenUnavailable
from agents.kafka.brokers import BrokersUnavailable, find_brokers
from agents.kafka.security import SecurityRefused, read_security
from tests.agents.kafka.tokens import token
from tests.kit.clock import Clock
from tests.waiting import calm_s

SECRET = "correct-horse"
OAUTH = "security.protocol=SASL_SSL\nsasl.mechanism=oauthbearer\n"
URL = "sasl.oauthbearer.token.endpoint.url"


def jwt(claims: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}."


NEVER = [jwt(b'{"exp": true}'), jwt(b'{"exp": "nan"}'), jwt(b"[7]"), jwt(b"[" * 100_000)]


@pytest.mark.parametrize(
    ("text", "expires_s"),
    [
        (jwt(b'{"exp": 12.5}') + "x", 12.5),
        (jwt(b'{"exp": 7}'), 7.0),
        (jwt(b'{"exp": 7, "error": {}, "expires_in": "soon", "access_token": 1e400}'), 7.0),
        *((text, None) for text in [*NEVER, "e30.e30.x", "e30.!.x", "e30.a.x", "opaque"]),
    ],
)
def test_expiry_is_read_from_token(text: str, expires_s: float | None) -> None:
    assert bearing.expiry_of(text) == expires_s


def test_token_file_is_reread_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenFile(path)
    for lasts_s in (60.0, 50_000.0):
        path.write_text(token("a", lasts_s) + "\n")
        found = source.current()
        assert found.text == path.read_text().strip()
        expected_s = bearing.expiry_of(found.text)
        assert expected_s is not None
        left_s = found.expires_s - time.time()
        assert min(lasts_s, bearing.REREAD_S) - 5 < left_s <= min(lasts_s, bearing.REREAD_S)
        assert found.text not in repr(found)
    path.write_text("opaque")
    assert source.current().text == "opaque"
    assert asyncio.run(source.token()) == "opaque"
    assert source.refresh("")[0] == "opaque"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "contains no token"),
        (b"two words", "or more than one"),
        (b"\xff", "contains no token"),
        (b"x" * (bearing.MAX_BYTES + 1), "contains no token"),
        (jwt(b'{"exp": 1000}').encode(), r"expired \d+ s ago; check that"),
    ],
)
def test_bad_token_file_is_an_error(content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenUnavailable, match=says) as told:
        TokenFile(path).current()
    assert str(path) in str(told.value)
    if content:
        assert content.decode("latin-1") not in str(told.value)
    with pytest.raises(KafkaConnectionError, match=says):
        asyncio.run(TokenFile(path).token())
    with pytest.raises(SecurityRefused, match=says):
        read_security(f"{OAUTH}{URL}=file://{path}\n", {})


class Endpoint(ThreadingHTTPServer):
    """A token endpoint that returns `answer` and records forms with their Authorization headers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, dict[str, list[str]]]] = []
        self.status, self.answer = 200, b"{}"
        super().__init__(("127.0.0.1", 0), _Answering)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"

    def gives(self, text: str, **more: Any) -> None:
        self.status, self.answer = 200, orjson.dumps({"access_token": text, **more})


class _Answering(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        self.server.asked.append((self.headers["Authorization"], parse_qs(form)))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def basic(name: str, secret: str = SECRET) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def test_endpoint_token_is_renewed() -> None:
    clock = Clock()
    with serving() as server:
        source = TokenEndpoint(server.url, "id:1", f"{SECRET}%", "kafka", now_s=clock)
        server.gives("one", expires_in=100)
        assert source.current() == ("one", 1_100.0)
        clock.now_s += 79
        assert source.current().text == "one"
        form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
        assert server.asked == [(basic("id%3A1", f"{SECRET}%25"), form)]
        clock.now_s += 1
        server.gives("two")  # without `expires_in`
        assert source.current() == ("two", clock.now_s + 300)
        assert len(server.asked) == 2


def test_failed_renewal_keeps_old_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    with serving() as server:
        source = TokenEndpoint(server.url, "id", SECRET, now_s=clock)
        server.gives("one", expires_in=100)
        source.current()
        clock.now_s += 90
        server.status, server.answer = 503, b"<html>"
        assert source.current().text == "one"
        assert source.current().text == "one"
        assert len(server.asked) == 2  # one second has not passed
        assert "answers 503; the current token is used" in caplog.text
        clock.now_s += 10
        with pytest.raises(TokenUnavailable, match="answers 503"):
            source.current()
        clock.now_s += 1
        server.gives("two", expires_in=1)
        assert source.current().text == "two"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (401, b'{"error": "invalid_client"}', "answers 401 ('invalid_client'); check the client's"),
        (400, b"", "answers 400; check the client's id and secret"),
        (302, b"", "answers 302"),
        (200, b"<html>", "answers without an `access_token`"),
        (200, b'{"access_token": 7}', "answers without an `access_token`"),
        (200, b'{"access_token": "a b"}', "answers without an `access_token`"),
        (200, b'{"access_token": "a", "expires_in": -1}', "gave a token that has expired"),
        (200, b'{"access_token": "' + b"a" * bearing.MAX_BYTES + b'"}', "answers without an"),
    ],
)
def test_bad_endpoint_answer_is_an_error(status: int, answer: bytes, says: str) -> None:
    with serving() as server:
        server.status, server.answer = status, answer
        with pytest.raises(TokenUnavailable) as told:
            TokenEndpoint(server.url, "id", SECRET).current()
        assert says in str(told.value)
        assert SECRET not in str(told.value)
        assert len(server.asked) == 1  # The secret is not sent to the target of a redirect.


@pytest.mark.parametrize(
    ("odd", "lasts_s"),
    [
        (b'"expires_in": 3600, "exp": "2026-01-01T00:00:00Z"', 3600),
        (b'"expires_in": "3600", "error": {}', 3600),
        (b'"expires_in": 3600, "error": 0', 3600),
        *((b'"expires_in": ' + odd, 300) for odd in (b'""', b"true", b"null", b'"nan"', b"1e400")),
    ],
)
def test_invalid_field_is_ignored(odd: bytes, lasts_s: int) -> None:
    with serving() as server:
        server.answer = b'{"access_token": "abc", %b}' % odd
        found = TokenEndpoint(server.url, "id", SECRET, now_s=Clock()).current()
    assert found == ("abc", 1_000 + lasts_s)


def test_netrc_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "netrc"
    path.write_text("default login a password b\n")
    monkeypatch.setenv("NETRC", str(path))
    with serving() as server:
        server.gives("one")
        assert TokenEndpoint(server.url, "id", SECRET).current().text == "one"
        assert server.asked[0][0] == basic("id")


def test_proxy_variables_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as proxy:
        proxy.gives("proxied")
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url.replace("//", f"//me:{SECRET}@"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert TokenEndpoint("http://idp.invalid/", "id", SECRET).current().text == "proxied"
        with serving() as server:
            server.gives("itself")
            assert TokenEndpoint(server.url, "id", SECRET).current().text == "itself"
        assert len(proxy.asked) == 1
        with pytest.raises(TokenUnavailable, match=r"idp\.invalid/ does not answer") as told:
            TokenEndpoint("https://idp.invalid/", "id", SECRET).current()
        assert SECRET not in str(told.value)


@pytest.mark.parametrize("url", [f"http://user:{SECRET}@127.0.0.1/", "http://a..b/"])
def test_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(TokenUnavailable, match="does not answer: ") as told:
        TokenEndpoint(url, "id", SECRET).current()
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_dripping_endpoint_times_out(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearing, "ANSWER_S", 0.5)
    ends = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(begin)
            while not ends.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        source = TokenEndpoint(f"http://127.0.0.1:{server.getsockname()[1]}/", "id", SECRET)
        try:
            began_s, threads = time.monotonic(), threading.active_count()
            with pytest.raises(TokenUnavailable, match=r"has not answered within 0\.5 s$"):
                source.current()
            assert calm_s(began_s) < 5.0
            assert threading.active_count() == threads  # No reading thread is left.
        finally:
            ends.set()
            thread.join(10)


def test_unreachable_endpoint_is_an_error() -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(TokenUnavailable, match="does not answer: Cannot connect to host"):
        TokenEndpoint(url, "id", SECRET).current()
    text = f"{OAUTH}{URL}={url}\nsasl.oauthbearer.client.id=id\n"
    security = read_security(text, {"INORDER_SASL_OAUTHBEARER_CLIENT_SECRET": SECRET})
    with pytest.raises(BrokersUnavailable, match="no token for b:9092: the token endpoint"):
        find_brokers("b:9092", security)
    assert SECRET not in repr(security)
    assert security.to_aiokafka()["sasl_oauth_token_provider"] is security.bearer
