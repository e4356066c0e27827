"""Examples: when a process may look seldom, and what wakes it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.kafka.partition_queue import Batch
from agents.stage.arrangement import arrange, topics_of
from agents.stage.handler import StageHandler
from agents.watch.metrics import Metrics
from agents.watch.watchdog import Watchdog
from topology.config import parse


class FakePartition:
    def __init__(self, rests: bool, spoken: frozenset[str] = frozenset()) -> None:
        self.rests = rests
        self.spoken = spoken
        self.is_open = True

    def observe(self) -> None:
        return

    async def take(self, _: Batch) -> None:
        return

    async def close(self) -> None:
        self.is_open = False


def handler(stages: str, rests: Sequence[bool] = (), of: int = 2) -> StageHandler:
    topology = parse(f"streams: {{default: {{}}}}\nstages: [{stages}]\n")
    stage = topology.stages[0]
    partitions = dict.fromkeys(topics_of(topology, stage), of)
    around: Any = SimpleNamespace(query_feed=None)
    log: Any = None
    found = StageHandler(arrange(topology, stage, partitions), around, Watchdog(), log)
    for number, each in enumerate(rests):
        partition: Any = FakePartition(each)
        found._partitions[TopicPartition("events.raw", number)] = partition
    return found


def test_it_rests_when_all_partitions_do() -> None:
    assert handler("reorder+merge", [True, True]).rests
    assert not handler("reorder+merge", [True, False]).rests


def test_a_stage_whose_word_is_waited_for_rests_only_with_the_whole_input() -> None:
    assert not handler("reorder, merge", [True], of=2).rests
    assert handler("reorder, merge", [True, True], of=2).rests
    assert handler("reorder+merge", [True], of=2).rests


def test_only_a_first_stage_wants_ticks() -> None:
    assert handler("reorder, merge").wants_ticks
    topology = parse("streams: {default: {}}\nstages: [reorder, merge]\n")
    stage = topology.stages[1]
    arranged = arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))
    around: Any = SimpleNamespace(query_feed=None)
    log: Any = None
    assert not StageHandler(arranged, around, Watchdog(), log).wants_ticks


def test_a_record_wakes_it() -> None:
    async def scenario() -> None:
        resting = handler("reorder+merge", [True], of=1)
        beating = asyncio.create_task(resting.beat())
        await asyncio.sleep(0)
        source = TopicPartition("events.raw", 0)
        await resting.on_batch(Batch(source, [], 1, 1, None))
        await asyncio.sleep(0)
        assert not beating.done()  # a tick is no record
        await resting.on_batch(Batch(source, [object()], 1, 1, None))
        async with asyncio.timeout(0.5):  # below REST_S
            await beating

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("keyed_by", "stages", "told"),
    [("stream", "", 1), ("source", "", 0), ("stream", "stages: [reorder, merge]\n", 0)],
)
def test_a_stream_that_lies_in_two_partitions_is_told(
    keyed_by: str, stages: str, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    topology = parse(f"streams: {{default: {{keyed_by: {keyed_by}}}}}\n{stages}")
    stage = topology.stages[0]
    partitions = dict.fromkeys(topics_of(topology, stage), 2)
    around: Any = SimpleNamespace(query_feed=None)
    log: Any = None
    found = StageHandler(arrange(topology, stage, partitions), around, Watchdog(), log)
    for number in range(2):
        partition: Any = FakePartition(rests=False, spoken=frozenset({"default"}))
        found._partitions[TopicPartition("events.raw", number)] = partition
    found.observe()
    found.observe()
    assert caplog.text.count("stream default comes in several partitions") == told


def test_when_the_last_partition_has_gone_nothing_refers_to_it() -> None:
    """So whoever collects garbage then finds it."""
    found: Any = handler("reorder+merge", [True, True])
    found._surroundings.metrics = Metrics(CollectorRegistry())
    left = [weakref.ref(each) for each in found._partitions.values()]
    there: list[int] = []
    found._emptied = lambda: there.append(sum(each() is not None for each in left))
    gc.disable()
    try:
        for number in range(2):
            assert there == []
            asyncio.run(found.on_revoked(frozenset({TopicPartition("events.raw", number)})))
    finally:
        gc.enable()
    assert there == [0]
