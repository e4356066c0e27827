"""Examples: options of commands that connect to Kafka, and their refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import TOPOLOGY, inorder, text_file

WORKER = ("worker", "--brokers", "127.0.0.1:1")


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return text_file(tmp_path / "topology.yaml", TOPOLOGY)


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
def test_bad_security_exits_with_2(
    command: tuple[str, ...], topology: Path, tmp_path: Path
) -> None:
    kafka = text_file(tmp_path / "kafka.properties", "sasl.password=secret\n")
    given = ("--topology", topology)
    inorder(*command, *given, "--kafka", kafka).refused(
        f"--kafka {kafka}: sasl.… is set, and PLAINTEXT does not use it"
    )
    inorder(*command, *given, env={"INORDER_SECURITY_PROTOCOL": "TLS"}).refused(
        "the environment: security.protocol (INORDER_SECURITY_PROTOCOL): "
    )
    inorder(*command, *given, env={"INORDER_KAFKA": "absent.properties"}).refused(
        "--kafka absent.properties: No such file or directory"
    )


def test_embedded_takes_no_security(topology: Path) -> None:
    given = ("worker", "--brokers", "embedded", "--topology", topology)
    inorder(*given, env={"INORDER_SECURITY_PROTOCOL": "SSL"}).refused(
        "--brokers embedded uses PLAINTEXT"
    )


def test_brokers_wait_needs_a_unit(topology: Path) -> None:
    says = ("--brokers-wait: ", " has no unit; write 5ms")
    inorder(*WORKER, "--topology", topology, "--brokers-wait=5").refused(*says)
