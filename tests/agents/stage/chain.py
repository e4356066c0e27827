"""A worker without brokers: it runs the partitions of all stages of a topology, stage by stage.

Topics and committed records are lists; now and then partitions are lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import cycle
from random import Random
from unittest.mock import AsyncMock

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.broker_times import BrokerTimes, Probe
from agents.kafka.log_reader import LogReader
from agents.kafka.partition_queue import End, FetchRequest, GroupBatch, PolledBatch
from agents.kafka.stage_topics import ORDERED, SEQUENCED, changelog_topic, has_work, inputs_of
from agents.restore.history import Histories
from agents.restore.restoring import FoundState
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.stage.delivery import Checkpoint, CommitFailed, Delivery
from agents.state import changelog
from agents.state.changelog import OnProgress
from agents.state.local_copy import LocalCopy
from agents.state.stores.seal import StateTally
from agents.task.partition import Partition
from tests.agents.records import FakeBatch, FakeRecord, Put, batch_of, close, put_into, services_of
from tests.agents.state.stores.memory import apply_to
from topology.config import Topology

MS = 1_000_000
TICK_MS = 100
"""Half a heartbeat, so that each beat is noticed."""

BROKER = 0

Wall = Callable[[int], int]
"""A function from the actual time to the time of a worker's wall clock."""

Logs = dict[TopicPartition, list[FakeRecord]]


class Chain:
    """A worker of all stages of a topology, with its topics as lists.

    `logs`: the contents of the input topics; topics between stages and outputs are added. `widths`:
    the partition counts of input topics that differ from the topology's. `wall`: the wall clock of
    the workers.
    """

    def __init__(
        self,
        topology: Topology,
        logs: Mapping[TopicPartition, list[FakeRecord]],
        widths: Mapping[str, int] | None = None,
        wall: Wall = lambda true_ns: true_ns,
    ) -> None:
        self.wall = wall
        # Probes without any delay, so the broker's clock is exact.
        self.broker_times = BrokerTimes()
        self.broker_times.take_probes({BROKER: Probe(0, 0, 0)})
        self.topology = topology
        self.logs: Logs = defaultdict(list, {place: list(log) for place, log in logs.items()})
        stamps_ms = [record.timestamp for log in logs.values() for record in log]
        self.begin_ms, self.end_ms = min(stamps_ms), max(stamps_ms)
        self.put: list[tuple[str, Put]] = []
        """All committed records, with their topics."""
        parts, widths = topology.topics.partitions, widths or {}
        self.stages: list[list[Place]] = []
        for stage in topology.stages:
            if has_work(topology, stage):
                names = topics_of(topology, stage)
                partitions = {name: widths.get(name, parts) for name in names}
                for topic in inputs_of(topology, stage):
                    changelog = changelog_topic(topology.application, stage.name, topic)
                    partitions[changelog] = partitions[topic]
                arrangement = arrange(topology, stage, partitions)
                sources = [
                    TopicPartition(topic, number)
                    for topic in arrangement.inputs
                    for number in range(partitions[topic])
                ]
                tasks = dict.fromkeys(arrangement.group_of(each).name for each in sources)
                self.stages.append([Place(self, arrangement, each) for each in tasks])

    @property
    def places(self) -> Iterator[Place]:
        for stage in self.stages:
            yield from stage

    async def through(
        self, histories: Histories | None, rng: Random, patch: pytest.MonkeyPatch
    ) -> None:
        for place in self.places:
            await place.through(histories, rng, patch)


class LaneAhead(Random):
    """Random choices that read only the second lane, and lose the task after each poll."""

    def __init__(self) -> None:
        super().__init__(0)
        self._polls = cycle((1.0, 0.0, 0.0))

    def random(self) -> float:
        return next(self._polls)

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k)  # Whole numbers do not count as polls.


