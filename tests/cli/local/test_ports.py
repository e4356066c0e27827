"""Examples: which port is free, and what is said where the usual one is not."""

from __future__ import annotations

import socket

import pytest

from cli.local.ports import LOOPBACK, free_ports, is_free
from cli.run.dev import kafka_port


def test_a_port_that_was_left_a_moment_ago_is_free() -> None:
    """Its last connections linger for a minute (TIME_WAIT); a broker takes it all the same."""
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)) as server:
        assert not is_free(port)
        client = socket.create_connection((LOOPBACK, port))
        taken, _ = server.accept()
        taken.close()  # the server's end says good-bye first, so it is the one that lingers
        client.recv(1)
        client.close()
    assert is_free(port)


def test_another_port_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert kafka_port(port) == port
    assert capsys.readouterr().err == ""
    with socket.create_server((LOOPBACK, port)):
        other = kafka_port(port)
    assert other != port
    message = capsys.readouterr().err
    assert f"127.0.0.1:{port} is taken" in message
    assert f"write 127.0.0.1:{other} in its place" in message
