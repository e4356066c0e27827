"""Examples and kills: what a RocksDB copy does on a disk."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agents.state.stores.rocksdb as kind
from agents.state.stores.rocksdb import RocksdbStore, folder_of
from agents.state.stores.store import StoreDamaged, StoreLocked, StoreName, StoreUnavailable
from tests import ROOT
from tests.agents.state import rocksdb_writer as writer

NAME = StoreName("shop", "reorder+merge", "shop-reorder-state", 7)
KILLS = 6
ANSWER_TIMEOUT_S = 30


def start_writer(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.agents.state.rocksdb_writer", str(directory)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_writer_killed_at_random_leaves_a_whole_batch(tmp_path: Path) -> None:
    moments = random.Random(5)
    reached = 0
    for _ in range(KILLS):
        with start_writer(tmp_path) as child:
            assert child.stdout is not None
            for _ in range(moments.randint(1, 1500)):
                done = int(child.stdout.readline())
            child.kill()
            for line in child.stdout:
                done = int(line) if line.endswith("\n") else done
            child.wait(ANSWER_TIMEOUT_S)
        store = RocksdbStore(tmp_path, writer.NAME)
        position = store.position()
        assert position is not None
        assert position >= done > reached
        assert dict(store.items()) == writer.expected(position)
        store.close()
        reached = position


def test_a_copy_open_in_another_process_is_locked(tmp_path: Path) -> None:
    with start_writer(tmp_path) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(StoreLocked, match="--state-dir"):
            RocksdbStore(tmp_path, writer.NAME)
        child.kill()
        child.stdout.read()
        child.wait(ANSWER_TIMEOUT_S)
    RocksdbStore(tmp_path, writer.NAME).close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksdbStore]:
    found = RocksdbStore(tmp_path, NAME)
    yield found
    found.close()


def test_a_copy_open_in_this_process_is_locked(store: RocksdbStore, tmp_path: Path) -> None:
    with pytest.raises(StoreLocked):
        RocksdbStore(tmp_path, NAME)


@pytest.mark.parametrize("hurt", ["CURRENT", "MANIFEST-*", "*.sst", "rocksdict-config.json"])
def test_a_damaged_folder_is_empty_or_whole(tmp_path: Path, hurt: str) -> None:
    """And usable either way."""
    store = RocksdbStore(tmp_path, NAME)
    values = {b"%d" % k: bytes(100) for k in range(1000)}
    store.apply(values, None, 10)
    store.close()  # flushes into an .sst
    victims = list(folder_of(tmp_path, NAME).glob(hurt))
    assert victims
    for victim in victims:
        victim.write_bytes(b"not what it was")

    store = RocksdbStore(tmp_path, NAME)
    if not reads(store, values):
        assert str(tmp_path) in store.set_aside()
    base = store.position()
    store.apply({b"a": b"1"}, base, 11)
    assert store.position() == 11
    store.close()


def test_clear_gives_the_disk_back(store: RocksdbStore, tmp_path: Path) -> None:
    store.apply({b"%d" % k: os.urandom(1000) for k in range(3000)}, None, 1)
    assert disk_bytes(tmp_path) > 3_000_000
    store.clear()
    assert store.position() is None
    assert disk_bytes(tmp_path) < 100_000
    assert [entry.name for entry in folder_of(tmp_path, NAME).parent.iterdir()] == ["7"]


def test_what_a_killed_clear_left_behind_is_removed(tmp_path: Path) -> None:
    store = RocksdbStore(tmp_path, NAME)
    store.apply({b"a": b"1"}, None, 1)
    store.close()
    folder = folder_of(tmp_path, NAME)
    folder.rename(folder.with_name(f"{folder.name}.discarded-0"))
    store = RocksdbStore(tmp_path, NAME)
    assert store.position() is None
    assert [entry.name for entry in folder.parent.iterdir()] == ["7"]
    store.close()


def test_items_come_in_pages_and_only_once(
    store: RocksdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "ITEMS_PER_PAGE", 7)
    stems = (b"a", b"7", b"\xff", b"")
    values = {stem + b"\0" * zeros: b"v" for stem in stems for zeros in range(1, 9)}
    store.apply(values, None, 1)
    rows = list(store.items())
    assert len(rows) == len(values)
    assert dict(rows) == values


def test_the_disk_stays_bounded_under_overwriting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "WRITE_BUFFER_BYTES", 256 << 10)
    monkeypatch.setattr(kind, "MAX_WAL_BYTES", 1 << 20)
    store = RocksdbStore(tmp_path, NAME)
    base = None
    for position in range(1, 201):  # 20 MB written over 100 kB
        changes = {b"%d" % k: os.urandom(1000) for k in range(100)}
        store.apply(changes, base, position)
        base = position
    assert disk_bytes(tmp_path) < 6_000_000
    store.close()


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (NAME, "shop/reorder+merge/shop-reorder-state/7"),
        (StoreName("a/b", "..", ".", 0), "a%2Fb/%2E%2E/%2E/0"),
        (StoreName("größe", "s", "t", 12), "gr%C3%B6%C3%9Fe/s/t/12"),
    ],
)
def test_folders(name: StoreName, folder: str) -> None:
    assert folder_of(Path("/state"), name) == Path("/state") / folder


def test_a_place_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StoreUnavailable, match=str(tmp_path)):
        RocksdbStore(tmp_path / "state", NAME)


def reads(store: RocksdbStore, values: dict[bytes, bytes]) -> bool:
    """True: all of it. False: a clear refusal. Anything else fails."""
    try:
        found = None if store.position() is None else dict(store.items())
    except StoreDamaged:
        return False
    assert found in (None, values)
    return True


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
