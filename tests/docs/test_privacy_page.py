"""End to end: docs/operate/privacy.md, followed on a real Kafka, leaves nothing of a source."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from agents.kafka import purging
from agents.kafka.declared import list_needed_topics
from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from tests import ROOT
from tests.end_to_end.records import ANY_PARTITION, Read, contract, deliver, read_all, send
from tests.end_to_end.setting import SPLIT, Setting, settle
from tests.end_to_end.topics import admin_of, configure, offsets_of
from tests.end_to_end.worker import Worker, running
from tests.services import UniqueName
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = ROOT / "docs/operate/privacy.md"
SCRIPT = ROOT / "docs/examples/retract_results.py"
SOURCE, PAYLOAD = "press-7", b'{"machine": "press-7", "worn_by": "Ada"}'
PAYLOAD_OF = defaultdict(lambda: b"{}", {SOURCE: PAYLOAD})
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


def of_source(record: Read) -> bool:
    parts = [record.key or b"", record.value or b"", *(text or b"" for _, text in record.headers)]
    return any(mark in part for mark in MARKS for part in parts)


def newest_of(bootstrap: str, topic: str) -> list[Read]:
    """Return the topic's records that compaction would keep."""
    kept = {(each.partition, each.key): each for each in read_all(bootstrap, topic)}
    return [each for each in kept.values() if each.value is not None]


class Plant:
    """A plant with two sources, each sending ten events a second; one is to be forgotten."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._seqs = {SOURCE: 0, "oven-2": 0}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Plant:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            with self._lock:
                self.send({source: self._next(source) for source in self._seqs})

    def _next(self, source: str) -> int:
        self._seqs[source] += 1
        return self._seqs[source] - 1

    def send(self, seqs: dict[str, int], ago_s: float = 0.0, **more: bytes) -> None:
        at_ns = time.time_ns() - int(ago_s * 1e9)
        send(
            self._setting,
            [
                (source, PAYLOAD_OF[source], [*contract(source, seq, at_ns), *more.items()])
                for source, seq in seqs.items()
            ],
        )

    def send_what_is_to_go(self) -> None:
        """Send records that become a gap, a late event and a dead letter, and a clock record."""
        with self._lock:
            seq = self._next(SOURCE)
        self.until_ordered(SOURCE, beyond=seq)
        self.send({SOURCE: seq}, ago_s=3.0)
        send(self._setting, [(SOURCE, PAYLOAD, [("sourceId", SOURCE.encode())])])
        offset = b'{"at": 1, "offset": 0, "error": 1}'
        publish(self._setting, self._setting.topology.topics.clock, SOURCE, offset)

    def end(self) -> None:
        """Send the end-of-stream marker for the source that is to be forgotten."""
        with self._lock:
            self.send({SOURCE: self._seqs.pop(SOURCE)}, kind=b"bye")

    def send_fast(self, count: int) -> None:
        """Send `count` events of the other source at once."""
        with self._lock:
            records = [
                ("oven-2", b"{}", contract("oven-2", self._next("oven-2"), time.time_ns()))
                for _ in range(count)
            ]
            send(self._setting, records)

    def until_ordered(self, source: str, beyond: int | None = None) -> None:
        """Wait until an event after number `beyond`, by default the newest one sent, is ordered."""
        seq = self._seqs[source] if beyond is None else beyond

        def ordered() -> list[int]:
            found = read_all(self._setting.bootstrap, self._setting.ordered)
            return [each.number("seqNum") for each in found if each.header("sourceId") == source]

        wait_until(lambda: max(ordered(), default=-1) > seq, f"an event behind {source} {seq}")


def publish(setting: Setting, topic: str, key: str, value: bytes | None) -> None:
    deliver(setting.bootstrap, topic, [(key.encode(), value, [], ANY_PARTITION)])


def compact_soon(setting: Setting, names: list[str]) -> None:
    """Set up compaction as the page's last command does, with 0.1 s in place of ten minutes."""
    (said,) = re.findall(r"--add-config (\S+)", PAGE.read_text())
    for name in names:
        for pair in said.split(","):
            configure(setting.bootstrap, name, *pair.replace("600000", "100").split("="))


def test_nothing_is_left_of_a_source(
    own_kafka: KafkaBroker | ContainerBroker, tmp_path: Path, unique_name: UniqueName
) -> None:
    """A shared broker's cleaner would take the logs of all other tests first."""
    more = MORE.replace("table:", f"{unique_name('table')}:")
    setting = settle(
        own_kafka.bootstrap,
        tmp_path,
        stages=f"{SPLIT}, window",
        partitions=1,
        stream=STREAM,
        more=more,
    )
    topics = setting.topology.topics
    specs = [
        each for each in list_needed_topics(setting.topology) if not each.per_broker
    ]  # no events there
    compacted = [each.name for each in specs if "cleanup.policy" in each.config]
    results = [name for name in compacted if "changelog" not in name and name != topics.clock]
    changelogs = [name for name in compacted if "changelog" in name]

    def left(names: Iterable[str], *, newest: bool = False) -> set[str]:
        looked = newest_of if newest else read_all
        return {n for n in names if any(map(of_source, looked(setting.bootstrap, n)))}

    with running(Worker("w", setting.path, setting.bootstrap, tmp_path)), Plant(setting) as plant:
        topics_to_clean = {each.name for each in specs}
        missing = set(topics_to_clean)

        def nothing_is_missing() -> bool:
            plant.send_what_is_to_go()
            missing.difference_update(left(missing))
            return not missing

        wait_until(nothing_is_missing, "the source in every topic", lambda: sorted(missing))
        plant.end()
        newcomers = (f"lathe-{n}" for n in itertools.count())

        def the_state_forgets_it() -> bool:
            plant.send({next(newcomers): 0})
            return not left(changelogs, newest=True)

        wait_until(the_state_forgets_it, "that the state forgets the source")

        asked = json.loads(re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)[0])
        own = {"events.raw": setting.raw, "events.ordered": setting.ordered}
        own |= {f"events.{name}": getattr(topics, name) for name in ("late", "gaps", "dead")}
        deleted = [own[each["topic"]] for each in asked["partitions"]]
        ends = {name: offsets_of(setting.bootstrap, name)[1] for name in deleted}
        passed = [TopicPartition(name, 0, end) for name, end in ends.items()]
        plant.until_ordered("oven-2")
        admin = admin_of(setting.bootstrap)
        for answer in admin.delete_records(passed).values():
            answer.result(TIMEOUT_S)
        runpy.run_path(str(SCRIPT))["main"](setting.bootstrap, SOURCE, *results)
        publish(setting, topics.clock, SOURCE, None)
        assert left(results, newest=True) == set()

        for name in (*changelogs, *results, topics.clock):
            with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
                admin.delete_records([TopicPartition(name, 0, 1)])[TopicPartition(name, 0)].result()
        compact_soon(setting, compacted)
        plant.send_fast(purging.LEAST)  # Fewer records between stages are not deleted.

        def nothing_is_left() -> bool:
            for name in (*results, topics.clock):
                publish(setting, name, "oven-2", None)
            topics_to_clean.intersection_update(left(topics_to_clean))
            return not topics_to_clean

        wait_until(nothing_is_left, "that brokers compact", lambda: sorted(topics_to_clean))
