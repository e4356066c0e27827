"""Examples: a wait ends when nothing has changed for a while; a busy machine gets more time."""

from __future__ import annotations

import os
import time

import pytest

from cli.local import poll
from tests.waiting import Patience, wait_until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that only a sleep moves; no other process needs the processors."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(poll, "share_of_processors", lambda: 1.0)
    return now


def test_wait_ends_without_progress(clock: list[float]) -> None:
    with pytest.raises(AssertionError, match="in vain for the end; nothing has moved for 2 s"):
        wait_until(lambda: False, "the end", lambda: min(clock[0], 50.0), quiet_s=2)
    assert 52 < clock[0] < 52.2


def test_busy_machine_gets_more_time(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "share_of_processors", lambda: 4.0)
    patience = Patience(10)
    clock[0] = 39.0
    patience.look(None, lambda: "nothing")
    clock[0] = 41.0
    with pytest.raises(AssertionError):
        patience.look(None, lambda: "nothing")


def test_share_is_load_per_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for load, share in ((0.1, 1.0), (2.0, 1.0), (8.0, 4.0)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert poll.share_of_processors() == share
