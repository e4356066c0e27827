"""Examples: each answer to the client is inspected, and a throttle time is noted for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from agents.kafka import throttling
from agents.kafka.throttling import SHOWN_S, Throttling

MS = 1_000_000
SHOWN_NS = int(SHOWN_S * 1e9)


def test_throttling_is_shown_for_a_while() -> None:
    seen = Throttling()
    assert seen.notes(0) == ()
    seen.note(0, 5 * MS)
    assert (seen.until_ns, seen.notes(5 * MS)) == (0, ())
    seen.note(12_000, 5 * MS)
    end_ns = 12_005 * MS
    assert seen.until_ns == end_ns
    for now_ns in (5 * MS, end_ns, end_ns + SHOWN_NS):
        (note,) = seen.notes(now_ns)
        assert note.startswith("throttled by a quota: 12,000 ms at the last answer; raise ")
    assert seen.notes(end_ns + SHOWN_NS + 1) == ()


def test_latest_throttling_end_counts() -> None:
    seen = Throttling()
    seen.note(3_000, 0)
    seen.note(1_000, 1_000 * MS)
    assert seen.until_ns == 3_000 * MS
    seen.note(2_500, 1_000 * MS)
    assert seen.until_ns == 3_500 * MS
    assert "2,500 ms" in str(seen.notes(0))


@pytest.mark.parametrize(
    ("answer", "throttled"),
    [
        (SimpleNamespace(throttle_time_ms=700), True),
        (SimpleNamespace(throttle_time_ms=0), False),
        (SimpleNamespace(), False),  # an old version of a request, or one without an answer
    ],
)
async def test_client_answers_are_inspected(
    answer: Any, throttled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(*asked: Any, **more: Any) -> Any:
        assert asked[1:] == (1, "request")
        assert more == {"group": 2}
        return answer

    monkeypatch.setattr(throttling, "OF_PROCESS", Throttling())
    monkeypatch.setattr(throttling, "_send", send)
    monkeypatch.setattr(AIOKafkaClient, "send", AIOKafkaClient.send)
    throttling.record_throttling()
    client = AIOKafkaClient(bootstrap_servers="nowhere:1")
    assert await client.send(1, "request", group=2) is answer
    assert bool(throttling.OF_PROCESS.until_ns) == throttled
