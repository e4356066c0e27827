"""End to end: the Kafka inside the process, and the limits its docstring names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.kafka.brokers import brokers_at
from agents.kafka.declared import declare
from cli.local.embedded import EmbeddedBroker
from cli.run import dev, worker
from topology.config import parse


def test_a_closed_one_says_so() -> None:
    broker = EmbeddedBroker()
    broker.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        broker.make_topic("raw")


@pytest.mark.parametrize("partitions", [1, 9])
def test_a_worker_has_topics_as_the_file_says_and_dev_has_one_partition_of_each(
    tmp_path: Path, partitions: int
) -> None:
    topology = parse(f"streams: {{default: {{}}}}\ntopics: {{partitions: {partitions}}}\n")
    for brokers, count in (
        (dev._broker("embedded", tmp_path, topology, lambda _: None), dev.PARTITIONS),
        (worker._brokers("embedded", topology), partitions),
    ):
        with brokers as servers:
            wide = {s.name: s.partitions for s in declare(topology)}
            expected = {name: min(partitions, count) for name, partitions in wide.items()}
            assert brokers_at(servers).partitions(expected) == expected


def test_a_topic_that_is_there_stays_as_it_is() -> None:
    with EmbeddedBroker() as broker:
        broker.make_topic("raw", 2)
        broker.make_topic("raw", 3)
        assert brokers_at(broker.bootstrap).partitions(["raw"]) == {"raw": 2}
