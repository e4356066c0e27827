"""End to end: the batch transport against the embedded broker.

Each test runs real applications with a handler that records its calls. All waits are for a
condition.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from agents.kafka.application import Application
from agents.kafka.fetching import MAX_POLL_RECORDS, FetchTimes
from agents.kafka.partition_queue import MAX_BATCHES, PolledBatch, steady_ns
from agents.kafka.transport import MAX_RESETS, PartitionReset
from cli.local.embedded import PARTITIONS, EmbeddedBroker
from tests.agents.recorder import Recorder, application, numbers, produce, run_to_failure, started
from tests.services import UniqueName
from tests.waiting import until


@pytest.fixture
def bootstrap(embedded_broker: EmbeddedBroker) -> str:
    return embedded_broker.bootstrap


async def test_reading_awaits_assignment(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 50)
    handler = Recorder(start_at={0: 20, 1: 0})
    may_go_on = asyncio.Event()
    handler.before_assigned = may_go_on.wait
    async with application(bootstrap, [topic], handler, topic) as app:
        await until(lambda: handler.has("assigning"))
        produce(bootstrap, topic, 1)  # a round trip to the broker
        assert not handler.batches
        assert app.batches.open_partitions == frozenset()
        may_go_on.set()
        await until(lambda: handler.read() == PARTITIONS * 51 - 20)
        assert len(app.batches.open_partitions) == PARTITIONS
    assert handler.values(0) == [*numbers(20, 50), b"0"]
    for partition in range(1, PARTITIONS):  # Only partition 1 is given an offset here.
        assert handler.values(partition) == [*numbers(0, 50), b"0"]
    record = handler.batches[0].records[0]
    assert not isinstance(record, ConsumerRecord)  # The client would make this copy.
    assert record.headers == [("h", b"1")]


async def test_ticks_follow_ordered_batches(
    embedded_broker: EmbeddedBroker, bootstrap: str, topic: str, unique_name: UniqueName
) -> None:
    empty = unique_name("empty")
    embedded_broker.make_topic(empty)
    each = 2 * MAX_POLL_RECORDS

    started_ns = steady_ns()
    produce(bootstrap, topic, each)
    handler = Recorder()
    async with application(bootstrap, [topic, empty], handler, topic):
        await until(lambda: handler.read() == PARTITIONS * each)
        await until(lambda: len(handler.ticks(0)) >= 10)
    now_ns = steady_ns()
    for partition in range(PARTITIONS):
        assert handler.values(partition) == numbers(0, each)
    of_empty = [batch for batch in handler.batches if batch.partition.topic == empty]
    assert {batch.end.position for batch in of_empty} == {0}
    assert len({batch.partition for batch in of_empty}) == PARTITIONS
    last: dict[TopicPartition, int] = {}
    for batch in handler.batches:
        assert len(batch.records) <= MAX_POLL_RECORDS
        if batch.records:
            assert batch.end.position == batch.records[-1].offset + 1
        if batch.end.last_empty_fetch is not None:
            caught_up_ns = batch.end.last_empty_fetch.mono_ns
            assert batch.end.position == batch.end.high_watermark
            assert started_ns < caught_up_ns < now_ns
            assert caught_up_ns >= last.get(batch.partition, 0)
            last[batch.partition] = caught_up_ns
        else:
            assert batch.records
            assert batch.end.position < batch.end.high_watermark


async def test_slow_partition_delays_no_other(bootstrap: str, topic: str) -> None:
    each = 4 * MAX_POLL_RECORDS

    produce(bootstrap, topic, each)
    handler = Recorder()
    released = hold_first_partition(handler)
    async with application(bootstrap, [topic], handler, topic) as app:
        await until(lambda: handler.read() == (PARTITIONS - 1) * each)
        await until(lambda: len(handler.ticks(1)) >= 3)
        held = app.batches._queues[TopicPartition(topic, 0)]
        assert held.expected <= MAX_BATCHES
        assert handler.values(0) == []
        released.set()
        await until(lambda: handler.read() == PARTITIONS * each)
    assert handler.values(0) == numbers(0, each)


@pytest.mark.parametrize("where", ["on_assigned", "on_batch", "on_revoked"])
async def test_handler_exception_ends_run(bootstrap: str, topic: str, where: str) -> None:
    async def fail(*_: Any) -> None:
        raise ZeroDivisionError(where)

    produce(bootstrap, topic, 1)
    handler = Recorder()
    setattr(handler, where.replace("on", "before"), fail)

    async def scenario() -> None:
        async with started(bootstrap, topic, handler) as (_, _, stop):
            if where == "on_revoked":
                await until(lambda: handler.read() == PARTITIONS)
                stop.set()

    with pytest.raises(ZeroDivisionError, match=where):
        await scenario()


async def test_reset_restores_and_rereads(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 10)
    handler = Recorder(start_at={2: 3})
    resets = 0

    async def reset(batch: PolledBatch) -> None:
        nonlocal resets
        if batch.partition.partition == 2 and resets < 2:
            resets += 1
            raise PartitionReset("as after an abort")

    handler.before_batch = reset
    async with application(bootstrap, [topic], handler, topic):
        await until(lambda: handler.read() == PARTITIONS * 10 - 3)
    assert handler.values(2) == numbers(3, 10)
    of_two = frozenset({TopicPartition(topic, 2)})
    told = [what for what, detail in handler.calls if detail == of_two]
    assert told == ["revoked", "assigning", "assigned", "reading"] * 2


async def test_resets_share_a_log_line(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(bootstrap, topic, 10)
    handler = Recorder()
    reset_once: set[TopicPartition] = set()

    async def reset(batch: PolledBatch) -> None:
        if batch.partition not in reset_once:
            reset_once.add(batch.partition)
            raise PartitionReset("fenced by another worker")

    handler.before_batch = reset
    async with application(bootstrap, [topic], handler, topic):
        await until(lambda: handler.read() == PARTITIONS * 10 and "reading again" in caplog.text)
    (line,) = (m for m in caplog.messages if "restoring and reading again" in m)
    assert line.endswith(": restoring and reading again: fenced by another worker")
    assert all(f"{topic}/{number}" in line for number in range(PARTITIONS))


@pytest.mark.parametrize("commits", [False, True])
async def test_only_commits_renew_reset_limit(bootstrap: str, topic: str, commits: bool) -> None:
    """Work without a commit does not count, as the commit of the previous batch can fail later."""
    wanted = MAX_RESETS + 3
    produce(bootstrap, topic, 2 * wanted)
    handler = Recorder()
    resets = worked_on = 0

    async def reset(batch: PolledBatch) -> None:
        nonlocal resets, worked_on
        if batch.partition.partition != 2:
            return
        worked_on += 1
        if worked_on == 2 and resets < wanted:
            worked_on = 0
            resets += 1
            handler.start_at = {2: resets if commits else 0}
            raise PartitionReset("as after an abort")

    handler.before_batch = reset
    if commits:
        async with application(bootstrap, [topic], handler, topic):
            await until(lambda: resets == wanted and worked_on > 2)
    else:
        with pytest.raises(PartitionReset):
            await run_to_failure(bootstrap, topic, handler)
        assert resets == MAX_RESETS + 1


def hold_first_partition(handler: Recorder) -> asyncio.Event:
    """Block the first partition's batches with records until the returned event is set.

    Each blocked batch is recorded as a call named "holding".
    """
    released = asyncio.Event()

    async def hold(batch: PolledBatch) -> None:
        if batch.records and batch.partition.partition == 0:
            handler.calls.append(("holding", batch))
            await released.wait()

    handler.before_batch = hold
    return released


async def request_stop(app: Application, handler: Recorder, stop: asyncio.Event) -> None:
    """Request a stop, wait until the flow has ended, and assert that nothing is revoked yet."""
    stop.set()
    await until(lambda: not app.batches.flow_active)
    for _ in range(100):  # turns of the loop in which on_revoked could come too early
        await asyncio.sleep(0)
    assert not handler.has("revoked")


async def test_stop_awaits_running_batch(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 10)
    handler = Recorder()
    released = hold_first_partition(handler)
    async with started(bootstrap, topic, handler) as (app, running, stop):
        await until(lambda: handler.has("holding"))
        (held,) = (detail for what, detail in handler.calls if what == "holding")
        await request_stop(app, handler, stop)
        released.set()
        pauses = 0  # 10 ms each; time in which the machine did other things does not count
        while not running.done():
            await asyncio.sleep(0.01)
            pauses += 1
            assert pauses < 200
    mine = [batch for batch in handler.batches if batch.partition == held.partition]
    assert [batch for batch in mine if batch.records] == [held]
    assert handler.calls[-1][0] == "revoked"
    assert not handler.owned


async def test_rebalance_in_stop_opens_nothing(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a whole group stops at once, each member sees others leave while it finishes."""

    async def nothing(*_: Any) -> None:
        """Stand in for Faust's part in a rebalance that the broker does not know."""

    produce(bootstrap, topic, 10)
    handler = Recorder()
    released = hold_first_partition(handler)
    async with started(bootstrap, topic, handler) as (app, _, stop):
        await until(lambda: handler.has("holding"))
        mine = {TP(*partition) for partition in handler.owned}
        monkeypatch.setattr(driver.Consumer, "on_partitions_revoked", nothing)
        monkeypatch.setattr(driver.Consumer, "on_partitions_assigned", nothing)
        await request_stop(app, handler, stop)

        async def rebalance() -> None:
            await app.batches.on_partitions_revoked(mine)
            await app.batches.on_partitions_assigned(mine, 1)

        rebalancing = asyncio.create_task(rebalance())
        await request_stop(app, handler, stop)
        released.set()
        await rebalancing
    told = [what for what, _ in handler.calls if what not in ("batch", "holding")]
    assert told == ["assigning", "assigned", "reading", "revoked"]
    assert not handler.owned


