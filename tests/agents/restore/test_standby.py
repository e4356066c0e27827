"""Examples and faults: a standby has the state of its task except for the last records.

A list stands in for the changelog; partitions, followers and local copies are real.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import End
from agents.restore import standby as standing
from agents.restore.standby import Follower, Standby
from agents.state import changelog
from agents.state.copy_writer import CopyWriter
from agents.state.local_copy import LocalCopy, open_store
from agents.state.stores.rocksdb import RocksdbStore
from agents.state.stores.store import StoreName
from agents.task.handler import StageHandler
from agents.task.partition import Partition
from agents.watch.stage_log import StageLog
from agents.watch.watchdog import Watchdog
from tests.agents.records import FakeRecord, arranged, batch_of, services_of
from tests.agents.task.test_partition import SOURCE, Logged
from tests.waiting import until

NAME = StoreName("app", "all", SOURCE.topic, SOURCE.partition)
TEXT = "streams: {{default: {{reorder: {{start: zero}}}}}}\nstages: [reorder+merge]\nstate: {}\n"
PATIENCE_S = 20.0
"""A limit that no thread reaches unless the test has failed."""
PIECE = 7
CHECKPOINTS = 40
SOURCES = 15
LAST = 3
"""Number of checkpoints that the follower has not seen."""


class Owned(Logged):
    """A changelog that its owner writes."""

    log: list[Any]

    async def start(self) -> None:
        """Fence nobody."""


class Reader:
    """A changelog as other workers read it, and the task's input."""

    is_embedded = False

    def __init__(self, owned: Owned) -> None:
        self.owned = owned
        self.input: list[FakeRecord] = []
        self.given: list[int] = []
        """Offsets of the changelog that were read."""
        self.fault: Exception | None = None

    @property
    def end(self) -> int:
        return len(self.owned.log)

    def records(self, begin: int = 0) -> list[int]:
        """Return the offsets of all records; a marker takes an offset, too."""
        return [at for at, each in enumerate(self.owned.log) if at >= begin and each is not None]

    async def bounds(self, _: TopicPartition) -> tuple[int, int]:
        if self.fault is not None:
            raise self.fault
        return 0, self.end

    async def read_committed(self, _: TopicPartition) -> int | None:
        return None

    async def leaderless(self, _: Collection[TopicPartition]) -> list[TopicPartition]:
        return []

    async def read_range(
        self, _: TopicPartition, begin: int, end: int
    ) -> AsyncGenerator[tuple[list[Any], int]]:
        """Yield pieces; the last one goes beyond the end."""
        while begin < end:
            piece = [*enumerate(self.owned.log)][begin : begin + PIECE]
            begin += len(piece)
            found = [FakeRecord(at, key=each[0], value=each[1]) for at, each in piece if each]
            self.given += [record.offset for record in found]
            yield found, begin
            await asyncio.sleep(0)

    async def read_again(
        self, _: TopicPartition, offsets: Collection[int]
    ) -> AsyncGenerator[tuple[list[FakeRecord], int]]:
        yield [self.input[offset] for offset in sorted(offsets)], max(offsets) + 1

    async def write(self, owner: Partition, checkpoints: int) -> None:
        """Let the owner commit this many checkpoints of one record each."""
        for _ in range(checkpoints):
            offset = len(self.input)
            named = (
                ("sourceId", b"s%d" % (offset % SOURCES)),
                ("seqNum", b"%d" % (offset // SOURCES + 1)),  # The predecessor is missing.
                ("ts", b"5000000"),
            )
            self.input.append(FakeRecord(offset, headers=named, timestamp=6 + offset))
            end = End(offset + 1, offset + 1)
            await owner.take(batch_of(SOURCE, self.input[-1:], end))
            await owner.settle()


class World:
    """An owner of the task, and a worker without partitions."""

    def __init__(self, kind: Any, folder: Path) -> None:
        self.owned = Owned()
        self.log = Reader(self.owned)
        self.folder = folder
        self.failures: list[str] = []
        self.topology = TEXT.format(kind)
        self.arrangement = arranged(self.topology)
        any_log: Any = self.log
        around = replace(services_of("reorder+merge", self.owned), logs=any_log)
        self.owner = Partition(SOURCE, self.arrangement, around)
        self.owner.is_open = True
        self.owner.state.first.next_offset = 0
        self.own = replace(around, new_copy=lambda *_: self.new_copy(kind))
        self.handler = StageHandler(
            self.arrangement, self.own, Watchdog(), StageLog(around.metrics)
        )

    def new_copy(self, kind: Any) -> CopyWriter:
        def new_store() -> Any:
            return open_store(kind, NAME, self.folder, None)

        return CopyWriter(LocalCopy("raw/0", new_store, self.failures.append))

    @property
    def follower(self) -> Follower:
        (follower,) = self.handler.standby._followers.values()
        return follower

    @property
    def has_checked(self) -> bool:
        """Whether the follower has read everything, and found it a complete state."""
        return self.follower.behind == 0 and not self.follower._is_from_first

    async def stand_by(self) -> None:
        """Stand by until the follower has read everything."""
        await self.handler.on_assigned(frozenset())
        await until(lambda: self.has_checked or self.follower.why)

    async def take_over(self) -> Partition:
        self.log.given.clear()
        await self.handler.on_assigned(frozenset({SOURCE}))
        return self.handler._partitions[SOURCE]

    async def close(self) -> None:
        await self.handler.on_revoked(frozenset({SOURCE}))
        await self.handler.close()
        await self.owner.abandon()
        assert not self.handler.standby._followers

    def copied(self) -> tuple[int | None, dict[bytes, bytes]]:
        """Return the position and content of the copy on disk."""
        store = RocksdbStore(self.folder, NAME)
        try:
            return store.position(), dict(store.items())
        finally:
            store.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the follower look again only when a test asks for it."""
    monkeypatch.setattr(standing, "FOLLOW_EVERY_S", 3_600.0)
    monkeypatch.setattr(standing, "RETRY_S", 0.01)


@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
async def test_takeover_reads_only_new_records(kind: str, tmp_path: Path) -> None:
    world = World(kind, tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    seen = world.log.end
    assert {*world.log.given} == {*world.log.records()}
    await world.log.write(world.owner, LAST)

    task = await world.take_over()
    assert world.log.given == world.log.records(seen)
    assert task.state.offsets() == {SOURCE: CHECKPOINTS + LAST}
    assert len(task.state.held) == CHECKPOINTS + LAST
    assert task.state.tally.digest == world.owner.state.tally.digest

    await world.log.write(task, 1)
    state = world.owned.state(0)
    await world.close()
    assert world.failures == []
    if kind == "rocksdb":
        position, copied = world.copied()
        assert position == world.log.end - 1
        assert state.items() <= copied.items()


async def test_standby_reuses_local_copy(tmp_path: Path) -> None:
    world = World("rocksdb", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    await world.handler.close()
    seen = world.log.end
    await world.log.write(world.owner, LAST)
    world.log.given.clear()
    await world.stand_by()
    # The standby first looks for the last progress, at the end of the changelog.
    assert world.log.given == world.log.records() + world.log.records(seen)
    await world.close()


async def test_standby_waits_for_a_state(tmp_path: Path) -> None:
    world = World("rocksdb", tmp_path)
    await world.stand_by()
    assert [*world.handler.standby.notes] == [
        "standby: another worker has the task",
        "standby: " + world.follower.name + " is followed, 0 records behind",
    ]
    await world.log.write(world.owner, LAST)
    task = await world.take_over()
    assert task.state.offsets() == {SOURCE: LAST}
    assert [*world.handler.standby.notes] == []
    await world.close()


async def test_missing_brokers_are_awaited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World("memory", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    world.log.fault = TimeoutError("no leader")
    await world.stand_by()
    name = world.follower.name
    said = f"standby: {name} is not followed: TimeoutError: no leader"
    assert [*world.handler.standby.notes][1:] == [said]
    assert world.handler.verdict().reasons == ()
    await asyncio.sleep(5 * standing.RETRY_S)
    assert caplog.messages.count(said) == 1
    world.log.fault = None
    await until(lambda: world.has_checked)
    await world.take_over()
    assert world.log.given == []
    await world.close()


async def test_recreated_changelog_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby's copy proves the loss, so it is kept for the takeover."""
    monkeypatch.setattr(standing, "FOLLOW_EVERY_S", 0.01)
    world = World("memory", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    lost, world.owned.log = world.owned.log, []
    await until(lambda: world.follower.why)
    assert world.follower.why == f"EOFError: it ends at offset 0, and was read to {len(lost)}"
    with pytest.raises(changelog.StateRefused, match="changelog was lost or recreated"):
        await world.take_over()
    await world.close()


async def test_copy_ahead_is_kept(tmp_path: Path) -> None:
    world = World("rocksdb", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    await world.handler.close()
    before = world.copied()
    half = world.log.end // 2
    world.owned.log = world.owned.log[: world.owned.log.index(None, half) + 1]
    await world.stand_by()
    assert "is more advanced" in world.follower.why
    with pytest.raises(changelog.StateRefused, match="lost its end"):
        await world.take_over()
    await world.close()
    assert world.copied() == before


async def test_incomplete_copy_is_reread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is not a complete state is read again from the start, even a second time."""
    monkeypatch.setattr(standing, "FOLLOW_EVERY_S", 0.01)
    begun: list[int] = []
    begin_anew = Follower._begin_anew

    async def begins(follower: Follower) -> None:
        await begin_anew(follower)
        begun.append(world.log.end)

    monkeypatch.setattr(Follower, "_begin_anew", begins)
    world = World("rocksdb", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    strange = {b"state/gone": b"7"}
    copy = world.new_copy("rocksdb").copy
    copy.load()
    copy.move({**strange, changelog.PROGRESS: world.owned.state(0)[changelog.PROGRESS]}, 9)
    copy.close()
    await world.handler.on_assigned(frozenset())
    await until(lambda: begun and world.has_checked)
    world.follower._apply_in_memory(strange)
    await until(lambda: world.follower.why or (len(begun) == 2 and world.has_checked))
    assert world.follower.why == ""
    task = await world.take_over()
    assert world.log.given == []
    assert task.state.offsets() == {SOURCE: CHECKPOINTS}
    await world.close()


@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
async def test_large_state_stays_on_disk(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "MOST_BYTES", 1_000)
    world = World(kind, tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    assert world.follower.held_bytes == 0
    assert ("exceed" in world.follower.why) == (kind == "memory")
    if kind == "memory":  # The same happens after the next empty assignment.
        before = world.follower._task
        await world.handler.on_assigned(frozenset())
        again = world.follower._task
        assert again is not None
        assert again is not before
        await until(again.done)
        assert "exceed" in world.follower.why
    task = await world.take_over()
    assert (world.log.given == []) == (kind == "rocksdb")
    assert task.state.offsets() == {SOURCE: CHECKPOINTS}
    await world.close()
    assert world.failures == []


@pytest.fixture
def followers() -> tuple[Standby, list[Follower]]:
    """Return a standby and followers of three tasks, none of them started."""
    keyed = TEXT.format("memory").replace("reorder:", "keyed_by: stream, reorder:", 1)
    arrangement = arranged(keyed, partitions=3)
    standby = Standby(arrangement, services_of("reorder+merge", None))
    for source in arrangement.tasks:
        standby._followers[source] = standby._new(source)
    return standby, [*standby._followers.values()]


async def test_largest_state_leaves_memory(
    followers: tuple[Standby, list[Follower]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller state that grew last stays in memory."""
    monkeypatch.setattr(standing, "MOST_BYTES", 1_000)
    _, (small, large, other) = followers
    for follower, size in ((small, 50), (large, 900), (other, 30), (small, 150)):
        follower._apply_in_memory({b"key": bytes(size)})
    assert [each.held_bytes for each in (small, large, other)] == [153, 0, 33]


async def test_followers_stop_concurrently(
    followers: tuple[Standby, list[Follower]], monkeypatch: pytest.MonkeyPatch
) -> None:
    standby, (kept, *left) = followers
    stopping: list[Follower] = []

    async def stop(follower: Follower) -> None:
        stopping.append(follower)
        await until(lambda: len(stopping) == len(left))

    monkeypatch.setattr(Follower, "stop", stop)
    (source,) = (each for each, follower in standby._followers.items() if follower is kept)
    await standby.close(but=[source])
    assert standby._followers == {source: kept}
    assert not standby.is_standby


async def test_takeover_awaits_pending_write(tmp_path: Path) -> None:
    """A later write by the follower would spoil the new owner's copy."""
    world = World("rocksdb", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    writing, may_write = threading.Event(), threading.Event()
    move: Callable[..., None] = LocalCopy.move

    def slow(copy: LocalCopy, *given: Any) -> None:
        writing.set()
        may_write.wait(PATIENCE_S)
        move(copy, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCopy, "move", slow)
        await world.handler.on_assigned(frozenset())
        await until(writing.is_set)
        taking = asyncio.create_task(world.take_over())
        await asyncio.sleep(0.05)
        assert not world.handler._partitions[SOURCE].is_open
        may_write.set()
        task = await taking
    assert task.state.offsets() == {SOURCE: CHECKPOINTS}
    await world.close()
    position, copied = world.copied()
    assert position == world.log.end
    assert world.owned.state(0).items() <= copied.items()


async def test_hanging_follower_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standing, "CLOSE_WAIT_S", 0.01)
    world = World("rocksdb", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    hangs, may_end = threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        hangs.set()
        may_end.wait(PATIENCE_S)

    monkeypatch.setattr(LocalCopy, "move", hang)
    await world.handler.on_assigned(frozenset())
    await until(hangs.is_set)
    task = await world.take_over()
    assert task.state.offsets() == {SOURCE: CHECKPOINTS}
    assert "the local copy hangs; it is abandoned" in caplog.text
    may_end.set()
    await world.close()


async def test_cancelled_takeover_is_undone(tmp_path: Path) -> None:
    world = World("memory", tmp_path)
    await world.log.write(world.owner, CHECKPOINTS)
    await world.stand_by()
    taking = asyncio.create_task(world.handler.on_assigned(frozenset({SOURCE})))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait([taking])
    await world.handler.on_revoked(frozenset({SOURCE}))
    await world.stand_by()
    await world.take_over()
    assert world.log.given == []
    await world.close()


def test_redis_copy_is_not_followed(tmp_path: Path) -> None:
    world = World("redis\nredis: redis://nowhere", tmp_path)
    world.handler.standby.follow_tasks()
    assert [*world.handler.standby.notes][1:] == [
        "standby: the state is in Redis, so there is no changelog to follow"
    ]


async def test_followers_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "MOST_FOLLOWED", 2)
    world = World("memory", tmp_path)
    text = "streams: {default: {keyed_by: stream}}\nstages: [reorder+merge]\nstate: memory\n"
    around = world.own
    handler = StageHandler(
        arranged(text, partitions=3), around, Watchdog(), StageLog(around.metrics)
    )
    await handler.on_assigned(frozenset())
    assert len(handler.standby._followers) == 2
    assert handler.standby.words == "standby: other workers have all 3 tasks"
    await handler.close()


async def test_lag_of_standby_is_measured(tmp_path: Path) -> None:
    world = World("memory", tmp_path)
    await world.log.write(world.owner, LAST)
    await world.stand_by()

    def measured() -> list[float]:
        world.handler.observe()
        (family,) = world.own.metrics.standby_lag.collect()
        return [sample.value for sample in family.samples]

    assert measured() == [0.0]
    await world.take_over()
    assert measured() == []
    await world.close()
