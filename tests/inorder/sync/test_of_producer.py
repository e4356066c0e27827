"""Examples: a SequencedProducer measures its clock in the background."""

from __future__ import annotations

import time

import pytest

from inorder.anchored_clock import AnchoredClock
from inorder.sequenced import SequencedProducer
from inorder.sync.client import SyncClient
from inorder.sync.reason import Reason
from inorder.sync.settings import SyncSettings
from tests.inorder.records import Topic
from tests.inorder.sync.sockets import serving
from tests.waiting import wait_until

TIMEOUT_S = 10.0
HOUR_NS = 3_600 * 10**9
NOWHERE = SyncSettings("127.0.0.1:1", timeout_s=0.1)


def test_producer_measures_its_clock(raw: Topic) -> None:
    behind = AnchoredClock(wall_ns=lambda: time.time_ns() - HOUR_NS)
    with (
        serving() as server,
        SequencedProducer(
            *raw, "s1", first_epoch=7, clock=behind, sync=SyncSettings(server.name)
        ) as producer,
    ):
        server.wait_taken(10)
        assert producer.sync is not None
        status = producer.sync.status()
        sent_ns = time.time_ns()
        producer.send(b"x")
        assert server.taken[0].epoch == 7
    (event,) = raw.events(1)
    assert status.offset_ns is not None
    assert status.error_ns is not None
    assert abs(status.offset_ns - HOUR_NS) <= status.error_ns + 100_000
    assert 0 <= event.ts_ns + HOUR_NS - sent_ns < TIMEOUT_S * 10**9


def test_producer_uses_its_clients_clock(raw: Topic) -> None:
    with serving() as server:
        of_1970 = AnchoredClock(wall_ns=lambda: 42 * 10**9)
        client = SyncClient("s1", SyncSettings(server.name), clock=of_1970)
        with SequencedProducer(*raw, "s1", sync=client) as producer:
            assert producer.sync is client
            producer.send(b"x")
            server.wait_taken(1)
        assert not client._talks[0].thread.is_alive()  # The client was closed with the producer.
    (event,) = raw.events(1)
    assert 42 * 10**9 <= event.ts_ns < (42 + TIMEOUT_S * 10) * 10**9


def test_failing_sync_delays_no_send(raw: Topic) -> None:
    with SequencedProducer(*raw, "s1", sync=NOWHERE) as producer:
        client = producer.sync
        assert client is not None
        began_s = time.monotonic()
        for _ in range(1_000):
            producer.send(b"x")
        assert time.monotonic() - began_s < TIMEOUT_S
        wait_until(lambda: Reason.UNREACHABLE in client.status().failures, "failures")
        assert producer.next_seq == 1_000
    assert len(raw.events(1_000)) == 1_000


def test_unfit_client_is_refused() -> None:
    client = SyncClient("s1", NOWHERE)
    with pytest.raises(ValueError, match="belongs to source s1, not to s2"):
        SequencedProducer("127.0.0.1:1", "raw", "s2", sync=client)
    with pytest.raises(ValueError, match="measures another clock"):
        SequencedProducer("127.0.0.1:1", "raw", "s1", sync=client, clock=lambda: 0)
    with pytest.raises(ValueError, match="has 65 bytes"):
        SequencedProducer("127.0.0.1:1", "raw", "x" * 65, sync=NOWHERE)