async def test_stop_during_restore_revokes(bootstrap: str, topic: str) -> None:
    handler = Recorder()
    handler.before_assigned = asyncio.Event().wait  # forever
    async with started(bootstrap, topic, handler) as (_, _, stop):
        await until(lambda: handler.has("assigning"))
        stop.set()
    assert [what for what, _ in handler.calls] == ["assigning", "revoked"]


async def test_fetch_time_is_request_time() -> None:
    """A process that sleeps between request and answer must not claim the time in between."""

    state = SimpleNamespace(timestamp=5)
    assignment = SimpleNamespace(state_value=lambda _: state)
    request = SimpleNamespace(topics=(("raw", ((0, 0, 0),)),), _max_wait_ms=1)
    answers_fit, answered_at_ns = True, 0

    async def answer(*_: Any) -> bool:
        nonlocal answered_at_ns
        asked_at_ns = steady_ns()
        while steady_ns() == asked_at_ns:
            await asyncio.sleep(0)
        answered_at_ns = steady_ns()
        if answers_fit:
            state.timestamp = 1
        return False

    fetcher: Any = SimpleNamespace(_proc_fetch_request=answer)
    times = FetchTimes(fetcher)
    partition = TopicPartition("raw", 0)
    await fetcher._proc_fetch_request(assignment, 5, request)
    first = times.asked[partition]
    assert 0 < first.mono_ns < answered_at_ns
    assert first.broker == 5
    answers_fit = False
    await fetcher._proc_fetch_request(assignment, 0, request)
    assert times.asked[partition] == first
