"""Examples: the bridge from MQTT, with a stand-in for paho-mqtt and a Kafka broker."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Consumer

from cli.local.embedded import EmbeddedBroker
from tests import ROOT

BRIDGE: Final = ROOT / "docs" / "examples" / "mqtt_bridge.py"


class FakeClient:
    """A client with the part of paho-mqtt that the bridge uses.

    Each call of `loop` brings one message, until all have been acknowledged.
    """

    made: Any = None

    def __init__(self, _: Any, name: str, *, protocol: int, manual_ack: bool) -> None:
        assert (name, protocol, manual_ack) == ("inorder-bridge", 5, True)
        FakeClient.made = self
        self.on_connect: Callable[..., None]
        self.on_message: Callable[..., None]
        self.waiting = {7: b'{"n": 0}', 8: b'{"n": 1}'}
        self.sent: list[int] = []
        self.subscribed: Any = None

    def connect(self, host: str, port: int, *, clean_start: bool, properties: Any) -> None:
        assert (host, port, clean_start) == ("mqtt", 1883, False)
        assert properties.SessionExpiryInterval > 0
        self.on_connect(self, None, None, 0, None)

    def subscribe(self, topic: str, options: Any) -> None:
        self.subscribed = topic, options

    def loop(self, _: float) -> int:
        for mid in self.waiting.keys() - {*self.sent}:
            self.sent.append(mid)
            topic = "plant/oven-1/heat"
            message = SimpleNamespace(topic=topic, payload=self.waiting[mid], mid=mid, qos=1)
            self.on_message(self, None, message)
            return 0
        return 0 if self.waiting else 7

    def ack(self, mid: int, qos: int) -> None:
        assert qos == 1
        del self.waiting[mid]

    def disconnect(self) -> None:
        self.waiting = {}


@pytest.fixture
def paho(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    client: Any = ModuleType("paho.mqtt.client")
    client.Client, client.MQTTv5, client.MQTT_ERR_SUCCESS = FakeClient, 5, 0
    client.CallbackAPIVersion = SimpleNamespace(VERSION2=2)
    parts: dict[str, Any] = {
        "client": client,
        "packettypes": SimpleNamespace(PacketTypes=SimpleNamespace(CONNECT=1)),
        "properties": SimpleNamespace(Properties=lambda _: SimpleNamespace()),
        "subscribeoptions": SimpleNamespace(SubscribeOptions=SimpleNamespace),
    }
    mqtt: Any = ModuleType("paho.mqtt")
    monkeypatch.setitem(sys.modules, "paho", ModuleType("paho"))
    monkeypatch.setitem(sys.modules, "paho.mqtt", mqtt)
    for name, part in parts.items():
        setattr(mqtt, name, part)
        monkeypatch.setitem(sys.modules, f"paho.mqtt.{name}", part)
    return FakeClient


def test_stored_message_gets_an_ack(
    paho: type[FakeClient], embedded_broker: EmbeddedBroker, topic: str
) -> None:
    runpy.run_path(str(BRIDGE))["bridge"]("mqtt", 1883, embedded_broker.bootstrap, topic)
    assert not paho.made.waiting
    subscribed, options = paho.made.subscribed
    assert (subscribed, options.qos, options.retainHandling) == ("plant/+/+", 1, 1)
    settings = {"bootstrap.servers": embedded_broker.bootstrap, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "group.id": topic})
    consumer.subscribe([topic])
    found: list[Any] = [consumer.poll(30) for _ in range(2)]
    consumer.close()
    assert sorted(each.value() for each in found) == [b'{"n": 0}', b'{"n": 1}']
    for each in found:
        assert each.key() == b"oven-1"
        assert dict(each.headers()) == {"device": b"oven-1", "measure": b"heat"}


def test_refused_message_gets_no_ack(
    paho: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledged: list[int] = []
    monkeypatch.setattr(paho, "ack", lambda _, mid, __: acknowledged.append(mid))

    class Refusing:
        def __init__(self, _: Any) -> None:
            self.left: list[Callable[[Any, Any], None]] = []

        def produce(self, *_: Any, on_delivery: Callable[[Any, Any], None], **__: Any) -> None:
            self.left.append(on_delivery)

        def poll(self, _: float) -> None:
            for each in self.left:
                each("refused", None)

        def flush(self, _: float) -> None: ...

    monkeypatch.setattr("confluent_kafka.Producer", Refusing)
    runpy.run_path(str(BRIDGE))["bridge"]("mqtt", 1883, "kafka:9092", "plant")
    assert acknowledged == []
