"""Examples: what is said where the former owner cannot be fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from agents.stage import delivery
from agents.stage.delivery import AtLeastOnce, ExactlyOnce


@pytest.mark.parametrize("kind", [ExactlyOnce, AtLeastOnce])
def test_a_fence_that_does_not_come_names_its_transactional_id(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any]
) -> None:
    async def never(_: AIOKafkaProducer) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        client = {"bootstrap_servers": "nowhere:1"}
        new = kind(client, "app.merge.raw.3", "app.merge", ("changelog", 3), 10_000)
        with pytest.raises(TimeoutError, match=r"id app\.merge\.raw\.3 .* __transaction_state"):
            await new.start()
        await new.stop()

    monkeypatch.setattr(delivery, "START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(AIOKafkaProducer, "start", never)
    asyncio.run(scenario())
