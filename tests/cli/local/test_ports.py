"""Examples: free ports, and the message when the usual port is taken."""

from __future__ import annotations

import socket

import pytest

from cli.local.ports import LOOPBACK, free_ports, is_free
from cli.run.dev import choose_kafka_port


def test_recently_used_port_is_free() -> None:
    """A port's last connections stay in TIME_WAIT for a minute, but a broker can still listen on
    it.
    """
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)) as server:
        assert not is_free(port)
        client = socket.create_connection((LOOPBACK, port))
        taken, _ = server.accept()
        taken.close()  # The server closes first, so its end is the one that lingers.
        client.recv(1)
        client.close()
    assert is_free(port)


def test_other_port_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert choose_kafka_port(port) == port
    assert capsys.readouterr().err == ""
    with socket.create_server((LOOPBACK, port)):
        other = choose_kafka_port(port)
    assert other != port
    message = capsys.readouterr().err
    assert f"127.0.0.1:{port} is taken" in message
    assert f"write 127.0.0.1:{other} in its place" in message
