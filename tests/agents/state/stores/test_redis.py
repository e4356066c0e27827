"""Examples: a Redis copy when others write too, and when the server is lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import redis

import agents.state.stores.redis as kind
from agents.state.stores.redis import RedisStore, connect, key_of
from agents.state.stores.store import StaleStore, StoreName, StoreUnavailable
from infra.redis import RedisServer
from tests.waiting import calm_s

pytestmark = pytest.mark.redis

PARTITIONS = count()
OpenStore = Callable[[], RedisStore]


@pytest.fixture
def name() -> StoreName:
    return StoreName("shop", "reorder", "shop-state", next(PARTITIONS))


@pytest.fixture
def opened(redis_server: Any, name: StoreName) -> Iterator[OpenStore]:
    stores: list[RedisStore] = []

    def one_more() -> RedisStore:
        stores.append(RedisStore(connect(redis_server.url), name))
        return stores[-1]

    yield one_more
    for store in stores:
        store.close()


class Cut:
    """A proxy for a client that breaks the connection at chosen commands."""

    def __init__(
        self, client: redis.Redis, *, before: Collection[int] = (), after: Collection[int] = ()
    ) -> None:
        self._client = client
        self._before = before
        self._after = after
        self.commands = 0

    def execute_command(self, *command: Any) -> Any:
        self.commands += 1
        if self.commands in self._before:
            raise redis.ConnectionError("cut before the command")
        answer = self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        if self.commands in self._after:
            raise redis.TimeoutError("cut before the answer")
        return answer

    def close(self) -> None:
        self._client.close()


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "BACKOFF_S", 0.001)


def behind_cut(redis_server: Any, name: StoreName, **at: Collection[int]) -> tuple[RedisStore, Cut]:
    cut = Cut(connect(redis_server.url), **at)
    return RedisStore(cut, name), cut  # type: ignore[arg-type]


def test_paused_worker_is_fenced(opened: OpenStore) -> None:
    paused, successor = opened(), opened()
    paused.apply({b"a": b"old"}, None, 10)
    assert successor.position() == 10
    successor.apply({b"a": b"new"}, 10, 20)

    with pytest.raises(StaleStore, match="is at 20"):
        paused.apply({b"a": b"older"}, 10, 15)
    with pytest.raises(StaleStore):
        paused.apply({b"a": b"older"}, None, 30)
    with pytest.raises(StaleStore):
        paused.clear()
    assert dict(successor.items()) == {b"a": b"new"}
    assert successor.position() == 20


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("attempt", ["before", "after"])
def test_lost_connection_is_retried(
    redis_server: Any,
    name: StoreName,
    monkeypatch: pytest.MonkeyPatch,
    pieces: int,
    attempt: str,
) -> None:
    monkeypatch.setattr(kind, "CHANGES_PER_CALL", 10 // pieces)
    values = {b"%d" % k: b"v" for k in range(10 if pieces == 1 else 9)}
    for at in range(1, pieces + 1):
        store, cut = behind_cut(redis_server, name, **{attempt: {at}})
        store.apply(values, None, 5)
        assert cut.commands == pieces + 1
        assert (store.position(), dict(store.items())) == (5, values)
        store.clear()
        store.close()


def test_broken_change_empties_copy(
    opened: OpenStore, redis_server: Any, name: StoreName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "CHANGES_PER_CALL", 2)
    opened().apply({b"kept": b"1", b"0": b"old"}, None, 5)
    values: dict[bytes, bytes | None] = {b"%d" % k: b"new" for k in range(6)}
    store, cut = behind_cut(redis_server, name, before=set(range(2, 9)))
    with pytest.raises(StoreUnavailable, match="after 3 attempt"):
        store.apply(values, 5, 6)
    assert cut.commands == 1 + kind.ATTEMPTS
    store.close()

    store = opened()
    assert store.position() is None
    assert list(store.items()) == []
    store.apply({b"a": b"1"}, None, 9)
    assert dict(store.items()) == {b"a": b"1"}


def test_two_writers_do_not_mix(
    opened: OpenStore, redis_server: Any, name: StoreName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer takes the copy over while the first is between two pieces."""
    monkeypatch.setattr(kind, "CHANGES_PER_CALL", 1)
    second = opened()

    class TakenOver(Cut):
        def execute_command(self, *command: Any) -> Any:
            answer = super().execute_command(*command)
            if self.commands == 1:
                second.apply({b"b": b"2"}, None, 7)
            return answer

    client = TakenOver(connect(redis_server.url))
    first = RedisStore(client, name)  # type: ignore[arg-type]
    with pytest.raises(StaleStore):
        first.apply({b"a": b"1", b"c": b"3"}, None, 7)
    assert (second.position(), dict(second.items())) == (7, {b"b": b"2"})
    first.close()


