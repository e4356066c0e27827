"""End to end: the embedded broker, and the limits that its docstring names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.kafka.brokers import find_brokers
from agents.kafka.declared import list_needed_topics
from cli.local.embedded import EmbeddedBroker
from cli.run import dev, worker
from topology.config import parse


def test_closed_broker_makes_no_topic() -> None:
    broker = EmbeddedBroker()
    broker.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        broker.make_topic("raw")


@pytest.mark.parametrize("partitions", [1, 9])
def test_only_dev_limits_partitions(tmp_path: Path, partitions: int) -> None:
    """A worker's broker has as many partitions as the file sets; the broker of `dev` gives each
    topic one.
    """
    topology = parse(f"streams: {{default: {{}}}}\ntopics: {{partitions: {partitions}}}\n")
    for brokers, count in (
        (dev._run_broker("embedded", tmp_path, topology, lambda _: None), dev.PARTITIONS),
        (worker._run_brokers("embedded", topology), partitions),
    ):
        with brokers as servers:
            wide = {s.name: s.partitions for s in list_needed_topics(topology)}
            expected = {name: min(partitions, count) for name, partitions in wide.items()}
            assert find_brokers(servers).count_partitions(expected) == expected


def test_existing_topic_is_kept() -> None:
    with EmbeddedBroker() as broker:
        broker.make_topic("raw", 2)
        broker.make_topic("raw", 3)
        assert find_brokers(broker.bootstrap).count_partitions(["raw"]) == {"raw": 2}
