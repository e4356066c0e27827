"""Law and examples: reading whole batches gives the same records and positions as the client."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

import codec
from agents.kafka import whole_batches
from agents.kafka.whole_batches import Fetched, Turn, WholeBatches, take_all
from codec.face import Unreadable
from tests.codec.logs import PLACE, READ_COMMITTED, TRANSACTIONAL, batch, control, record

A = record(b"k", b"a", [])


def records_of(
    log: bytes,
    since: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
    make: Any = codec.memory_records,
) -> Any:
    how = {"check_crcs": True, "isolation_level": READ_COMMITTED}
    return PartitionRecords(PLACE, make(log), list(aborted), since, None, None, **how)


def result_of(records: Any, position: int) -> Any:
    state = SimpleNamespace(paused=False, position=position)
    state.consumed_to = lambda to: setattr(state, "position", to)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    result = FetchResult(PLACE, assignment=assignment, partition_records=records, backoff=0)
    return result, state


def poll_in_pieces(getall: Any, state: Any, result: Any, cuts: list[int]) -> list[object]:
    """Return the offsets and the position after each poll of at most these many records."""
    seen: list[object] = []
    for most in cuts:
        if not result.has_more():
            break
        seen += [[each.offset for each in getall(most)], state.position]
    return seen


@pytest.mark.parametrize("seed", range(100))
def test_law_polls_match_the_client(seed: int) -> None:
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
    since = dice.choice((0, 0, 2, 5))
    aborted = [(1, 0)] if dice.random() < 0.3 else []
    cuts = [dice.choice((1, 2, 5, 100)) for _ in range(60)]

    theirs = records_of(log, since, aborted, MemoryRecords)
    theirs._consumer_record = lambda _, each: each
    result, state = result_of(theirs, since)
    wanted = poll_in_pieces(result.getall, state, result, cuts)

    result, state = result_of(Fetched(records_of(log, since, aborted)), since)
    found = poll_in_pieces(lambda most: take_all(result, most), state, result, cuts)
    assert found == wanted


def test_fault_comes_after_records() -> None:
    log = batch([A]) + batch([A], base_offset=1)[:-1] + b"!"
    fetched = Fetched(records_of(log))
    assert [each.value for each in fetched.take(1)] == [b"a"]
    with pytest.raises(CorruptRecordException):
        fetched.take(1)


def test_unreadable_record_keeps_place() -> None:
    log = batch([A, b"\x08"]) + batch([A], base_offset=2)
    fetched = Fetched(records_of(log))
    found = fetched.take(5)
    assert [(each.offset, type(each) is Unreadable) for each in found] == [
        (0, False), (1, True), (2, False)
    ]  # fmt: skip
    assert fetched.next_fetch_offset == 3


async def test_long_decoding_takes_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without turns, some kilobytes of compressed batches would delay the client's heartbeats."""
    steps = iter(range(1_000))
    clock = SimpleNamespace(monotonic=lambda: 0.4 * whole_batches.TURN_S * next(steps))
    monkeypatch.setattr(whole_batches, "time", clock)
    log = b"".join(batch([A], base_offset=at) for at in range(8))

    turn = Turn()
    one, other = (Fetched(records_of(log), turn=turn) for _ in range(2))
    seen = []
    while not (one.is_over and other.is_over):
        for each in (one, other):
            if each.is_over:
                continue
            before = each.next_fetch_offset
            found = [record.offset for record in each.take(100)]
            assert found == list(range(before, each.next_fetch_offset))
            seen.append(found)
        await asyncio.sleep(0)
    assert all(len(found) <= 3 for found in seen)
    assert sum(len(found) for found in seen) == 2 * 8


def test_take_all_obeys_a_seek() -> None:
    """Without a limit all records are taken, but none if the position has moved."""
    result, state = result_of(Fetched(records_of(batch([A]) + batch([A], base_offset=1))), 0)
    assert len(take_all(result)) == 2
    assert state.position == 2
    assert not result.has_more()
    result, _ = result_of(Fetched(records_of(batch([A]))), 7)
    assert take_all(result) == []
    assert not result.has_more()


@pytest.mark.parametrize("cuts", [[100], [1], []], ids=["all", "half", "nothing"])
def test_dropped_fetch_is_freed(cuts: list[int]) -> None:
    """No garbage collection is needed to free the bytes of a lost partition."""
    records = records_of(batch([A]) + batch([A], base_offset=1))
    result, _ = result_of(records, 0)

    async def fetch(*_: object) -> bool:
        return True

    fetcher: Any = SimpleNamespace(_records={PLACE: result}, _proc_fetch_request=fetch)
    WholeBatches(fetcher)

    async def scenario() -> None:
        assert await fetcher._proc_fetch_request(None, 0, None)
        for most in cuts:
            found = fetcher._records[PLACE].getall(most)
            assert [each.offset for each in found] == [0, 1][:most]

    gc.disable()
    try:
        kept = [weakref.ref(records), weakref.ref(fetcher._records[PLACE])]
        asyncio.run(scenario())
        fetcher._records.clear()
        del records, result
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


async def test_cancelled_fetch_ends_quietly() -> None:
    """A closing client cancels its fetch and waits for it; an exception would break the close."""

    async def pausing(*_: object) -> bool:
        await asyncio.sleep(60.0)
        return True

    fetcher: Any = SimpleNamespace(_records={}, _proc_fetch_request=pausing)
    WholeBatches(fetcher)
    fetching = asyncio.create_task(fetcher._proc_fetch_request(None, 0, None))
    await asyncio.sleep(0)
    fetching.cancel()
    assert await fetching is False
