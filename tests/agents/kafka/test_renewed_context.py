"""Examples: new connections to a TLS server after the PEM files were replaced."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import pytest

from agents.kafka.security import Security, read_security
from tests.certificates import certificates


def server_context(folder: Path) -> ssl.SSLContext:
    """Return the context of a server that asks clients for a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    return context


async def connect(security: Security, server: ssl.SSLContext) -> bytes:
    """Return the bytes that a new connection to a new server receives."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        context = security.to_aiokafka()["ssl_context"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.fixture
def security(tmp_path: Path) -> Security:
    certificates(tmp_path)
    return read_security(
        f"security.protocol=SSL\nssl.ca.location={tmp_path}/ca.crt\n"
        f"ssl.certificate.location={tmp_path}/client.crt\nssl.key.location={tmp_path}/client.key\n",
        {},
    )


async def test_replaced_files_are_used(security: Security, tmp_path: Path) -> None:
    for _ in range(3):
        assert await connect(security, server_context(tmp_path)) == b"hello"
        certificates(tmp_path)


async def test_old_authority_is_not_trusted(security: Security, tmp_path: Path) -> None:
    former = server_context(tmp_path)
    certificates(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(security, former)


async def test_half_replaced_files_are_not_used(
    security: Security, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server, new = server_context(tmp_path), tmp_path / "new"
    new.mkdir()
    certificates(new)
    with caplog.at_level(logging.WARNING):
        for name in ("ca.crt", "client.crt"):
            shutil.copy(new / name, tmp_path)
        assert await connect(security, server) == b"hello"
    (warning,) = caplog.messages
    assert "cannot be used, so the ones before are used" in warning
    shutil.copy(new / "client.key", tmp_path)
    assert await connect(security, server_context(new)) == b"hello"