class Place(Delivery):
    """A partition of a stage: its changelog, and the delivery of the partition that runs."""

    def __init__(self, chain: Chain, arrangement: Arrangement, source: TopicPartition) -> None:
        self.chain = chain
        self.arrangement = arrangement
        self.source = source
        self.state: dict[bytes, bytes] = {}
        self.commits = 0
        self.dies = 0

    # -- the delivery of a partition ---------------------------------------------------------------

    start = renew = stop = AsyncMock()

    def new_batch(self) -> FakeBatch:
        return FakeBatch()

    async def commit(self, checkpoint: Checkpoint) -> int:
        if self.dies:
            self.dies -= 1
            raise CommitFailed("killed")
        self.commits += 1
        for (topic, partition), batches in checkpoint.outputs.items():
            log = self.chain.logs[TopicPartition(topic, partition)]
            for put in put_into(batches):
                headers = tuple(put.headers)
                record = FakeRecord(len(log), headers, put.value, put.key, put.timestamp or 0)
                log.append(record)
                self.chain.put.append((topic, put))
        apply_to(self.state, checkpoint.changes)
        return self.commits

    # -- partitions that use this delivery ---------------------------------------------------------

    async def opened(self, histories: Histories | None, patch: pytest.MonkeyPatch) -> Partition:
        times = self.chain.broker_times if self.arrangement.is_first else None
        name = self.arrangement.stage.name
        around = services_of(name, self, histories=histories, broker_times=times)
        partition = Partition(self.source, self.arrangement, around)
        patch.setattr(partition.checkpoints.restoring, "find", self._found)
        patch.setattr(LogReader, "leaderless", AsyncMock(return_value=[]))
        patch.setattr(LogReader, "bounds", self._bounds)
        patch.setattr(LogReader, "read_again", self._read_again)
        patch.setattr(LogReader, "first_of", self._first_of)
        partition.checkpoints.every_s = 0.0
        await partition.open()
        return partition

    async def _found(self, _: LocalCopy, fence: Awaitable[None], __: OnProgress) -> FoundState:
        await fence
        state = dict(self.state)
        tally = StateTally()
        tally.change({key: value for key, value in state.items() if key != changelog.PROGRESS})
        progress = None
        if state:
            progress = changelog.read_progress(state[changelog.PROGRESS], str(self.source), "")
            assert (progress.entries, progress.digest) == (tally.entries, tally.digest)
        return FoundState(state, progress, tally, {}, self.commits)

    async def _read_again(
        self, source: TopicPartition, wanted: set[int]
    ) -> AsyncIterator[tuple[list[FakeRecord], int]]:
        assert min(wanted) >= 0, "what stands before the log is not in it"
        log = self.chain.logs[source]
        yield [each for each in log if each.offset in wanted], max(wanted) + 1

    async def _bounds(self, source: TopicPartition) -> tuple[int, int]:
        return 0, len(self.chain.logs[source])

    async def _first_of(self, source: TopicPartition) -> FakeRecord | None:
        return next(iter(self.chain.logs[source]), None)

    async def through(
        self, histories: Histories | None, rng: Random, patch: pytest.MonkeyPatch
    ) -> None:
        """Run to the end of the log, and in a first stage one second past the last record."""
        if self.dies:
            with pytest.raises(CommitFailed):
                await self.opened(histories, patch)
        partition = await self.opened(histories, patch)
        lanes = self.arrangement.group_of(self.source).lanes
        if len(lanes) > 1:
            await self._lanes_through(partition, lanes, histories, rng, patch)
            return
        log = self.chain.logs[self.source]
        while (at := partition.state.first.next_offset or 0) < len(log):
            taken = self._some(log[at:], rng)
            await partition.take(batch_of(self.source, taken, End(at + len(taken), len(log))))
            await partition.checkpoints.await_commit()
            await self._wait(partition, log[at + len(taken) :])
            if rng.random() < 0.1:
                await partition.abandon()
                partition = await self.opened(histories, patch)
        await self._wait(partition, [])
        await close(partition)

    async def _lanes_through(
        self,
        task: Partition,
        lanes: Sequence[TopicPartition],
        histories: Histories | None,
        rng: Random,
        patch: pytest.MonkeyPatch,
    ) -> None:
        """Run a task that reads several partitions, each at its own pace."""
        logs = {lane: self.chain.logs[lane] for lane in lanes}
        lag_ns = self.chain.topology.tick_lag_ns
        begin_ms = max(self.chain.begin_ms, task.state.now_ns // MS)
        for ms in range(begin_ms, self.chain.end_ms + 1_000, TICK_MS):
            now_ns = ms * MS + lag_ns
            self.chain.broker_times.take_probes({BROKER: Probe(now_ns, now_ns, now_ns)})
            asked = FetchRequest(now_ns, self.chain.wall(now_ns), BROKER)
            batches = []
            is_last = ms + TICK_MS >= self.chain.end_ms + 1_000
            for lane, log in logs.items():
                if rng.random() > 0.7 and not is_last:
                    continue  # This lane's answer comes later.
                at = task.state.offsets().get(lane, 0)
                some = [record for record in log[at:] if record.timestamp < ms]
                end = at + len(some)
                batches.append(PolledBatch(lane, some, End(end, end, asked)))
            await task.take(GroupBatch(self.source, batches))
            await task.checkpoints.await_commit()
            if rng.random() < 0.1:
                await task.abandon()
                task = await self.opened(histories, patch)
        await close(task)

    def _some(self, log: Sequence[FakeRecord], rng: Random) -> list[FakeRecord]:
        """Return some of the next records, as many as a task that keeps up can read at once.

        Before MERGE that is the span between two heartbeats.
        """
        some = log[: rng.randrange(1, 40)]
        if self.arrangement.reads == ORDERED:
            return list(some)
        if self.arrangement.reads == SEQUENCED:
            return [log[0]]
        return [each for each in some if each.timestamp < log[0].timestamp + TICK_MS]

    async def _wait(self, partition: Partition, rest: Sequence[FakeRecord]) -> None:
        """Tick until the next record comes."""
        if not self.arrangement.is_first:
            return
        until_ms = rest[0].timestamp if rest else self.chain.end_ms + 1_000
        lag_ns = self.chain.topology.tick_lag_ns
        since_ms = max(partition.state.first.clock.now_ns // MS, self.chain.begin_ms)
        for ms in range(since_ms + TICK_MS, until_ms, TICK_MS):
            at = partition.state.first.next_offset or 0
            now_ns = ms * MS + lag_ns
            # A probe is never older than this one.
            self.chain.broker_times.take_probes({BROKER: Probe(now_ns, now_ns, now_ns)})
            asked = FetchRequest(now_ns, self.chain.wall(now_ns), BROKER)
            await partition.take(batch_of(self.source, [], End(at, at, asked)))
            await partition.checkpoints.await_commit()
