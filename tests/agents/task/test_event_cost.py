"""Examples: a slow query is named only while records are costly."""

from __future__ import annotations

import logging

import pytest
from aiokafka.structs import TopicPartition

from agents.task.event_cost import REPEAT_S, EventCost
from topology.base.meter import Meter

SOURCE = TopicPartition("events.ordered", 0)


class World:
    """A partition whose queries take the given times."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.meter = Meter()
        self.cost = EventCost(SOURCE, self.meter, lambda: self.now_ns)

    def work(self, records: int, **spent_ms: int) -> str:
        for query, took_ms in spent_ms.items():
            begun_ns = self.meter.begin()
            self.now_ns += took_ms * 10**6
            self.meter.end(query, begun_ns)
        seconds = sum(spent_ms.values()) / 1e3
        self.cost.note_work(self.now_ns / 1e9, seconds, records)
        return self.cost.text


def test_slowest_query_is_named() -> None:
    world = World()
    assert world.work(500, fast=1_000, slow=60_000) == ""
    assert world.meter.clock_ns is not None
    named = "a record takes 125 ms, 98 % of it in the query slow"
    assert world.work(8, fast=20, slow=980) == named
    assert world.work(4) == ""
    assert world.meter.clock_ns is None


@pytest.mark.parametrize(
    ("records", "took_ms", "is_measured"),
    [
        pytest.param(500, 499, False, id="under a millisecond each"),
        pytest.param(500, 500, True, id="a millisecond each"),
        pytest.param(1, 99, False, id="a single one, as the first of a process may take"),
        pytest.param(1, 100, True, id="a single one that takes long"),
    ],
)
def test_costly_records_are_measured(records: int, took_ms: int, is_measured: bool) -> None:
    world = World()
    world.work(records, q=took_ms)
    assert (world.meter.clock_ns is not None) == is_measured


def test_time_is_shown_without_query() -> None:
    world = World()
    for _ in range(2):
        world.cost.note_work(1.0, 1.0, 10)
    assert world.cost.text == "a record takes 100 ms"


def test_cost_is_logged_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.WARNING):
        for _ in range(1 + 2 * int(REPEAT_S)):
            world.work(10, q=1_000)
    told = "events.ordered/0: a record takes 100 ms, 100 % of it in the query q"
    assert [record.message for record in caplog.records] == [told, told]
