"""End to end: sources, the sync server's process, and a real broker.

Samples in `clock.offsets` follow the contract: keyed by source, each source in one partition and in
order, with arrival time. The broker can be away for a while.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.kafka.declared import list_needed_topics
from agents.kafka.topics import ensure_topics
from cli.local.kafka import KafkaBroker
from infra.kafka import ContainerBroker
from inorder.anchored_clock import AnchoredClock
from inorder.sequenced import SequencedProducer
from inorder.sync.client import SyncClient
from inorder.sync.keys import KeyRing
from inorder.sync.settings import SyncSettings
from tests.cli.run.test_sync_server import Server, running
from tests.end_to_end.records import Read, read_all
from tests.end_to_end.setting import Setting, Settles, settle
from tests.inorder.sync.key_file import key_table
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RUN_MS = 120_000
"""Milliseconds that are longer than the test takes; the clocks are an hour wrong."""

HOUR_NS = 3_600 * 10**9
SECRETS = ("11" * 32, "22" * 32, "33" * 32)
KEYS = "".join(map(key_table, (1, 2, 3), SECRETS, ("early", "exact", "stranger")))
KEYS = KEYS.replace('["early"]', '["early", "late"]')
OFFSETS_NS = {"early": -HOUR_NS, "exact": 0, "late": HOUR_NS}
FIELDS = {"t1", "t2", "t3", "t4", "server", "segment", "mono"}
CLOCKS_NS = 100_000
"""Largest difference of two clocks of one machine that are read one after the other."""


@contextmanager
def served(setting: Setting, folder: Path) -> Iterator[Server]:
    keys = folder / "keys"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    options = ("--brokers", setting.bootstrap, "--topology", str(setting.path))
    with running(folder, *options, "--keys", str(keys), "--server", "sync-1") as server:
        yield server


def clock_of(offset_ns: int) -> AnchoredClock:
    return AnchoredClock(wall_ns=lambda: time.time_ns() - offset_ns)


def samples(setting: Setting) -> list[Read]:
    return read_all(setting.bootstrap, setting.topology.topics.clock)


def test_samples_follow_the_contract(settles: Settles, tmp_path: Path) -> None:
    setting = settles()
    clocks = {source: clock_of(offset_ns) for source, offset_ns in OFFSETS_NS.items()}
    ring = KeyRing.parse(KEYS)
    with served(setting, tmp_path) as server:
        producers = [
            SequencedProducer(
                setting.bootstrap,
                setting.raw,
                source,
                clock=clock,
                sync=SyncSettings(server.address, keys=ring, first_resync_s=1.0),
            )
            for source, clock in clocks.items()
        ]
        for producer in producers:
            producer.send(b"x")
        wait_until(
            lambda: all(p.sync is not None and p.sync.status().rounds >= 14 for p in producers),
            "a burst and a re-sync of each",
        )
        # A key of one source is not valid for another.
        forged = KeyRing.parse(KEYS.replace('"exact"', '"nobody"').replace('"stranger"', '"exact"'))
        with SyncClient("exact", SyncSettings(server.address, keys=forged)) as liar:
            wait_until(lambda: server.metrics()["packets_totalkey_of_others"] > 0, "the refusal")
            assert liar.status().rounds == 0
        for producer in producers:
            producer.close()
        assert server.process.stop() == 0, server.log
    began_ms = time.time_ns() // 10**6 - RUN_MS
    records = samples(setting)
    assert {record.key for record in records} == {source.encode() for source in OFFSETS_NS}
    for source, offset_ns in OFFSETS_NS.items():
        of_source = [record for record in records if record.key == source.encode()]
        assert len(of_source) >= 14
        assert len({record.partition for record in of_source}) == 1
        values: list[dict[str, Any]] = [json.loads(record.value or b"") for record in of_source]
        assert [v["t1"] for v in values] == sorted(v["t1"] for v in values)
        for record, value in zip(of_source, values, strict=True):
            assert value.keys() == FIELDS
            assert (value["server"], value["segment"]) == ("sync-1", 0)
            assert value["t3"] - value["t4"] <= offset_ns + CLOCKS_NS
            assert offset_ns - CLOCKS_NS <= value["t2"] - value["t1"]
            assert record.headers == []
            assert record.timestamp_ms >= began_ms  # the arrival time, not the source's


def test_sync_continues_without_broker(
    own_kafka: KafkaBroker | ContainerBroker, tmp_path: Path
) -> None:
    setting = settle(own_kafka.bootstrap, tmp_path, make=False)
    ensure_topics(
        list_needed_topics(setting.topology), setting.bootstrap, setting.topology.topics.replication
    )
    with served(setting, tmp_path) as server:
        with SyncClient(
            "exact", SyncSettings(server.address, keys=KeyRing.parse(KEYS), first_resync_s=1.0)
        ) as client:
            wait_until(lambda: client.status().rounds >= 10, "the first burst")
            own_kafka.pause()
            try:
                wait_until(lambda: client.status().rounds >= 18, "two more, the broker being away")
                status, live = server.ask("live")
                assert (status, live["ok"]) == (200, True)
            finally:
                own_kafka.resume()
            rounds = client.status().rounds
        wait_until(lambda: server.metrics()["samples_totaldelivered"] >= rounds, "what had waited")
        assert server.process.stop() == 0, server.log
    assert len(samples(setting)) >= rounds


def test_missing_topic_is_reported(settles: Settles, tmp_path: Path) -> None:
    setting = settles(make=False)
    server = Server(tmp_path, "--brokers", setting.bootstrap, "--topology", str(setting.path))
    server.process.start()
    wait_until(lambda: not server.process.is_alive(), "its end")
    assert server.process.stop() == 2
    topic = setting.topology.topics.clock
    assert f"has no topic {topic}; run `inorder topics create`" in server.log
    assert "Traceback" not in server.log
