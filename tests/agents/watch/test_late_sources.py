"""Examples: who is late most often is told by name, and no more names than the bound."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, generate_latest

from agents.watch import late_sources
from agents.watch.late_sources import LONGEST_NAME, TOLD, LateSources, Place

READ = 1_000


def place(partition: int, topic: str = "raw") -> Place:
    return "merge", TopicPartition(topic, partition)


PLACE = place(0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def told(registry: CollectorRegistry, what: str = "late") -> dict[str, float]:
    return {
        sample.labels["source"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"inorder_source_{what}_total"
    }


def test_share_late_of_a_source(registry: CollectorRegistry) -> None:
    """Both count from its first late event on."""
    read = {"a": 900, "b": 5}
    table = LateSources(registry).table(PLACE, lambda stream, source: read[source])
    table.note([("pitch", "a")] * 3 + [("pitch", "b")])
    read["a"] += 99
    labels = {"stage": "merge", "stream": "pitch", "source": "a"}
    assert registry.get_sample_value("inorder_source_late_total", labels) == 3
    assert registry.get_sample_value("inorder_source_read_total", labels) == 100
    assert told(registry) == {"a": 3, "b": 1}
    read["a"] = 7  # forgotten, and come anew
    assert told(registry, "read") == {"a": 7, "b": 1}
    read["a"] = 1_000
    assert told(registry, "read") == {"a": 1_000, "b": 1}


def test_the_share_of_one_that_lost_its_place_and_came_back_is_no_less(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its late events are counted anew then, so what is read of it is too."""
    monkeypatch.setattr(late_sources, "COUNTED", 2)
    read: Counter[str] = Counter()
    table = LateSources(registry).table(PLACE, lambda stream, source: read[source])

    def comes(*names: str, times: int) -> None:
        for number in range(times):
            for name in names:
                read[name] += 1
                if name != "bad" or number % 2:
                    table.note([("pitch", name)])

    comes("bad", times=100)
    comes("x", "y", times=200)
    assert not table.counts.of(("pitch", "bad")).amount, "else nothing is shown"
    read["bad"] += 500
    comes("bad", times=1_000)
    assert told(registry)["bad"] == 500
    assert told(registry, "read")["bad"] == 999


def test_one_that_is_late_often_is_found_among_very_many(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_sources, "COUNTED", 50)
    table = LateSources(registry).table(PLACE, lambda stream, source: READ)
    rng = Random(3)
    came: Counter[str] = Counter()
    for _ in range(20_000):
        name = f"often-{rng.randrange(3)}" if rng.random() < 0.2 else f"s{rng.randrange(100_000)}"
        came[name] += 1
        table.note([("pitch", name)])
        assert len(table.counts) <= 50
    found = told(registry)
    assert len(found) <= TOLD
    for number in range(3):
        name = f"often-{number}"
        assert came[name] * 0.9 < found[name] <= came[name]


def test_the_bound_holds_over_partitions_and_names(registry: CollectorRegistry) -> None:
    sources = LateSources(registry)
    for partition in range(4):
        table = sources.table(place(partition), lambda stream, source: READ)
        table.note([("pitch", f"{partition}-{n}") for n in range(TOLD)])
    sources.table(place(9), lambda _, __: READ).note([("pitch", "x" * 500)] * 2)
    found = told(registry)
    assert len(found) == TOLD
    assert max(map(len, found)) == LONGEST_NAME
    sources.forget(place(9))
    assert max(map(len, told(registry))) < 10


def test_a_source_in_two_partitions_is_one_series(registry: CollectorRegistry) -> None:
    sources = LateSources(registry)
    read = 1
    for partition in range(2):
        sources.table(place(partition), lambda _, __: read).note([("pitch", "wanders")])
    read = READ
    assert told(registry) == {"wanders": 2}
    assert told(registry, "read") == {"wanders": 2 * READ}
    assert b'source="wanders"' in generate_latest(registry)


def test_the_same_partition_of_two_topics_has_two_tables(registry: CollectorRegistry) -> None:
    """A stage may read both; what one gives up stays with the other."""
    sources = LateSources(registry)
    for topic, stream in (("raw-a", "a"), ("raw-b", "b")):
        table = sources.table(place(0, topic), lambda _, __: READ)
        table.note([(stream, f"of-{stream}")] * 2)
    assert told(registry) == {"of-a": 2, "of-b": 2}
    sources.forget(place(0, "raw-a"))
    assert told(registry) == {"of-b": 2}


def test_what_is_forgotten_is_not_told(registry: CollectorRegistry) -> None:
    LateSources(registry).table(PLACE, lambda _, __: 0).note([("pitch", "gone")])
    assert told(registry) == {}
