"""Examples: a task that reads several partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import End, FetchRequest, GroupBatch, PolledBatch, steady_ns
from agents.stage.arrival import LOG_APPEND_TIME
from agents.stage.input_lag import SILENT_AFTER_NS
from agents.stage.lane import Lane
from agents.task import partition
from agents.task.partition import READ_AHEAD_NS, Partition
from tests.agents.records import FakeRecord, arranged, services_of
from tests.agents.stage.chain import Chain, LaneAhead
from tests.agents.task.test_partition import Delivery
from topology.base.event import NO_EPOCH
from topology.config import parse

TEXT = "streams: {default: {clock: {unsynced: trust}}}\nstages: [reorder+merge]\nstate: memory\n"
LANES = [TopicPartition("events.raw", number) for number in range(3)]
MS = 1_000_000
BEGIN_MS = 1_700_000_000_000


def task_of(delivery: Any) -> Partition:
    task = Partition(LANES[0], arranged(TEXT, partitions=3), services_of("reorder+merge", delivery))
    task.is_open = True
    return task


def record(offset: int, source: str, seq: int, ms: int) -> FakeRecord:
    stamp = b"%d" % ((BEGIN_MS + ms) * MS)
    headers = (("sourceId", source.encode()), ("seqNum", b"%d" % seq), ("ts", stamp))
    return FakeRecord(offset, headers, timestamp=BEGIN_MS + ms, timestamp_type=LOG_APPEND_TIME)


def poll(records: Mapping[int, list[FakeRecord]], asked_ns: int | None = None) -> GroupBatch:
    """Return a poll of the lanes without ticks; the broker was asked now, or at `asked_ns`."""
    batches = []
    for lane, some in records.items():
        end = some[-1].offset + 1
        asked = FetchRequest(steady_ns() if asked_ns is None else asked_ns, time.time_ns(), 0)
        batches.append(PolledBatch(LANES[lane], some, End(end, end + 1, asked)))
    return GroupBatch(LANES[0], batches)


async def test_transaction_has_all_offsets() -> None:
    delivery = Delivery()
    task = task_of(delivery)
    await task.take(poll({lane: [record(0, f"s{lane}", 0, lane)] for lane in range(3)}))
    await task.take(poll({1: [record(1, "s1", 1, 9), record(2, "s1", 2, 9)]}))
    await task.settle()
    assert [*delivery.committed[-1].offsets.items()] == [
        (LANES[0], 1),
        (LANES[1], 3),
        (LANES[2], 1),
    ]
    shown = task.explain(1)
    assert [(lane["partition"], lane["next_offset"]) for lane in shown["lanes"]] == [
        (0, 1),
        (1, 3),
        (2, 1),
    ]
    assert shown["alignment"]["waiting_for"] == ["events.raw/0"]
    await task.abandon()


async def test_lane_far_ahead_waits() -> None:
    task = task_of(Delivery())
    ahead_ms = READ_AHEAD_NS // MS + 1
    await task.take(poll({lane: [record(0, f"s{lane}", 0, 0)] for lane in range(3)}))
    assert [*task.find_far_ahead()] == []
    await task.take(poll({1: [record(1, "s1", 1, ahead_ms)]}))
    assert [*task.find_far_ahead()] == [LANES[1]]
    silent_ns = steady_ns() - 2 * SILENT_AFTER_NS
    for lane in (0, 2):
        await task.take(poll({lane: [record(1, f"s{lane}", 1, 1)]}, asked_ns=silent_ns))
    assert [*task.find_far_ahead()] == [], "a broker that is away holds nobody back for good"
    assert [at for at, _ in task.faults()] == [LANES[0], LANES[2]]
    await task.abandon()


@pytest.mark.parametrize("seed", range(10))
async def test_poll_checks_each_lane_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane is far ahead if it is ahead of any lane whose broker answers."""
    rng, many = Random(seed), 64
    stage = arranged(TEXT, partitions=many)
    task = Partition(LANES[0], stage, services_of("reorder+merge", Delivery()))
    task.is_open = True
    lanes = [*task.state.lanes.values()]
    silent = {lane.number for lane in lanes if rng.random() < rng.choice((0.1, 1.0))}
    for lane in lanes:
        lane.clock.now_ns = BEGIN_MS * MS + rng.randrange(3) * READ_AHEAD_NS + rng.randrange(3)
    monkeypatch.setattr(partition, "READ_AHEAD", rng.choice((-1, 0)))
    apart_ns = READ_AHEAD_NS if partition.READ_AHEAD == 0 else 0
    looked: list[int] = []

    def is_silent(lane: Lane) -> bool:
        looked.append(lane.number)
        return lane.number in silent

    monkeypatch.setattr(Lane, "is_silent", property(is_silent))
    found = {*task.find_far_ahead()}
    assert len(looked) <= many
    assert found == {
        one.partition
        for one in lanes
        for other in lanes
        if other.number not in silent and other.clock.now_ns < one.clock.now_ns - apart_ns
    }
    await task.abandon()


