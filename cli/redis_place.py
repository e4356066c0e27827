"""Prepares the Redis of `state: redis` and `sink redis`: its URL, and a first connection.

    redis://HOST:PORT/0
    rediss://HOST:PORT/0?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE       TLS
    INORDER_REDIS_PASSWORD, or INORDER_REDIS_PASSWORD_FILE: the password, if the URL has none

Without `ssl_ca_certs`, the machine's own authorities are used. `ssl_certfile` and `ssl_keyfile`
belong together, for a server that asks for a certificate. The files must exist and be valid.
Secrets come from the environment or a file, and none is shown.

`check_access` connects once. A server that does not answer is only logged, because sinks and stages
wait for it. If the server refuses the connection, waiting cannot help, so the command is refused at
the start.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from cli.topology_file import Refused, refusing, text_of

log = logging.getLogger("inorder.redis")

PASSWORD: Final = "INORDER_REDIS_PASSWORD"
PASSWORD_FILE: Final = PASSWORD + "_FILE"
FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
KNOCK_S: Final = 3.0
DEFAULT_PORT: Final = 6379


def add_redis_password(url: str) -> str:
    """Return the URL with the password from the environment added.

    Raises `Refused` if URL and environment both have a password, or if the files that the URL names
    are not usable.
    """
    place = urlsplit(url)
    given = dict(parse_qsl(place.query))
    encrypts = place.scheme == "rediss"
    for name in given:
        if name.startswith("ssl_") and not encrypts:
            raise Refused(
                f"the URL of Redis has {name}, and {place.scheme}:// does not encrypt; write"
                " rediss://"
            )
    if encrypts:
        _make_ssl_context(given)
    password = _read_password()
    if password is None:
        return url
    if place.password is not None or "password" in given:
        raise Refused(f"the URL of Redis has a password, and {PASSWORD} too; leave one out")
    before, _, host = place.netloc.rpartition("@")
    return place._replace(netloc=f"{before}:{quote(password, safe='')}@{host}").geturl()


def _make_ssl_context(given: dict[str, str]) -> ssl.SSLContext:
    for name in FILES:
        if name in given and not Path(given[name]).is_file():
            raise Refused(f"the URL of Redis: {name}: there is no file {given[name]}")
    authority, certificate, key = (given.get(name) for name in FILES)
    if (certificate is None) != (key is None):
        raise Refused("the URL of Redis: ssl_certfile and ssl_keyfile must be given together")
    # The errors of `ssl` are subclasses of OSError.
    with refusing(OSError, at="the URL of Redis: its PEM files cannot be used: "):
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password=given.get("ssl_password", ""))
        return context


def _read_password() -> str | None:
    given, path = os.environ.get(PASSWORD), os.environ.get(PASSWORD_FILE)
    if given is not None and path is not None:
        raise Refused(f"{PASSWORD} and {PASSWORD_FILE} are both set; leave one out")
    if path is None:
        return given
    return text_of(path, f"{PASSWORD_FILE}: {path}").strip("\r\n")


def check_access(url: str) -> None:
    """Connect to Redis once, and raise `Refused` if the server refuses the connection.

    Blocks for seconds at most. A server that does not answer is only logged.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    client = redis.Redis.from_url(
        url,
        socket_connect_timeout=KNOCK_S,
        socket_timeout=KNOCK_S,
        retry=Retry(NoBackoff(), 0),
    )
    where = _address_of(client)
    try:
        client.ping()
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise Refused(
            f"Redis at {where} denies access: {error}; give the right user in the URL and the"
            f" password in {PASSWORD_FILE}"
        ) from error
    except redis.RedisError as error:
        fault = _handshake_fault(url) or str(error)
        if remedy := _tls_remedy_for(fault):
            raise Refused(f"Redis at {where}: {fault}; {remedy}") from error
        hint = "; if it runs, check that it speaks TLS there" if url.startswith("rediss") else ""
        log.warning("Redis at %s does not answer: %s%s", where, error, hint)
    finally:
        client.close()


def _address_of(client: Any) -> str:
    settings = client.connection_pool.connection_kwargs
    return settings.get("path") or f"{settings.get('host')}:{settings.get('port')}"


def _handshake_fault(url: str) -> str:
    """Return the fault that a TLS server reports about our handshake, or "" if there is none.

    The Redis client loses the report if the server closes the connection during a write.
    """
    place = urlsplit(url)
    if place.scheme != "rediss":
        return ""
    host, port = place.hostname or "localhost", place.port or DEFAULT_PORT
    context = _make_ssl_context(dict(parse_qsl(place.query)))
    try:
        with (
            socket.create_connection((host, port), KNOCK_S) as opened,
            context.wrap_socket(opened, server_hostname=host) as spoken,
        ):
            spoken.settimeout(KNOCK_S)
            spoken.recv(1)
    except ssl.SSLError as error:
        return str(error)
    except OSError:
        return ""
    return ""


def _tls_remedy_for(reason: str) -> str:
    """Return the remedy for a TLS error between client and server, or "" for any other error.

    `reason` is the text of the error.
    """
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "name the authority that signed its certificate in ssl_ca_certs of the URL"
    if "certificate required" in reason.lower() or "CERTIFICATE_REQUIRED" in reason:
        return "it asks for a certificate: write ssl_certfile and ssl_keyfile into the URL"
    if "UNKNOWN_CA" in reason:
        return "it does not know the authority that signed the certificate of ssl_certfile"
    if "WRONG_VERSION_NUMBER" in reason or "record layer failure" in reason:
        return "it does not speak TLS there: write redis://, or the port of TLS"
    return ""
