"""Examples: the options of commands that speak to Kafka, and how they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import TOPOLOGY, inorder

WORKER = ("worker", "--brokers", "127.0.0.1:1")


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(TOPOLOGY)
    return path


@pytest.mark.parametrize(
    "command",
    [
        WORKER,
        ("topics", "create", "--brokers", "127.0.0.1:1"),
        ("dump", "--brokers", "127.0.0.1:1"),
        ("produce", "--brokers", "127.0.0.1:1", "--topic", "raw"),
    ],
    ids=lambda command: command[0],
)
def test_bad_security_ends_every_command_with_2(
    command: tuple[str, ...], topology: Path, tmp_path: Path
) -> None:
    kafka = tmp_path / "kafka.properties"
    kafka.write_text("sasl.password=secret\n")
    given = ("--topology", topology)
    answer = inorder(*command, *given, "--kafka", kafka)
    assert answer.code == 2
    assert f"--kafka {kafka}: sasl.… is set, and PLAINTEXT does not use it" in answer.err
    answer = inorder(*command, *given, env={"INORDER_SECURITY_PROTOCOL": "TLS"})
    assert answer.code == 2
    assert "the environment: security.protocol (INORDER_SECURITY_PROTOCOL): " in answer.err
    answer = inorder(*command, *given, env={"INORDER_KAFKA": "absent.properties"})
    assert answer.code == 2
    assert "--kafka absent.properties: No such file or directory" in answer.err


def test_the_embedded_broker_takes_no_security(topology: Path) -> None:
    given = ("worker", "--brokers", "embedded", "--topology", topology)
    answer = inorder(*given, env={"INORDER_SECURITY_PROTOCOL": "SSL"})
    assert answer.code == 2
    assert "--brokers embedded uses PLAINTEXT" in answer.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "5 has no unit; write 5ms"),
        ("soon", "soon is not a number with a unit; write it like 5min"),
        ("-5s", "is not a number with a unit"),
    ],
)
def test_a_wait_has_a_unit(topology: Path, text: str, message: str) -> None:
    answer = inorder(*WORKER, "--topology", topology, f"--brokers-wait={text}")
    assert answer.code == 2
    assert "--brokers-wait: " in answer.err
    assert message in answer.err.replace("'", "").replace("`", "")