async def test_reports_name_real_offsets() -> None:
    """Inside the task, an event's offset includes the number of its lane."""
    task = task_of(Delivery())
    bad = record(3, "s1", 0, 0)
    bad.headers = (("sourceId", b"s1"), ("seqNum", b"none"))
    lanes = {lane: [record(0, f"s{lane}", 0, 0)] for lane in (0, 2)}
    await task.take(poll({**lanes, 1: [bad]}))
    ((_, dead),) = task.metrics.deaths.reasons()
    assert (dead.log, dead.offset) == ("events.raw/1", 3)
    (note,) = task.metrics.decisions.about(None, "s1", NO_EPOCH, -1)
    assert (note["log"], note["offset"]) == ("events.raw/1", 3)
    await task.abandon()


async def test_full_buffer_polls_last_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "READ_AHEAD", 2)
    task = task_of(Delivery())

    def ahead() -> list[bool]:
        found = {*task.find_far_ahead()}
        return [lane in found for lane in LANES]

    await task.take(poll({lane: [record(0, f"s{lane}", 0, 0)] for lane in range(3)}))
    assert ahead() == [False, False, False]
    await task.take(poll({0: [record(1, "s0", 1, 2), record(2, "s0", 2, 3)]}))
    await task.take(poll({1: [record(1, "s1", 1, 1)]}))
    assert ahead() == [True, True, False]
    await task.take(poll({2: [record(1, "s2", 1, 3)]}))
    assert ahead() == [True, False, True]
    await task.take(poll({1: [record(2, "s1", 2, 5)]}))
    assert ahead() == [False, False, False]
    await task.abandon()


async def test_unknown_stream_is_dead_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records are aligned before their streams are looked up."""
    topology = parse(TEXT + "topics: {partitions: 2}\n")
    strange = record(0, "s1", 0, 150)
    strange.headers = (*strange.headers, ("streamId", b"strange"))
    chain = Chain(topology, {LANES[0]: [record(0, "s0", 0, 0)], LANES[1]: [strange]})
    await chain.through(None, LaneAhead(), monkeypatch)
    puts = [put for topic, put in chain.put if topic == topology.topics.dead]
    assert [json.loads(put.value or b"")["reason"] for put in puts] == ["unknown_stream"]


async def test_backlog_skips_oldest_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of(Delivery())
    await task.take(poll({lane: [record(0, f"s{lane}", 0, 0)] for lane in range(3)}))
    looking = Mock(wraps=task.state.held.oldest)
    monkeypatch.setattr(task.state.held, "oldest", looking)
    for far_behind_ns, looks in ((0, 0), (1 << 62, 1)):
        monkeypatch.setattr(partition, "FAR_BEHIND_NS", far_behind_ns)
        task.observe()
        assert (task.waits, looking.call_count) == (True, looks)
    await task.abandon()


@pytest.mark.parametrize("own", [True, False])
def test_keyed_partitions_are_tasks(own: bool) -> None:
    keyed = "keyed_by: stream, " if own else ""
    arrangement = arranged(TEXT.replace("clock:", f"{keyed}clock:"), partitions=3)
    groups = {arrangement.group_of(lane).lanes for lane in LANES}
    assert groups == ({(lane,) for lane in LANES} if own else {tuple(LANES)})
    assert arrangement.together == ([] if own else [["events.raw"]])


async def test_old_timestamps_name_topic() -> None:
    """Both topics of a join are in one task, and their partitions have the same numbers."""
    sides = "{x: {stream: old}, y: {stream: new}}"
    stage = arranged(
        "state: memory\nstreams: {old: {input: old}, new: {input: new}}\n"
        f"queries: {{both: {{join: interval 1s, sides: {sides}}}}}\nstages: [reorder+merge+join]\n"
    )
    (source,) = stage.tasks
    task = Partition(source, stage, services_of("reorder+merge+join", Delivery()))
    task.is_open = True
    came = {"old": record(0, "s", 0, -806 * 3_600_000), "new": record(0, "s", 0, 0)}
    for topic, each in came.items():
        each.timestamp = BEGIN_MS
        batch = PolledBatch(TopicPartition(topic, 0), [each], End(1, 1))
        await task.take(GroupBatch(source, [batch]))
    (line,) = task.describe_stale()
    assert line.startswith("old: stamps are 806 h behind arrivals")
    await task.abandon()
