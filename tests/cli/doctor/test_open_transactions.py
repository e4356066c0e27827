"""End to end: a transaction that stays open is found on a real broker; one that ends is not."""

from __future__ import annotations

import asyncio
import time
from unittest.mock import Mock

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from cli.doctor.open_transactions import find_staying_open
from tests.services import SharedKafka, UniqueName
from tests.waiting import until

TIMEOUT_S = 20.0


@pytest.mark.kafka
def test_ended_transaction_is_no_fault(
    kafka: SharedKafka, unique_name: UniqueName, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique_name("open")
    kafka.create_topic(name)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    clock = Mock(wraps=time)
    monkeypatch.setattr("cli.doctor.open_transactions.time", clock)

    def found(longest_s: float) -> dict[tuple[str, int], int]:
        return find_staying_open(admin, {name: 1}, longest_s, TIMEOUT_S)

    async def scenario() -> None:
        assert await asyncio.to_thread(found, 60.0) == {}
        async with AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, transactional_id=name
        ) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(name, b"x")
            assert await asyncio.to_thread(found, 1.0) == {(name, 0): 0}
            clock.reset_mock()
            looking = asyncio.create_task(asyncio.to_thread(found, 60.0))
            await until(lambda: clock.sleep.called)  # The search has seen the open transaction.
            await producer.commit_transaction()
            async with asyncio.timeout(TIMEOUT_S):
                assert await looking == {}

    asyncio.run(scenario())
