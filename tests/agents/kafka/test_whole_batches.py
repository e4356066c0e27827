"""Law and examples: what is taken a batch at a time is what the client's own way gives, record by
record, and so is the position at every cut."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

import codec
from agents.kafka.whole_batches import Fetched, WholeBatches, take_all
from tests.codec.logs import PLACE, READ_COMMITTED, TRANSACTIONAL, batch, control, record

A = record(b"k", b"a", [])


def records_of(make: Any, log: bytes, since: int, aborted: list[tuple[int, int]]) -> Any:
    return PartitionRecords(
        PLACE,
        make(log),
        aborted,
        since,
        None,
        None,
        check_crcs=True,
        isolation_level=READ_COMMITTED,
    )


def result_of(records: Any, position: int) -> Any:
    state = SimpleNamespace(paused=False, position=position)
    state.consumed_to = lambda to: setattr(state, "position", to)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    result = FetchResult(PLACE, assignment=assignment, partition_records=records, backoff=0)
    return result, state


def polled(getall: Any, state: Any, result: Any, cuts: list[int]) -> list[object]:
    seen: list[object] = []
    for most in cuts:
        if not result.has_more():
            break
        try:
            seen.append([each.offset for each in getall(most)])
        except CorruptRecordException:
            seen.append("corrupt")
            break
        seen.append(state.position)
    return seen


@pytest.mark.parametrize("seed", range(100))
def test_law_every_poll_gives_the_same_records_and_position(seed: int) -> None:
    dice = random.Random(seed)
    log, offset = b"", 0
    for _ in range(dice.randrange(1, 6)):
        count = dice.choice((0, 1, 3, 10))
        log += batch(
            [record(b"k", b"v", [], offset_delta=at) for at in range(count)],
            base_offset=offset,
            attributes=dice.choice((0, TRANSACTIONAL)),
            producer=(dice.choice((1, 2)), 0, 0),
        )
        offset += count
        if dice.random() < 0.3:
            log += control(dice.choice((0, 1)), base_offset=offset, producer_id=1)
            offset += 1
    if dice.random() < 0.2:
        log += batch([A, b"\x08"], base_offset=offset)
    since = dice.choice((0, 0, 2, 5))
    aborted = [(1, 0)] if dice.random() < 0.3 else []
    cuts = [dice.choice((1, 2, 5, 100)) for _ in range(60)]

    theirs = records_of(MemoryRecords, log, since, list(aborted))
    theirs._consumer_record = lambda _, each: each
    result, state = result_of(theirs, since)
    wanted = polled(result.getall, state, result, cuts)

    fetched = Fetched(records_of(codec.memory_records, log, since, list(aborted)))
    result, state = result_of(fetched, since)
    found = polled(lambda most: take_all(result, most), state, result, cuts)
    if "corrupt" in wanted:  # what a poll had taken before it came to the fault is lost either way
        assert found[-1] == "corrupt"
        assert found[:-1] == wanted[: len(found) - 1]
    else:
        assert found == wanted


def test_records_before_a_fault_come_first() -> None:
    fetched = Fetched(records_of(codec.memory_records, batch([A, b"\x08"]), 0, []))
    assert [each.value for each in fetched.take(1)] == [b"a"]
    with pytest.raises(CorruptRecordException):
        fetched.take(1)


def test_all_is_taken_where_nobody_says_how_much() -> None:
    log = batch([A]) + batch([A], base_offset=1)
    result, state = result_of(Fetched(records_of(codec.memory_records, log, 0, [])), 0)
    assert len(take_all(result)) == 2
    assert state.position == 2
    assert not result.has_more()


def test_a_position_that_moved_meanwhile_gives_nothing() -> None:
    result, _ = result_of(Fetched(records_of(codec.memory_records, batch([A]), 0, [])), 7)
    assert take_all(result) == []
    assert not result.has_more()


@pytest.mark.parametrize("cuts", [[100], [1], []], ids=["all", "half", "nothing"])
def test_a_fetch_that_was_let_go_is_gone_without_a_collector(cuts: list[int]) -> None:
    """However much was taken of it, as when its partition goes. Else its bytes stay until there are
    as many small objects as the collector waits for."""
    records = records_of(codec.memory_records, batch([A]) + batch([A], base_offset=1), 0, [])
    result, _ = result_of(records, 0)

    async def fetch(*_: object) -> bool:
        return True

    fetcher: Any = SimpleNamespace(_records={PLACE: result}, _proc_fetch_request=fetch)
    WholeBatches(fetcher)
    gc.disable()
    try:
        assert asyncio.run(fetcher._proc_fetch_request(None, 0, None))
        kept = [weakref.ref(records), weakref.ref(fetcher._records[PLACE])]
        for most in cuts:
            assert [each.offset for each in result.getall(most)] == [0, 1][:most]
        fetcher._records.clear()
        del records, result
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_a_fetch_that_pauses_after_a_failure_ends_quietly_when_its_consumer_closes() -> None:
    """The client cancels it and waits for it; what it raised would be raised by the close."""

    async def pausing(*_: object) -> bool:
        await asyncio.sleep(60.0)
        return True

    async def scenario() -> None:
        fetcher: Any = SimpleNamespace(_records={}, _proc_fetch_request=pausing)
        WholeBatches(fetcher)
        fetching = asyncio.create_task(fetcher._proc_fetch_request(None, 0, None))
        await asyncio.sleep(0)
        fetching.cancel()
        assert await fetching is False

    asyncio.run(scenario())
