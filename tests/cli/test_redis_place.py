"""Examples: a real Redis over TLS with a password and a certificate, and refused settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import infra.redis
from agents.state.stores.redis import RedisStore, connect
from agents.state.stores.store import StoreName
from cli.redis_place import add_redis_password, check_access
from cli.topology_file import Refused
from infra.redis import RedisServer
from sinks.redis import RedisSink
from sinks.redis import connect as connect_sink
from tests.certificates import certificates
from tests.cli.invoking import inorder, text_file
from tests.services import require
from tests.sinks.results import result

SECRET = "correct-horse@battery/staple"


class Encrypted(NamedTuple):
    server: RedisServer
    folder: Path

    def url(self, *, by: str = "client", authority: bool = True) -> str:
        files = [f"ssl_ca_certs={self.folder}/ca.crt"] if authority else []
        if by:
            files += [f"ssl_certfile={self.folder}/{by}.crt", f"ssl_keyfile={self.folder}/{by}.key"]
        return f"rediss://127.0.0.1:{self.server.port}/0?{'&'.join(files)}"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    require(infra.redis.missing())
    folder = tmp_path_factory.mktemp("redis-tls")
    certificates(folder)
    with RedisServer(folder / "redis", tls=folder, password=SECRET) as server:
        yield Encrypted(server, folder)


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET + "\n")
    monkeypatch.setenv("INORDER_REDIS_PASSWORD_FILE", str(tmp_path / "password"))


@pytest.mark.redis
@pytest.mark.usefixtures("secret")
def test_stores_and_sinks_work_over_tls(encrypted: Encrypted) -> None:
    url = add_redis_password(encrypted.url())
    check_access(url)
    store = RedisStore(connect(url), StoreName("shop", "reorder", "raw", 0))
    store.apply({b"k": b"v"}, None, 7)
    assert (store.position(), list(store.items())) == (7, [(b"k", b"v")])
    store.close()
    sink = RedisSink(connect_sink(url), "results")
    assert list(sink.write([result("a", 0)])) == []
    sink.close()


@pytest.mark.redis
@pytest.mark.usefixtures("secret")
def test_refused_access_is_explained(encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, says in (
        (encrypted.url(by=""), "it asks for a certificate: write ssl_certfile and ssl_keyfile"),
        (encrypted.url(authority=False), "name the authority that signed its certificate"),
    ):
        with pytest.raises(Refused, match=says):
            check_access(add_redis_password(url))
    monkeypatch.delenv("INORDER_REDIS_PASSWORD_FILE")
    monkeypatch.setenv("INORDER_REDIS_PASSWORD", "wrong-" + SECRET)
    with pytest.raises(Refused, match="denies access") as refused:
        check_access(add_redis_password(encrypted.url()))
    assert SECRET not in str(refused.value)


@pytest.mark.redis
def test_refused_worker_does_not_start(encrypted: Encrypted, tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.yaml", "streams: {default: {}}\nstate: redis\n")
    env = {"INORDER_REDIS": encrypted.url(), "INORDER_REDIS_PASSWORD": "wrong"}
    inorder("worker", "--topology", path, "--brokers", "127.0.0.1:1", env=env).refused(
        "denies access"
    )


def test_unreachable_server_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """No error is raised, so the command continues."""
    check_access("redis://127.0.0.1:1/0")
    assert "Redis at 127.0.0.1:1 does not answer" in caplog.text


def test_password_is_added_to_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    assert add_redis_password("redis://h:1/0") == "redis://h:1/0"
    monkeypatch.setenv("INORDER_REDIS_PASSWORD", "a@b/c")
    assert add_redis_password("redis://h:1/0") == "redis://:a%40b%2Fc@h:1/0"
    assert add_redis_password("redis://me@h:1/0?x=y") == "redis://me:a%40b%2Fc@h:1/0?x=y"
    with pytest.raises(Refused, match="has a password, and INORDER_REDIS_PASSWORD too"):
        add_redis_password("redis://:p@h:1/0")
    monkeypatch.setenv("INORDER_REDIS_PASSWORD_FILE", "/absent")
    with pytest.raises(Refused, match="are both set"):
        add_redis_password("redis://h:1/0")
    monkeypatch.delenv("INORDER_REDIS_PASSWORD")
    with pytest.raises(Refused, match="INORDER_REDIS_PASSWORD_FILE: /absent: No such file"):
        add_redis_password("redis://h:1/0")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://h?ssl_ca_certs={here}", "redis:// does not encrypt; write rediss://"),
        ("rediss://h?ssl_ca_certs=/absent", "ssl_ca_certs: there is no file /absent"),
        ("rediss://h?ssl_ca_certs={here}", "its PEM files cannot be used"),
        ("rediss://h?ssl_certfile={here}", "ssl_certfile and ssl_keyfile must be given together"),
        ("rediss://h?ssl_certfile={here}&ssl_keyfile={here}", "its PEM files cannot be used"),
    ],
)
def test_bad_tls_files_are_refused(url: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "not.pem").write_text("no certificate")
    with pytest.raises(Refused) as refused:
        add_redis_password(url.format(here=tmp_path / "not.pem"))
    assert says in str(refused.value)
