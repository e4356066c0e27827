"""Examples: brokers that do not answer are asked again, each try is logged, and the wait ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import agents.kafka.brokers
from agents.kafka.brokers import BrokersUnavailable, await_brokers, find_brokers
from agents.kafka.security import PLAINTEXT
from cli.local.embedded import EmbeddedBroker
from cli.local.ports import free_ports
from tests.cli.invoking import TOPOLOGY, inorder


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    looks_s = count(0.0, 0.4)  # each reading is 0.4 s after the one before
    clock = SimpleNamespace(monotonic=lambda: next(looks_s))
    monkeypatch.setattr(agents.kafka.brokers, "time", clock)
    monkeypatch.setattr(agents.kafka.brokers, "REFUSED_S", 0.3)
    monkeypatch.setattr(agents.kafka.brokers, "PAUSE_S", 0.1)


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


def test_tries_are_logged_until_the_end(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "agents.kafka.brokers"),
        pytest.raises(BrokersUnavailable, match="waited for 1 s") as absent,
    ):
        asyncio.run(await_brokers(nobody, PLAINTEXT, 1.0))
    tries = [message for message in caplog.messages if message.startswith("waiting for brokers, ")]
    assert len(tries) == 2
    for said in [*tries, str(absent.value)]:
        assert f"no broker answers at {nobody}" in said
        assert "Connection refused" in said


def test_zero_wait_means_one_try(
    nobody: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agents.kafka.brokers, "TRY_S", 60.0)
    began_s = time.monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(BrokersUnavailable, match="refused"):
        asyncio.run(await_brokers(nobody, PLAINTEXT, 0.0))
    assert time.monotonic() - began_s < 30.0
    assert caplog.messages == []


def test_slow_server_gets_a_whole_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents.kafka.brokers, "TRY_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began_s = time.monotonic()
        with pytest.raises(BrokersUnavailable):
            asyncio.run(await_brokers(f"127.0.0.1:{silent.getsockname()[1]}", PLAINTEXT, 0.0))
    assert time.monotonic() - began_s >= 1.0


def test_brokers_are_returned_at_once(embedded_broker: EmbeddedBroker) -> None:
    brokers = asyncio.run(await_brokers(embedded_broker.bootstrap, PLAINTEXT, 60.0))
    assert brokers == find_brokers(embedded_broker.bootstrap)
    assert brokers.is_embedded


def test_doctor_reports_its_wait(
    nobody: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(agents.kafka.brokers, "TIMEOUT_S", 2.0)
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    answer = inorder("doctor", "--topology", tmp_path / "t.yaml", "--brokers", nobody)
    waiting, end = answer.err.splitlines()
    assert (answer.code, answer.out) == (2, "")
    assert waiting.startswith("waiting for brokers, at most 2 s more: no broker answers at")
    assert end.startswith(f"Error: no broker answers at {nobody}")