def test_large_changes_are_stored(opened: OpenStore) -> None:
    store = opened()
    values: dict[bytes, bytes | None] = {b"%d" % k: b"v%d" % k for k in range(25_000)}
    store.apply(values, None, 1)
    half: dict[bytes, bytes | None] = {b"%d" % k: None for k in range(0, 25_000, 2)}
    store.apply(half | {b"big": bytes(9 << 20)}, 1, 2)
    held = dict(store.items())
    assert len(held) == 12_501
    assert held[b"24999"] == b"v24999"
    assert held[b"big"] == bytes(9 << 20)


def test_names_have_distinct_keys() -> None:
    words = (("a", "b:c", "d"), ("a:b", "c", "d"), ("a", "b", "c:d"))
    names = [StoreName(*each, 0) for each in words]
    assert len({key_of(name) for name in names}) == len(names)


def at(server: socket.socket, name: StoreName, *hung: str) -> RedisStore:
    return RedisStore(connect(f"redis://127.0.0.1:{server.getsockname()[1]}/0"), name, *hung)


@pytest.mark.parametrize(("opening_s", "attempts"), [(kind.OPENING_S, 3), (0.05, 1)])
def test_silent_server_fails_in_time(
    name: StoreName, monkeypatch: pytest.MonkeyPatch, opening_s: float, attempts: int
) -> None:
    """If an opening has little time, the server is asked only once."""
    assert kind.OPENING_S < kind.ANSWER_TIMEOUT_S, "an opening takes less than two answers"
    monkeypatch.setattr(kind, "ANSWER_TIMEOUT_S", 0.1)
    monkeypatch.setattr(kind, "OPENING_S", opening_s)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        store = at(deaf, name)
        started_s = time.monotonic()
        with pytest.raises(StoreUnavailable, match=f"after {attempts} attempt"):
            store.position()
        assert calm_s(started_s) < 5
        store.close()


def test_copies_share_one_wait(name: StoreName, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker opens copies with few threads. After a pause the server is asked again."""
    monkeypatch.setattr(kind, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(kind, "OPENING_S", 0.1)

    def open_one(number: int) -> str:
        store = at(deaf, replace(name, partition=number), "deaf")
        try:
            with pytest.raises(StoreUnavailable) as failed:
                store.position()
        finally:
            store.close()
        return str(failed.value)

    with socket.create_server(("127.0.0.1", 0)) as deaf, ThreadPoolExecutor(2) as threads:
        told = list(threads.map(open_one, range(24)))
        kind.hung_since_s["deaf"] -= kind.HUNG_S
        assert "after 1 attempt" in open_one(24)
    assert sum("it failed to answer less than 10 s ago" in each for each in told) >= 20


def test_killed_server_keeps_data(own_redis: RedisServer, name: StoreName) -> None:
    """Acknowledged changes are durable, and the store object remains usable."""
    store = RedisStore(connect(own_redis.url), name)
    base = None
    for position in range(1, 31):
        values = {b"%d" % k: b"%d" % position for k in range(position)}
        store.apply(values, base, position)
        base = position
        if position % 10 == 0:
            own_redis.kill()
            began_s = time.monotonic()
            with pytest.raises(StoreUnavailable, match="check that the server runs"):
                store.position()
            assert calm_s(began_s) < kind.CONNECT_TIMEOUT_S
            own_redis.restart()
            assert store.position() == position
            assert dict(store.items()) == values
    store.close()
