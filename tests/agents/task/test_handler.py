"""Examples: when a stage rests, what wakes it, and when its partitions are ready."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka.structs import TopicPartition
from prometheus_client import CollectorRegistry

from agents.kafka.log_reader import LogReader
from agents.kafka.partition_queue import End
from agents.kafka.transport import PartitionReset
from agents.registry.feed import SchemaFeed
from agents.restore.restoring import FoundState
from agents.stage.arrival import LOG_APPEND_TIME, ArrivalClock
from agents.stage.delivery import CommitFailed, CommitRefused
from agents.state.stores.seal import StateTally
from agents.task.handler import OPENED_AT_ONCE, StageHandler
from agents.task.opening import Opening as Begins
from agents.watch.metrics.worker import Metrics
from agents.watch.stage_log import StageLog
from agents.watch.watchdog import S_NS, Patience, Watchdog
from tests.agents.records import arranged, batch_of, no_copy, services_of
from tests.agents.watch.test_watchdog import State, state_of
from tests.waiting import until

LARGE = 1_000_000
"""Number of changes to read."""

STUCK_AFTER_S = Patience().stuck_after_ns // S_NS
MANY = OPENED_AT_ONCE + 4
OFF = "inorder_append_time_off_seconds"


class FakePartition:
    def __init__(self, rests: bool) -> None:
        self.rests = rests
        self.metrics = SimpleNamespace(streams_seen=frozenset())
        self.is_open = True
        self.clock = ArrivalClock(0)
        self.state = SimpleNamespace(
            offsets=lambda: {TopicPartition("events.raw", 0): 7}, restored=(0, 1)
        )
        self.checkpoints = SimpleNamespace(is_current=AsyncMock(return_value=True))
        self.opening = SimpleNamespace(waits="")
        self.overdue = ""
        self.lag, self.lag_ns = 0, 0
        self.cost = SimpleNamespace(text="")
        self.source = TopicPartition("events.raw", 0)
        self.observe = Mock()
        self.take = self.settle = AsyncMock()

    @property
    def lags(self) -> list[tuple[TopicPartition, int, int]]:
        return [(self.source, self.lag, self.lag_ns)]

    @property
    def off_ns(self) -> int:
        return self.clock.off_ns

    def faults(self) -> list[tuple[TopicPartition, str]]:
        fault = self.overdue or self.clock.fault()
        return [(self.source, fault)] if fault else []

    async def abandon(self) -> None:
        self.is_open = False


def handler(
    stages: str,
    rests: Sequence[bool] = (),
    of: int = 2,
    *,
    stage: int = 0,
    keyed_by: str = "stream",
) -> Any:
    """Return the handler of a stage whose partitions rest or do not, as listed."""
    text = f"streams: {{default: {{keyed_by: {keyed_by}}}}}\nstages: [{stages}]\n"
    around: Any = SimpleNamespace(
        broker_times=None,
        schemas=SchemaFeed(),
        metrics=Metrics(CollectorRegistry(), "reorder+merge"),
        logs=None,
        new_copy=no_copy,
    )
    log: Any = StageLog(around.metrics)
    found = StageHandler(arranged(text, stage, of), around, Watchdog(), log)
    for number, each in enumerate(rests):
        partition: Any = FakePartition(each)
        partition.source = TopicPartition("events.raw", number)
        found._partitions[partition.source] = partition
    return found


@pytest.mark.parametrize(
    ("stages", "partitions", "rests"),
    [
        ("reorder+merge", [True, True], True),
        ("reorder+merge", [True, False], False),
        ("reorder+merge", [True], True),
        ("reorder, merge", [True, True], True),
        ("reorder, merge", [True], False),  # MERGE waits, and half the input is elsewhere
    ],
)
def test_stage_rests_if_all_do(stages: str, partitions: list[bool], rests: bool) -> None:
    assert handler(stages, partitions, of=2).rests == rests


def test_only_first_stage_wants_ticks() -> None:
    assert handler("reorder, merge").wants_ticks
    assert not handler("reorder, merge", stage=1).wants_ticks


def test_lagging_partitions_are_named() -> None:
    found = handler("reorder+merge", [True] * 3)
    for far, lag_s in zip(found._partitions.values(), (11, 168, 10), strict=True):
        far.lag, far.lag_ns = 157_000, lag_s * S_NS
        far.cost = SimpleNamespace(text="a record takes 122 ms" if lag_s > 100 else "")
    assert found.behind() == (
        "events.raw/1: 157,000 records, 168 s behind; a record takes 122 ms",
        "events.raw/0: 157,000 records, 11 s behind",
    )
    far.overdue = "it waits for progress of b/0"
    assert found.faults() == ("events.raw/2: it waits for progress of b/0",)


async def test_refused_right_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agents.task.handler.REFUSED_PAUSE_S", 0.0)
    refused = handler("reorder+merge", [True], of=1)
    (partition,) = refused._partitions.values()
    partition.checkpoints.commits = 0
    partition.is_read = partition.is_queued = partition.waits_for_schemas = False
    partition.pulse = Mock()
    batch = batch_of(partition.source, [object()], End(1, 1))
    for failed in (CommitFailed("away"), CommitRefused("no right"), CommitRefused("no right")):
        partition.take.side_effect = failed
        with pytest.raises(PartitionReset, match=str(failed)):
            await refused.on_batch(batch)
        named = isinstance(failed, CommitRefused)
        assert refused.faults() == (("events.raw/0: no right",) if named else ())
    assert caplog.messages == ["events.raw/0: no right"]
    partition.checkpoints.commits = 1
    refused.pulse()
    assert refused.faults() == ()


async def test_record_wakes_resting_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.task.handler.REST_S", 3_600.0)
    resting = handler("reorder+merge", [True], of=1)
    beating = asyncio.create_task(resting.beat())
    await asyncio.sleep(0)
    source = TopicPartition("events.raw", 0)
    await resting.on_batch(batch_of(source, [], End(1, 1)))
    await asyncio.sleep(0)
    assert not beating.done()  # a tick is no record
    await resting.on_batch(batch_of(source, [object()], End(1, 1)))
    await until(beating.done)
    await beating


@pytest.mark.parametrize(
    ("keyed_by", "stages", "told"),
    [
        ("stream", "reorder+merge", 1),
        ("source", "reorder, merge", 0),
        ("stream", "reorder, merge", 0),
    ],
)
def test_spread_stream_is_logged(
    keyed_by: str, stages: str, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = handler(stages, [False] * 2, keyed_by=keyed_by)
    for partition in found._partitions.values():
        found.observe()
        partition.metrics.streams_seen = {"default"}
    found.observe()
    found.observe()
    said = "stream default is in several partitions (events.raw/0, events.raw/1)"
    assert caplog.text.count(said) == told
    assert caplog.text.count("start a new application with `keyed_by: source`") == told


def test_wrong_broker_clock_is_a_fault() -> None:
    found = handler("reorder+merge", [True, True])
    registry = CollectorRegistry()
    found.services.metrics = Metrics(registry, "reorder+merge")
    _, second = found._partitions.values()
    for at_s in [*range(200), *range(3_800, 3_810)]:
        second.clock.judge(at_s * 100, LOG_APPEND_TIME, 0, (at_s % 3_600) * S_NS // 10)

    def reported() -> tuple[str, float | None]:
        found.observe()
        labels = {"stage": "reorder+merge"}
        return "".join(found.faults()), registry.get_sample_value(OFF, labels)

    told, off_s = reported()
    assert told.startswith("events.raw/1: append times have stepped ahead by 360 s,")
    assert off_s == pytest.approx(360, abs=1)
    second.clock.judge(21_000, LOG_APPEND_TIME, 0, 21 * S_NS)
    assert reported() == ("", 0)
    second.clock.judge(16_000, LOG_APPEND_TIME, 0, 21 * S_NS)
    told, off_s = reported()
    assert told.startswith("events.raw/1: append times have stepped back, and are still 5 s")
    assert off_s == 5


@pytest.mark.parametrize(
    ("comes_back", "is_current", "opened"), [(True, True, 0), (True, False, 1), (False, True, 0)]
)
async def test_returned_partition_is_kept(
    monkeypatch: pytest.MonkeyPatch, comes_back: bool, is_current: bool, opened: int
) -> None:
    """A returned partition is opened again only if another worker has written to it."""
    found = handler("reorder+merge", [True])
    (source,), (before,) = zip(*found._partitions.items(), strict=True)
    before.checkpoints.is_current.return_value = is_current
    made: Any = FakePartition(rests=True)
    made.open = AsyncMock(return_value={source: 9})
    new = Mock(return_value=made)
    monkeypatch.setattr(found, "_new", new)

    await found.on_revoked(frozenset({source}))
    assert before.is_open
    offsets = await found.on_assigned(frozenset({source} if comes_back else ()))
    assert offsets == ({source: 9 if opened else 7} if comes_back else {})
    assert (new.call_count, before.is_open) == (opened, comes_back and is_current)
    await found.close()


def test_revocation_drops_references() -> None:
    """All partitions are already freed when the handler reports that it has none left."""
    found = handler("reorder+merge", [True, True])
    left = [weakref.ref(each) for each in found._partitions.values()]
    there: list[int] = []
    found.emptied = lambda: there.append(sum(each() is not None for each in left))
    gc.disable()
    try:
        for number in range(2):
            assert there == []
            asyncio.run(found.on_revoked(frozenset({TopicPartition("events.raw", number)})))
        asyncio.run(found.close())
    finally:
        gc.enable()
    assert there == [0]


class Opening:
    """A stage whose partitions are being opened, with fake brokers and a fake clock.

    The last partition has an empty state, or cannot be opened if `fails`. The others have large
    states that arrive little by little.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        partitions: int = 2,
        *,
        fails: bool = False,
        stages: str = "reorder, merge",
    ) -> None:
        self.now_s = 0
        self.read = 0
        self.at_once = self.most_at_once = 0
        clock = SimpleNamespace(monotonic_ns=lambda: self.now_s * S_NS)
        patch.setattr("agents.task.handler.time", clock)

        async def find(opening: Begins) -> FoundState:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            is_last = opening.state.source.partition == partitions - 1
            try:
                while self.read < LARGE and not is_last:
                    opening.state.note_restored(self.read, LARGE)
                    await asyncio.sleep(0)
            finally:
                self.at_once -= 1
            if is_last and fails:
                raise OSError("cannot be had")
            return FoundState({}, None, StateTally(), {}, 0)

        patch.setattr(Begins, "_find", find)
        text = f"streams: {{default: {{}}}}\nstages: [{stages}]\nstate: memory\n"
        delivery: Any = SimpleNamespace(new_batch=None, stop=lambda: asyncio.sleep(0))
        around = services_of("reorder+merge", delivery)
        stage = arranged(text, partitions=partitions)
        self.handler = StageHandler(stage, around, Watchdog(), StageLog(around.metrics))
        numbers = range(partitions)
        self.places = frozenset(TopicPartition("events.raw", number) for number in numbers)
        self.task = asyncio.create_task(self.handler.on_assigned(self.places))

    async def passes(self, seconds: int, read_a_second: int = 0) -> State:
        for _ in range(seconds):
            self.now_s += 1
            self.read += read_a_second
            for _ in range(4):  # Each task gets some turns.
                await asyncio.sleep(0)
            self.handler.pulse()
            verdict = self.handler.verdict()
        return state_of(verdict)


