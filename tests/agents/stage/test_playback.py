"""Examples: time while a recording is played back, and the warning about old timestamps."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from agents.kafka.partition_queue import End, FetchRequest
from agents.stage.arrival import NS_PER_MS, ArrivalClock
from agents.stage.playback import MOST_AHEAD_MS, Playback
from agents.task.partition import Partition
from inorder.playback import GRACE_MS, OVER, decode, encode
from tests.agents.records import arranged, batch_of, services_of
from tests.agents.task.test_partition import SOURCE, TOPOLOGY, Delivery, partition_of

CREATE_TIME = 0
S_NS = 10**9
TWO_HOURS_NS = 7_200 * S_NS


def record(*headers: Any) -> Any:
    return SimpleNamespace(headers=headers)


def test_time_awaits_recordings() -> None:
    playback = Playback()
    assert playback.is_holding_time(5)
    assert not playback.note_records("a", [record(("seqNum", b"1"))])
    assert not playback.is_holding_time(5)
    assert playback.note_records("a", [record(encode(10)), record(encode(20))])
    assert playback.note_records("b", [record(encode(30))])
    assert [playback.is_holding_time(ms) for ms in (19, 29, 30)] == [True, True, False]
    playback.note_records("b", [record(encode(OVER))])
    assert [playback.is_holding_time(ms) for ms in (19, 20)] == [True, False]


def test_far_recording_holds_no_time() -> None:
    playback = Playback()
    playback.note_records("a", [record(encode(10**15 - 1))])
    assert not playback.is_holding_time(5)
    playback.note_records("a", [record(encode(5 + MOST_AHEAD_MS))])
    assert playback.is_holding_time(5)


def test_takeover_continues_time() -> None:
    playback = Playback()
    playback.let_time_advance()
    assert not playback.is_holding_time(5)


@pytest.mark.parametrize("value", [None, b"", b"x", b"-1", b"9" * 16])
def test_bad_header_holds_no_time(value: bytes | None) -> None:
    assert decode(value) == OVER


def test_recording_keeps_arrivals() -> None:
    clock = ArrivalClock(0, embedded=True)
    now_ns, old_ns = time.time_ns(), time.time_ns() - TWO_HOURS_NS
    clock.plays = True
    old_ms = old_ns // NS_PER_MS
    assert clock.arrive(old_ms, CREATE_TIME, now_ns) == old_ms * NS_PER_MS
    clock.plays = False
    assert clock.arrive(old_ms, CREATE_TIME, now_ns) == now_ns


async def test_recording_suspends_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    playback = Playback()
    services = services_of("reorder+merge", Delivery(), playback=playback)
    partition = Partition(SOURCE, arranged(TOPOLOGY), services)
    partition.is_open = True
    partition.state.first.clock.embedded = True
    ticks = Mock()
    monkeypatch.setattr(partition, "_tick", ticks)
    caught_up = batch_of(SOURCE, [], End(0, 0, FetchRequest(1, time.time_ns(), 1)))
    await partition.take(caught_up)
    playback.note_records("a", [record(encode(time.time_ns() // NS_PER_MS + GRACE_MS))])
    await partition.take(caught_up)
    assert ticks.call_count == 0
    playback.note_records("a", [record(encode(OVER))])
    await partition.take(caught_up)
    assert ticks.call_count == 1


@pytest.mark.parametrize(
    ("arrival_ns", "behind_h", "said"),
    [
        (1_700_000_000 * S_NS, 0.9, ""),
        (1_700_000_000 * S_NS, 806, "events.raw: stamps are 806 h behind arrivals"),
        (
            1_700_000_000 * S_NS,
            1_700_000_000 / 3600,
            "",
        ),  # No event has come, or it has no time of its own.
    ],
)
def test_old_timestamps_are_reported(arrival_ns: int, behind_h: float, said: str) -> None:
    partition = partition_of(Delivery())
    partition.state.first.clock.now_ns = arrival_ns
    partition.state.first.newest_stamp_ns = arrival_ns - int(behind_h * 3600 * S_NS)
    assert [line.split(",")[0] for line in partition.describe_stale()] == ([said] if said else [])
