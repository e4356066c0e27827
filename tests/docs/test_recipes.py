"""Examples: the recipes with `Ordering` in docs/examples/recipes work as described."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cli.local.embedded import EmbeddedBroker
from inorder import OrderedEvent
from inorder.engine import Ordering
from tests import ROOT
from tests.kit import code_lines

RECIPES: Final = ROOT / "docs" / "examples" / "recipes"
MOST_LINES: Final = 20
TOPOLOGY: Final = "streams: {default: {clock: {unsynced: trust}, reorder: {start: zero}}}"
NUMBERS: Final = [0, 2, 1, 3]
"""Sequence numbers in the order of their arrival."""
EVENTS: Final = [{"source": "press", "seq": n, "payload": {"n": n}} for n in NUMBERS]


def recipe(name: str) -> Any:
    return SimpleNamespace(**runpy.run_path(str(RECIPES / f"{name}.py")))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.py")), ids=lambda path: path.stem)
def test_recipe_is_short(path: Path) -> None:
    assert code_lines.of_module(path) <= MOST_LINES


def test_confluent_loop_emits_in_order(embedded_broker: EmbeddedBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap})
    for event in EVENTS:
        producer.produce(topic, json.dumps(event), partition=1)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": embedded_broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
        }
    )
    consumer.subscribe([topic])
    found = recipe("confluent_loop").in_order(consumer, Ordering(TOPOLOGY))
    events = (record for record in found if isinstance(record, OrderedEvent))
    assert [event.seq for event in islice(events, len(NUMBERS))] == sorted(NUMBERS)
    producer.produce(topic, json.dumps({"source": "press", "seq": 4}), partition=1)
    assert producer.flush(30) == 0
    assert next(events).seq == len(NUMBERS)  # Earlier offsets are stored by now.
    consumer.commit(asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 1)])
    assert committed.offset == len(NUMBERS)
    consumer.close()


def test_idle_queue_emits_by_time() -> None:
    assert asyncio.run(waited()) == [0]


async def waited() -> list[int]:
    queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    queue.put_nowait(EVENTS[0])
    found = recipe("asyncio_queue").in_order(queue, Ordering(TOPOLOGY))
    return [(await anext(found)).seq]


class FakeBroker:
    """A stand-in for FastStream's broker that keeps what is published."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.published: list[tuple[Any, str, bytes]] = []
        self.handlers: dict[str, Any] = {}

    def subscriber(self, topic: str) -> Any:
        return lambda handler: self.handlers.setdefault(topic, handler)

    async def publish(self, message: Any, topic: str, *, key: bytes) -> None:
        self.published.append((message, topic, key))


def test_faststream_app_orders_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins replace FastStream, which the tests do not install."""
    package, confluent = ModuleType("faststream"), ModuleType("faststream.confluent")
    package.__dict__["FastStream"] = lambda broker: SimpleNamespace(broker=broker)
    confluent.__dict__["KafkaBroker"] = FakeBroker
    monkeypatch.setitem(sys.modules, "faststream", package)
    monkeypatch.setitem(sys.modules, "faststream.confluent", confluent)
    app = recipe("faststream_app")

    async def come() -> None:
        for event in EVENTS:
            await app.broker.handlers["events.raw"](event)

    asyncio.run(come())
    numbers = [message["n"] for message, _, _ in app.broker.published]
    assert numbers == sorted(numbers)
    assert {(topic, key) for _, topic, key in app.broker.published} == {
        ("events.ordered", b"press")
    }