@pytest.mark.parametrize(
    ("read", "a_second"), [(0, 1), (LARGE, 0)], ids=["a large state stands", "nobody reads them"]
)
async def test_stalled_stage_is_stopped(
    monkeypatch: pytest.MonkeyPatch, read: int, a_second: int
) -> None:
    opening = Opening(monkeypatch)
    opening.read = read
    assert await opening.passes(5, a_second) is State.NOT_READY
    assert await opening.passes(STUCK_AFTER_S + 1) is State.STOP
    assert opening.task.done() == (read == LARGE)
    opening.task.cancel()
    await asyncio.wait([opening.task])


@pytest.mark.parametrize("partitions", [1, 3])
async def test_task_awaits_missing_leaders(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    away = [TopicPartition("events.raw", partitions - 1)]

    async def leaderless(*_: object) -> list[TopicPartition]:
        return [*away]

    monkeypatch.setattr(LogReader, "leaderless", leaderless)
    monkeypatch.setattr("agents.task.opening.LEADER_LOOK_S", 0.0)
    opening = Opening(monkeypatch, partitions, stages="reorder+merge")
    opening.read = LARGE
    assert await opening.passes(3 * STUCK_AFTER_S) is State.NOT_READY
    waits = f"events.raw/0: waits for a leader of events.raw/{partitions - 1}"
    assert opening.handler.verdict().reasons == (waits,)
    away.clear()
    await opening.task
    opening.handler.on_reading(opening.places)
    assert state_of(opening.handler.verdict()) is State.READY
    await opening.handler.on_revoked(opening.places)


@pytest.mark.parametrize("partitions", [2, MANY])
async def test_long_restore_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Partitions that are already open, or not yet due, wait meanwhile, as their reasons show."""
    opening = Opening(monkeypatch, partitions)
    assert await opening.passes(3 * STUCK_AFTER_S, read_a_second=1) is State.NOT_READY
    said = opening.handler.verdict().reasons
    restoring = min(partitions - 1, OPENED_AT_ONCE)
    assert sum("restoring, " in reason for reason in said) == restoring
    waits = "waits while others are restored"
    assert sum(waits in reason for reason in said) == partitions - restoring
    opening.read = LARGE
    assert await opening.passes(1) is State.NOT_READY  # Reading begins after the seek.
    await opening.task
    assert opening.most_at_once == min(partitions, OPENED_AT_ONCE)
    opening.handler.on_reading(opening.places)
    assert state_of(opening.handler.verdict()) is State.READY  # before any batch or tick
    await opening.handler.on_revoked(opening.places)


async def test_failed_opening_stops_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opening = Opening(monkeypatch, 3, fails=True)
    with pytest.raises(OSError, match="cannot be had"):
        await opening.task
    assert opening.at_once == 0
    assert not any(partition.is_open for partition in opening.handler._partitions.values())
