"""Examples: what is said where the former owner cannot be fenced, or a topic takes too little."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    MessageSizeTooLargeError,
    NodeNotReadyError,
    RecordListTooLargeError,
)

from agents.stage import delivery
from agents.stage.delivery import CommitFailed, Delivery


@pytest.mark.parametrize("exactly_once", [True, False])
async def test_a_fence_that_does_not_come_names_its_transactional_id(
    monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    async def never(_: AIOKafkaProducer) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(delivery, "START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(AIOKafkaProducer, "start", never)
    client = {"bootstrap_servers": "nowhere:1"}
    name, changelog = "app.merge.raw.3", ("changelog", 3)
    new = Delivery(client, name, "app.merge", changelog, 10_000, exactly_once=exactly_once)
    with pytest.raises(TimeoutError, match=r"id app\.merge\.raw\.3 .* __transaction_state"):
        await new.start()
    await new.stop()


@pytest.mark.parametrize("error", [MessageSizeTooLargeError, RecordListTooLargeError])
async def test_a_topic_that_takes_no_batch_is_named(error: type[Exception]) -> None:
    answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
    answers[0].set_result(None)
    answers[1].set_exception(error())
    sent = [*zip(("late", "dead"), answers, strict=True)]
    with pytest.raises(CommitFailed, match=r"dead does not accept .*max\.message\.bytes"):
        await delivery._all(sent)


class Fenced:
    """A producer that cannot stop in good order."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.client = self
        self.closed = False

    async def stop(self) -> None:
        raise self._error

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "error", [asyncio.InvalidStateError("invalid state"), NodeNotReadyError(), TimeoutError()]
)
def test_a_producer_that_cannot_stop_in_good_order_is_let_go(error: Exception) -> None:
    producer: Any = Fenced(error)
    asyncio.run(delivery._stop(producer))
    assert producer.closed
