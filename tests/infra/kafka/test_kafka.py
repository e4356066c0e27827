"""Examples: the harness chooses its Kafka broker, and names the cause if it cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

import infra.kafka
from cli.local.kafka import KafkaBroker, jars
from cli.local.process import NotReady
from infra.kafka import ContainerBroker
from tests.services import require


@pytest.mark.kafka
def test_failed_broker_names_cause(tmp_path: Path) -> None:
    require(jars.missing())
    broker = KafkaBroker(tmp_path, overrides={"num.io.threads": "none"})
    with pytest.raises(NotReady, match="Invalid value none for configuration num.io.threads"):
        broker.start()


@pytest.mark.parametrize("nodes", [0, 4])
def test_number_of_nodes_is_bounded(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes={nodes}: a local cluster has 1 to 3 nodes"):
        KafkaBroker(tmp_path, nodes=nodes)


@pytest.mark.parametrize(
    ("wanted", "nodes", "kind"),
    [("container", 1, ContainerBroker), ("container", 3, KafkaBroker), ("", 3, KafkaBroker)],
)
def test_environment_chooses_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str, nodes: int, kind: type
) -> None:
    monkeypatch.setenv("INORDER_BROKER", wanted)
    assert isinstance(infra.kafka.new_broker(tmp_path, nodes=nodes), kind)


def test_missing_java_has_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    infra.kafka.container.missing.cache_clear()
    missing = infra.kafka.missing()
    infra.kafka.container.missing.cache_clear()
    assert missing is not None
    assert "install Java 17 and Maven" in missing
    assert "docker not found" in missing
