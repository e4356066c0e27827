"""Examples: the requests that end a transaction, for each answer of the coordinator."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError
from aiokafka.producer import sender

from agents.kafka.transaction_end import Unanswered, send_end_once

COMMITTED = 0
LOADING, NOT_HERE, CONCURRENT = 14, 16, 51
SILENT = None
LOST = KafkaConnectionError("closed")
NOT_SENT = NodeNotReadyError("away")
LATE = RequestTimedOutError()


async def end(answers: list[Any]) -> None:
    """End a transaction whose requests get the given answers in turn."""

    async def send(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0)
        if answer is SILENT:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(error_code=answer)

    coordinator = AsyncMock(send=send, _client_id="test")
    coordinator.coordinator_lookup.return_value = 0
    send_end_once()
    producer = AIOKafkaProducer(
        bootstrap_servers="nowhere:1",
        transactional_id="stage.raw.0",
        transaction_timeout_ms=50,
        retry_backoff_ms=1,
    )
    manager, sends = producer._txn_manager, producer._sender
    manager.set_pid_and_epoch(7, 0)
    manager.begin_transaction()
    manager._txn_partitions.add(TopicPartition("changelog", 0))
    sends.client = coordinator
    sends._coordinators[CoordinationType.TRANSACTION] = 0
    manager.committing_transaction()
    sends._sender_task = asyncio.create_task(sends._sender_routine())
    sends._sender_task.add_done_callback(sends._fail_all)
    try:
        async with asyncio.timeout(5.0):
            await asyncio.shield(manager.wait_for_transaction_end())
    finally:
        await asyncio.wait([sends._sender_task], timeout=0.01)
        await producer.client.close()
        if not sends._sender_task.done():
            await sends.close()
        producer._closed = True


SENT_AGAIN: dict[str, list[Any]] = {
    "at once": [COMMITTED],
    "the first has not left": [NOT_SENT, COMMITTED],
    "the coordinator has moved": [NOT_HERE, COMMITTED],
    "the coordinator wants some time": [LOADING, CONCURRENT, COMMITTED],
}


@pytest.mark.parametrize("answers", SENT_AGAIN.values(), ids=SENT_AGAIN)
def test_unsent_end_is_resent(answers: list[Any]) -> None:
    left = [*answers]
    asyncio.run(end(left))
    assert left == []


SENT_ONCE: dict[str, tuple[list[Any], str]] = {
    "the connection breaks": ([LOST, COMMITTED], "closed"),
    "the client's own time is over": ([LATE, COMMITTED], "RequestTimedOut"),
    "the transaction's time is over": ([SILENT, COMMITTED], "within 0.05 s"),
    "after an answer": ([NOT_HERE, LOST, COMMITTED], "closed"),
}


@pytest.mark.parametrize(("answers", "why"), SENT_ONCE.values(), ids=SENT_ONCE)
def test_end_in_flight_is_not_resent(
    answers: list[Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    left = [*answers]
    with pytest.raises(Unanswered, match=why):
        asyncio.run(end(left))
    assert left == [COMMITTED]
    assert not caplog.records  # the client would write a stack trace


def test_changed_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def another_way(_: Any, __: Any) -> None:
        return

    monkeypatch.setattr(sender.Sender, "_do_txn_commit", another_way)
    with pytest.raises(RuntimeError, match=r"infra/locks/run\.txt"):
        send_end_once()
