"""Laws: every kind of state copy behaves as a dict with a position.

One state machine drives both kinds through commits, restarts, wrong bases, interrupted changes and
clearing. It compares each with a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import agents.state.stores.redis as redis_kind
import agents.state.stores.rocksdb as rocksdb_kind
from agents.state.local_copy import open_store
from agents.state.stores.store import StaleStore, StateStore, StoreError, StoreName
from tests.agents.state.stores.memory import apply_to

Open = Callable[[], StateStore]
Change = dict[bytes, bytes | None]

KEYS = st.binary(min_size=1, max_size=3)
VALUES = st.one_of(st.binary(max_size=8), st.just(b"torn:"), st.binary(min_size=200, max_size=300))
CHANGES = st.dictionaries(KEYS, st.one_of(st.none(), VALUES), max_size=8)
"""Up to 8 changes: Redis takes 3 a call and so splits some; RocksDB returns 3 a page."""

FRESH = count()


class BreaksOff(Mapping[bytes, "bytes | None"]):
    """Changes whose reading fails after the first two."""

    def __init__(self, changes: Change) -> None:
        self._changes = changes

    def __getitem__(self, key: bytes) -> bytes | None:
        return self._changes[key]

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[bytes]:
        yield from list(self._changes)[:2]
        raise ConnectionAbortedError


class CopyMachine(RuleBasedStateMachine):
    """A state machine that drives a copy and a dict side by side."""

    open_copy: Open

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open_copy()
        self.store.clear()
        self.values: dict[bytes, bytes] = {}
        self.position: int | None = None

    @rule(changes=CHANGES, further=st.integers(1, 1000))
    def commit(self, changes: Change, further: int) -> None:
        position = (self.position or 0) + further
        self.store.apply(changes, self.position, position)
        apply_to(self.values, changes)
        self.position = position

    @rule()
    def nothing_new(self) -> None:
        if self.position is not None:
            self.store.apply({}, self.position, self.position)

    @rule(changes=CHANGES, base=st.none() | st.integers(0, 3000), further=st.integers(1, 9))
    def wrong_base(self, changes: Change, base: int | None, further: int) -> None:
        if base != self.position:
            with pytest.raises(StaleStore):
                self.store.apply(changes, base, (base or 0) + further)

    @rule(changes=CHANGES.map(BreaksOff))
    def breaks_off(self, changes: BreaksOff) -> None:
        with pytest.raises(ConnectionAbortedError):
            self.store.apply(changes, self.position, (self.position or 0) + 1)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open_copy()

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.values, self.position = {}, None

    @rule()
    def read_half(self) -> None:
        next(iter(self.store.items()), None)

    @invariant()
    def matches_the_model(self) -> None:
        assert self.store.position() == self.position
        assert sorted(self.store.items()) == sorted(self.values.items())

    def teardown(self) -> None:
        self.store.close()


@pytest.fixture(params=["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def open_copy(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    kind = request.param
    name = StoreName("laws", "reorder", f"test-{next(FRESH)}", 3)
    url = request.getfixturevalue("redis_server").url if kind == "redis" else None

    def opened() -> StateStore:
        store = open_store(kind, name, tmp_path, url)
        assert store is not None
        return store

    return opened


def test_law_copy_matches_a_dict(open_copy: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_kind, "CHANGES_PER_CALL", 3)
    monkeypatch.setattr(rocksdb_kind, "ITEMS_PER_PAGE", 3)
    run_state_machine_as_test(
        type("Copy", (CopyMachine,), {"open_copy": staticmethod(open_copy)}),
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_closed_copy_raises(open_copy: Open) -> None:
    store = open_copy()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.position()
    with pytest.raises(StoreError, match="closed"):
        store.apply({b"a": b"1"}, None, 1)
    with pytest.raises(StoreError, match="closed"):
        list(store.items())


def test_change_during_read_raises(open_copy: Open) -> None:
    store = open_copy()
    store.apply({b"a": b"1", b"b": b"2"}, None, 1)
    rows = store.items()
    next(rows)
    store.apply({b"a": b"3"}, 1, 2)
    with pytest.raises(StaleStore, match="changed while it was read"):
        list(rows)
    store.close()


@pytest.mark.parametrize(
    ("changes", "base", "position", "says"),
    [
        pytest.param({b"": b"1"}, None, 1, "key", id="an empty key"),
        pytest.param({}, None, -1, "not a changelog offset", id="a negative position"),
        pytest.param({}, 5, 4, "cannot go back", id="backwards"),
        pytest.param({b"a": b"1"}, 5, 5, "above their base", id="a change that moves nothing"),
    ],
)
def test_invalid_arguments_are_refused(
    open_copy: Open, changes: Change, base: int | None, position: int, says: str
) -> None:
    store = open_copy()
    with pytest.raises(ValueError, match=says):
        store.apply(changes, base, position)
    assert store.position() is None
    store.close()


def test_invalid_name_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the name of a partition"):
        StoreName("laws", "", "t", 0)
