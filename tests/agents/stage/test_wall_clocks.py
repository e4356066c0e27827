"""Law: the wall clock of a worker changes no result, whatever it shows and whenever it steps.

The records have arrival times, so time comes from the brokers. There are no brokers
(tests/agents/stage/chain).
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.broker_times import Probe
from agents.kafka.partition_queue import End, FetchRequest
from inorder.header_writer import HeaderWriter
from tests.agents.records import FakeRecord, Put, batch_of, close
from tests.agents.restore.test_history import log_of, text_of
from tests.agents.stage.chain import Chain, Wall
from tests.seeds import seeds_of_today
from topology.config import HeaderConfig, parse

S = 1_000_000_000
HOUR = 3_600 * S


def stepping(dice: Random, begin_ns: int) -> Wall:
    """Return a clock that drifts, and steps by up to an hour both ways for some seconds."""
    edges_ns = [begin_ns + dice.randrange(60) * S for _ in range(8)]
    steps_ns = [dice.choice((-HOUR, -5 * S, 5 * S, HOUR)) for _ in edges_ns]
    drift_ppm = dice.randrange(-50_000, 50_000)

    def shows(true_ns: int) -> int:
        off_ns = (true_ns - begin_ns) * drift_ppm // 1_000_000
        for edge_ns, step_ns in zip(edges_ns, steps_ns, strict=True):
            if edge_ns <= true_ns < edge_ns + 10 * S:
                off_ns += step_ns
        return true_ns + off_ns

    return shows


def run_chain(
    seed: int, patch: pytest.MonkeyPatch, wall: Wall | None
) -> tuple[list[str], list[Put]]:
    """Return the output of all stages, partition by partition, under this wall clock."""
    dice = Random(seed)
    topology = parse(text_of(dice, cut=seed % 2 == 0))
    logs = log_of(dice, topology)
    chain = Chain(topology, logs) if wall is None else Chain(topology, logs, wall=wall)
    dice_of_wall = Random(seed)
    if wall is not None:
        patch.setattr(time, "time_ns", lambda: dice_of_wall.randrange(2 * chain.end_ms) * 1_000_000)
    asyncio.run(chain.through(None, dice, patch))
    patch.undo()
    return [topic for topic, _ in chain.put], [put for _, put in chain.put]


@pytest.mark.parametrize("seed", seeds_of_today(4))
def test_law_wall_clock_has_no_effect(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topics, expected = run_chain(seed, monkeypatch, None)
    assert expected
    dice = Random(seed)
    begin_ns = 1_700_000_000 * S
    walls = (stepping(dice, begin_ns), lambda _: 0, lambda true_ns: true_ns + HOUR)
    for wall in walls:
        assert run_chain(seed, monkeypatch, wall) == (topics, expected)


AHEAD = 60 * S
TRUE, WRONG = 0, 1
TOPOLOGY = """\
application: led
state: memory
stages: [reorder+merge]
topics: {partitions: 1}
streams: {default: {input: raw}}
"""


async def test_clock_of_new_leader_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new leader's clock is not trusted, since another broker led before."""
    begin_ms, writer = 1_700_000_000_000, HeaderWriter(HeaderConfig())

    def record(number: int, ahead_ns: int = 0) -> FakeRecord:
        stamp_ms = begin_ms + 10 * number
        ts_ns = stamp_ms * 1_000_000
        headers: Any = writer.write("s", number, ts_ns=ts_ns, epoch=0, stream="default")
        append_ms = stamp_ms + ahead_ns // 1_000_000
        return FakeRecord(number, tuple(headers), b"{}", b"s", append_ms)

    log = [*(record(number) for number in range(200)), record(200, AHEAD)]
    source = TopicPartition("raw", 0)
    chain = Chain(parse(TOPOLOGY), {source: log})
    (place,) = chain.places
    partition = await place.opened(None, monkeypatch)

    async def take(leader: int, records: list[FakeRecord], true_ns: int) -> None:
        """Take the records, if any, and then the end of the log."""
        ahead = Probe(true_ns + AHEAD, true_ns, true_ns)
        chain.broker_times.take_probes({TRUE: Probe(true_ns, true_ns, true_ns), WRONG: ahead})
        end = records[-1].offset + 1 if records else partition.state.first.next_offset or 0
        at_end = End(end, end, FetchRequest(true_ns, 0, leader))
        await partition.take(batch_of(source, records, at_end))

    begin_ns = begin_ms * 1_000_000
    for second in range(-600, 0, 5):
        await take(TRUE, [], begin_ns + second * S)
    await take(TRUE, log[:200], begin_ns + 2 * S)
    await take(WRONG, log[200:], begin_ns + 2 * S + S // 50)
    assert partition.state.first.clock.now_ns < begin_ns + 5 * S
    assert "a broker's clock is wrong" in str([*partition.faults()])
    await close(partition)
