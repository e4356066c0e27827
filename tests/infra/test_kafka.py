"""Examples: what is said where the harness's own real broker cannot start, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import infra.kafka
from cli.local.kafka import KafkaBroker, jars
from cli.local.process import NotReady
from infra.kafka import ContainerBroker
from tests.services import require


@pytest.mark.kafka
def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    require(jars.missing())
    broker = KafkaBroker(tmp_path, overrides={"num.io.threads": "none"})
    with pytest.raises(NotReady, match="Invalid value none for configuration num.io.threads"):
        broker.start()


@pytest.mark.parametrize("nodes", [0, 4])
def test_the_number_of_nodes_is_bounded(tmp_path: Path, nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes={nodes}: a local cluster has 1 to 3 nodes"):
        KafkaBroker(tmp_path, nodes=nodes)


@pytest.mark.parametrize(
    ("wanted", "nodes", "kind"),
    [("container", 1, ContainerBroker), ("container", 3, KafkaBroker), ("", 3, KafkaBroker)],
)
def test_broker_is_the_wanted_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str, nodes: int, kind: type
) -> None:
    monkeypatch.setenv("INORDER_BROKER", wanted)
    assert isinstance(infra.kafka.new_broker(tmp_path, nodes=nodes), kind)


def test_without_java_and_docker_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    infra.kafka.container.missing.cache_clear()
    missing = infra.kafka.missing()
    infra.kafka.container.missing.cache_clear()
    assert missing is not None
    assert "install Java 17 and Maven" in missing
    assert "docker not found" in missing
