"""End to end: docs/operate/privacy.md, followed on a real Kafka, leaves nothing of a source."""

from __future__ import annotations

import json
import re
import runpy
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from agents.kafka import purging
from agents.kafka.declared import declared
from tests import ROOT
from tests.end_to_end.records import Read, contract, new_producer, read_all, send
from tests.end_to_end.setting import SPLIT, Setting, settle
from tests.end_to_end.worker import Worker, running
from tests.services import SharedKafka, UniqueName
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = ROOT / "docs/operate/privacy.md"
SCRIPT = ROOT / "docs/examples/retract_results.py"
SET = AlterConfigOpType.SET
SOURCE, PAYLOAD = "press-7", b'{"machine": "press-7", "worn_by": "Ada"}'
MARKS = (SOURCE.encode(), b"Ada")
STREAM = "reorder: {max_wait: 1s, late: side, forget_after: 1s, start: zero}"
MORE = """\
correct_for: 2s
spill_after: 1ms
queries:
  plain: {window: tumbling 1s, aggregate: {n: count()}, key: payload.machine}
  table: {window: tumbling 1s, aggregate: {n: count()}, key: payload.machine, upsert: true}
"""
TIMEOUT_S = 60.0
T = TypeVar("T")


def of_source(record: Read) -> bool:
    parts = [record.key or b"", record.value or b"", *(text or b"" for _, text in record.headers)]
    return any(mark in part for mark in MARKS for part in parts)


def newest_of(bootstrap: str, topic: str) -> list[Read]:
    """What compaction leaves of the topic."""
    kept = {(each.partition, each.key): each for each in read_all(bootstrap, topic)}
    return [each for each in kept.values() if each.value is not None]


class Plant:
    """Two sources that send, one of which is to be forgotten."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._seq = 0

    def send(self, source: str, seq: int, ago_s: float = 0.0, **more: bytes) -> None:
        headers = [*contract(source, seq, time.time_ns() - int(ago_s * 1e9)), *more.items()]
        send(self._setting, [(source, PAYLOAD if source == SOURCE else b"{}", headers)])

    def send_what_is_to_go(self) -> None:
        """In order, late, lost, and dead."""
        for seq in (0, 1, 2, 4, 6):
            self.send(SOURCE, seq)
            self.goes_on()
        self.until(self._orders, {0, 1, 2, 4, 6}, "that 3 and 5 are given up")
        self.send(SOURCE, 3, ago_s=3.0)
        send(self._setting, [(SOURCE, PAYLOAD, [("sourceId", SOURCE.encode())])])
        offset = b'{"at": 1, "offset": 0, "error": 1}'
        publish(self._setting, self._setting.topology.topics.clock, SOURCE, offset)
        self.goes_on(1.0)

    def goes_on(self, seconds: float = 0.0) -> None:
        """The other source sends for so long, once at least."""
        end_s = time.monotonic() + seconds
        while True:
            self.send("oven-2", self._seq)
            self._seq += 1
            time.sleep(0.1)
            if time.monotonic() >= end_s:
                return

    def goes_on_fast(self, count: int) -> None:
        """The other source sends so many at once."""
        seqs = range(self._seq, self._seq + count)
        at_ns = time.time_ns()
        send(self._setting, [("oven-2", b"{}", contract("oven-2", n, at_ns)) for n in seqs])
        self._seq += count

    def until(self, look: Callable[[], set[T]], wanted: set[T], what: str) -> None:
        """The other source sends until a look finds what is wanted."""
        seen: set[T] = set()

        def looks() -> bool:
            nonlocal seen
            self.goes_on()
            seen = look()
            return seen == wanted

        wait_until(looks, what, lambda: frozenset(seen))

    def _orders(self) -> set[int]:
        """The numbers of what is ordered of the source that is to be forgotten."""
        found = read_all(self._setting.bootstrap, self._setting.ordered)
        return {each.number("seqNum") for each in found if each.header("sourceId") == SOURCE}


def publish(setting: Setting, topic: str, key: str, value: bytes | None) -> None:
    producer = new_producer(setting.bootstrap)
    producer.produce(topic, value, key)
    assert producer.flush(TIMEOUT_S) == 0


def compact_soon(setting: Setting, names: list[str]) -> None:
    """As the page's last command has it, with each ten minutes as a tenth of a second."""
    (said,) = re.findall(r"--add-config (\S+)", PAGE.read_text())
    settings = [pair.replace("600000", "100").split("=") for pair in said.split(",")]
    admin = AdminClient({"bootstrap.servers": setting.bootstrap})
    for name in names:
        entries = [ConfigEntry(key, value, incremental_operation=SET) for key, value in settings]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def ends(setting: Setting, names: Iterable[str]) -> list[TopicPartition]:
    consumer = Consumer({"bootstrap.servers": setting.bootstrap, "group.id": "ends"})
    places = [TopicPartition(name, 0) for name in names]
    found = [consumer.get_watermark_offsets(each, timeout=TIMEOUT_S)[1] for each in places]
    consumer.close()
    return [TopicPartition(each.topic, 0, end) for each, end in zip(places, found, strict=True)]


