"""Examples and kills: a RocksDB copy on a disk."""

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

NAME = StoreName("shop", "reorder+merge", "shop-reorder-state", 7)
KILLED = StoreName("kill", "reorder", "changelog", 0)
KILLS = 6
SPAN = 20
ANSWER_TIMEOUT_S = 30


def padded(number: int) -> bytes:
    return b"%0200d" % number


def expected(position: int) -> dict[bytes, bytes]:
    """Return the content of a whole copy after batch `position`."""
    values = {b"f%d" % k: padded(position) for k in range(SPAN)}
    newest = range(max(1, position - SPAN + 1), position + 1)
    return values | {b"n%d" % n: padded(n) for n in newest}


def write(directory: str) -> None:
    """Apply batches to a copy until killed, and print one line for each.

    Batch n sets SPAN keys to n, adds the key n and deletes the key n - SPAN. Buffers are small, so
    flushes and compactions are running at the kill.
    """
    vars(kind)["WRITE_BUFFER_BYTES"] = 64 << 10
    store = RocksdbStore(Path(directory), KILLED)
    base = store.position()
    while True:
        position = (base or 0) + 1
        changes: dict[bytes, bytes | None] = {b"f%d" % k: padded(position) for k in range(SPAN)}
        changes |= {b"n%d" % position: padded(position), b"n%d" % (position - SPAN): None}
        store.apply(changes, base, position)
        print(position, flush=True)
        base = position


def start_writer(directory: Path) -> subprocess.Popen[str]:
    program = f"from tests.agents.state.stores.test_rocksdb import write; write({str(directory)!r})"
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_kill_leaves_a_whole_batch(tmp_path: Path) -> None:
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
        store = RocksdbStore(tmp_path, KILLED)
        position = store.position()
        assert position is not None
        assert position >= done > reached
        assert dict(store.items()) == expected(position)
        store.close()
        reached = position


def test_other_process_locks_copy(tmp_path: Path) -> None:
    with start_writer(tmp_path) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(StoreLocked, match="--state-dir"):
            RocksdbStore(tmp_path, KILLED)
        child.kill()
        child.stdout.read()
        child.wait(ANSWER_TIMEOUT_S)
    RocksdbStore(tmp_path, KILLED).close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksdbStore]:
    found = RocksdbStore(tmp_path, NAME)
    yield found
    found.close()


def test_own_process_locks_copy(store: RocksdbStore, tmp_path: Path) -> None:
    with pytest.raises(StoreLocked):
        RocksdbStore(tmp_path, NAME)


def test_clear_frees_the_disk(store: RocksdbStore, tmp_path: Path) -> None:
    store.apply({b"%d" % k: os.urandom(1000) for k in range(3000)}, None, 1)
    assert disk_bytes(tmp_path) > 3_000_000
    store.clear()
    assert store.position() is None
    assert disk_bytes(tmp_path) < 100_000
    assert [entry.name for entry in folder_of(tmp_path, NAME).parent.iterdir()] == ["7"]


def test_killed_clear_is_cleaned_up(tmp_path: Path) -> None:
    store = RocksdbStore(tmp_path, NAME)
    store.apply({b"a": b"1"}, None, 1)
    store.close()
    folder = folder_of(tmp_path, NAME)
    folder.rename(folder.with_name(f"{folder.name}.discarded-0"))
    store = RocksdbStore(tmp_path, NAME)
    assert store.position() is None
    assert [entry.name for entry in folder.parent.iterdir()] == ["7"]
    store.close()


def test_overwriting_bounds_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "WRITE_BUFFER_BYTES", 256 << 10)
    monkeypatch.setattr(kind, "MAX_WAL_BYTES", 1 << 20)
    store = RocksdbStore(tmp_path, NAME)
    base = None
    for position in range(1, 201):  # 20 MB are written over 100 kB
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
def test_folder_name_is_escaped(name: StoreName, folder: str) -> None:
    assert folder_of(Path("/state"), name) == Path("/state") / folder


def test_invalid_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StoreUnavailable, match=str(tmp_path)):
        RocksdbStore(tmp_path / "state", NAME)


def disk_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("hurt", ["CURRENT", "MANIFEST-*", "*.sst", "rocksdict-config.json"])
def test_damaged_folder_is_usable(tmp_path: Path, hurt: str) -> None:
    """A damaged folder is read as whole or empty, or is set aside, and can be written again."""
    store = RocksdbStore(tmp_path, NAME)
    values = {b"%d" % k: bytes(100) for k in range(1000)}
    store.apply(values, None, 10)
    store.close()  # flushes into an .sst file
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


def reads(store: RocksdbStore, values: dict[bytes, bytes]) -> bool:
    """Return whether the copy is whole or empty; False if the store refuses it."""
    try:
        found = None if store.position() is None else dict(store.items())
    except StoreDamaged:
        return False
    assert found in (None, values)
    return True
