"""Examples: who notes a change never waits for the store, and nothing of a change is halved."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping

import pytest

import agents.state.copy_writer as writing
from agents.state.copy_writer import BEHIND, CopyWriter
from agents.state.local_copy import LocalCopy
from agents.state.stores.store import Changes, StoreName
from tests.agents.state.stores.memory import MemoryStore

NAME = StoreName("shop", "reorder", "raw", 7)
PATIENCE_S = 10.0


class SlowStore(MemoryStore):
    """Hangs in `apply` while `hangs` is set; keeps what it held when it was closed."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.entered = threading.Event()
        self.applied: list[int] = []
        self.held: dict[bytes, bytes] = {}

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        self.entered.set()
        assert self.goes_on.wait(PATIENCE_S)
        super().apply(changes, base, position)
        self.applied.append(position)

    def close(self) -> None:
        self.held = dict(self._values)
        super().close()

    @property
    def state(self) -> Mapping[bytes, bytes]:
        return {key: value for key, value in self.held.items() if key != b"\nseal"}


def writer_of(store: SlowStore | None) -> tuple[CopyWriter, list[str]]:
    failures: list[str] = []
    copy = LocalCopy("raw/7", lambda: store, failures.append)
    copy.load()
    return CopyWriter(copy), failures


async def test_what_changes_often_is_written_once() -> None:
    store = SlowStore()
    writer, failures = writer_of(store)
    for position in range(1, 11):
        writer.note({b"a": b"%d" % position, b"gone": b"x"}, position)
    writer.note({b"gone": None}, 11)
    await writer.close()
    assert store.applied == [11]
    assert store.state == {b"a": b"10"}
    assert failures == []


async def test_what_waits_is_written_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WRITE_EVERY_S", 0.01)
    store = SlowStore()
    writer, _ = writer_of(store)
    writer.note({b"a": b"1"}, 1)
    deadline_s = time.monotonic() + PATIENCE_S
    while store.applied != [1]:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.005)
    await writer.close()


async def test_a_store_that_hangs_holds_up_nobody_and_is_left_behind_at_the_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "WRITE_AT_BYTES", 1)
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 1_000)

    caplog.set_level(logging.WARNING)
    store = SlowStore()
    writer, failures = writer_of(store)
    store.goes_on.clear()
    writer.note({b"a": b"1"}, 1)
    assert store.entered.wait(PATIENCE_S)
    began_s = time.monotonic()
    for position in range(2, 30):
        writer.note({b"a": bytes(100)}, position)
    assert time.monotonic() - began_s < PATIENCE_S  # it hangs until it is let go
    assert failures == [BEHIND]
    store.goes_on.set()
    await writer.close()
    assert store.applied == [1]  # an earlier whole one
    assert store.state == {b"a": b"1"}
    assert len([r for r in caplog.records if "cannot keep up" in r.message]) == 1


async def test_a_large_change_has_room_where_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 1_000)

    store = SlowStore()
    writer, failures = writer_of(store)
    writer.note({b"a": bytes(5_000)}, 1)
    await writer.close()
    assert (store.applied, failures) == ([1], [])


async def test_a_store_that_hangs_is_not_waited_for_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "WRITE_AT_BYTES", 1)
    monkeypatch.setattr(writing, "CLOSE_WAIT_S", 0.1)

    store = SlowStore()
    writer, failures = writer_of(store)
    store.goes_on.clear()
    writer.note({b"a": b"1"}, 1)
    assert store.entered.wait(PATIENCE_S)
    began_s = time.monotonic()
    await writer.close()
    assert time.monotonic() - began_s < PATIENCE_S
    assert failures == [BEHIND]
    store.goes_on.set()


async def test_without_a_store_nothing_is_kept() -> None:
    writer, failures = writer_of(None)
    threads = threading.active_count()
    writer.note({b"a": b"1"}, 1)
    assert threading.active_count() == threads
    await writer.close()
    assert failures == []