def test_nothing_is_left_of_a_source(
    kafka: SharedKafka, tmp_path: Path, unique_name: UniqueName
) -> None:
    more = MORE.replace("table:", f"{unique_name('table')}:")
    setting = settle(
        kafka.bootstrap, tmp_path, stages=f"{SPLIT}, window", partitions=1, stream=STREAM, more=more
    )
    topics = setting.topology.topics
    specs = declared(setting.topology)
    compacted = [each.name for each in specs if "cleanup.policy" in each.config]
    results = [name for name in compacted if "changelog" not in name and name != topics.clock]
    changelogs = [name for name in compacted if "changelog" in name]
    plant = Plant(setting)

    def left(names: Iterable[str], *, newest: bool = False) -> set[str]:
        looked = newest_of if newest else read_all
        return {n for n in names if any(map(of_source, looked(setting.bootstrap, n)))}

    with running(Worker("w", setting.path, setting.bootstrap, tmp_path)):
        plant.send_what_is_to_go()
        everywhere = {each.name for each in specs}
        plant.until(lambda: left(everywhere), everywhere, "the source in every topic")
        plant.send(SOURCE, 7, kind=b"bye")
        plant.goes_on(4.0)
        plant.send("press-8", 0)
        plant.until(lambda: left(changelogs, newest=True), set(), "that the state forgets it")

        asked = json.loads(re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)[0])
        own = {"events.raw": setting.raw, "events.ordered": setting.ordered}
        own |= {f"events.{name}": getattr(topics, name) for name in ("late", "gaps", "dead")}
        deleted = [own[each["topic"]] for each in asked["partitions"]]
        passed = ends(setting, deleted)
        plant.goes_on(2.0)
        admin = AdminClient({"bootstrap.servers": setting.bootstrap})
        for answer in admin.delete_records(passed).values():
            answer.result(TIMEOUT_S)
        runpy.run_path(str(SCRIPT))["main"](setting.bootstrap, SOURCE, *results)
        publish(setting, topics.clock, SOURCE, None)
        assert left(results, newest=True) == set()

        for name in (*changelogs, *results, topics.clock):
            with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
                admin.delete_records([TopicPartition(name, 0, 1)])[TopicPartition(name, 0)].result()
        compact_soon(setting, compacted)
        plant.goes_on_fast(purging.LEAST)  # what is read between stages goes so many at a time

        def what_is_left() -> set[str]:
            for name in (*results, topics.clock):
                publish(setting, name, "oven-2", None)
            everywhere.intersection_update(left(everywhere))
            return everywhere

        plant.until(what_is_left, set(), "that brokers compact")
