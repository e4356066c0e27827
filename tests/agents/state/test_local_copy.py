"""Examples and faults: a local copy is right, or is reported as damaged, and it never does harm.

The partition never waits for the store, and a change is never written in part.
"""

from __future__ import annotations

import logging
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agents.state.copy_writer as writing
import agents.state.local_copy as room
from agents.state.copy_writer import BEHIND, CopyWriter
from agents.state.local_copy import Copied, LocalCopy
from agents.state.stores import rocksdb
from agents.state.stores.redis import RedisStore, connect, key_of
from agents.state.stores.rocksdb import DAMAGED_KEPT, RocksdbStore, folder_of
from agents.state.stores.store import Changes, StateStore, StoreName
from tests.agents.recorder import PATIENCE_S
from tests.agents.state.stores.memory import MemoryStore, apply_to
from tests.kit.programs import printed
from tests.waiting import until

NAME = StoreName("shop", "reorder", "raw", 7)
COMMITS = 12
SPAN = 300
PLACES = 5
"""Number of places in each file; one bit is flipped at each place."""

PARTITIONS = count()

State = dict[bytes, bytes]


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb, "WRITE_BUFFER_BYTES", 64 << 10)


def entry(number: int) -> bytes:
    return b"state/default\nreorder/buffer/source-%05d" % number


def changes_of(position: int) -> dict[bytes, bytes | None]:
    """Return changes with new, rewritten and deleted keys."""
    words = random.Random(position)
    first = position * SPAN // 2
    changes: dict[bytes, bytes | None] = {
        entry(number): words.randbytes(60) for number in range(first, first + SPAN)
    }
    changes |= {entry(number): None for number in range(first - SPAN, first - SPAN + 20)}
    return changes


def expected(position: int) -> State:
    state: State = {}
    for earlier in range(1, position + 1):
        apply_to(state, changes_of(earlier))
    return state


def copy_of(
    new_store: Callable[[], StateStore | None], log_id: str = "id-1"
) -> tuple[LocalCopy, list[str]]:
    """Return a copy, and the list of its counted failures."""
    failures: list[str] = []
    return LocalCopy("raw/7", new_store, failures.append, log_id), failures


def on_disk(directory: Path) -> Callable[[], StateStore]:
    return lambda: RocksdbStore(directory, NAME)


def fill_copy(new_store: Callable[[], StateStore | None], log_id: str = "id-1") -> None:
    """Fill a new copy with `COMMITS` commits, and assert that none fails."""
    copy, failures = copy_of(new_store, log_id)
    assert copy.load() == Copied()
    for position in range(1, COMMITS + 1):
        copy.move(changes_of(position), position)
    copy.close()
    assert failures == []


def load_copy(new_store: Callable[[], StateStore | None]) -> tuple[Copied, list[str]]:
    """Return what a copy loads from its store, and its counted failures."""
    copy, failures = copy_of(new_store)
    try:
        return copy.load(), failures
    finally:
        copy.close()


def flip(path: Path, at: float, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1 << bit
    path.write_bytes(content)


def places(folder: Path) -> Iterator[tuple[str, float, int]]:
    dice = random.Random(3)
    for path in sorted(folder.iterdir()):
        if path.stat().st_size:
            for place in range(PLACES):
                yield path.name, place / (PLACES - 1), dice.randrange(8)


def test_flipped_bit_does_no_harm(tmp_path: Path) -> None:
    """In each file of the folder, one bit is flipped at several places in turn.

    If RocksDB cuts its log at the damage, the copy is an earlier whole one. A damaged copy begins
    anew.
    """
    fill_copy(on_disk(tmp_path / "sound"))
    assert load_copy(on_disk(tmp_path / "sound")) == (Copied(expected(COMMITS), COMMITS), [])
    sound = folder_of(tmp_path / "sound", NAME)
    told = 0
    kinds = set()
    for number, (name, at, bit) in enumerate(places(sound)):
        hurt = tmp_path / str(number)
        shutil.copytree(tmp_path / "sound", hurt)
        flip(folder_of(hurt, NAME) / name, at, bit)
        copied, failures = load_copy(on_disk(hurt))
        if failures:
            told += 1
            kinds.add(Path(name).suffix or name.split("-")[0])
            assert (copied, failures) == (Copied(), ["StoreDamaged"]), name
            fill_copy(on_disk(hurt))
        else:
            assert copied.state == expected(copied.position or 0), (name, at, bit)
        shutil.rmtree(hurt)
    assert {".sst", "CURRENT", "MANIFEST"} <= kinds, kinds
    assert told >= 10


def test_damaged_folder_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(tmp_path, NAME)
    for round_number in range(DAMAGED_KEPT + 2):
        fill_copy(on_disk(tmp_path))
        for path in folder.glob("*.sst"):
            flip(path, 0.3, 2)
        caplog.clear()
        copied, failures = load_copy(on_disk(tmp_path))
        assert copied == Copied()
        assert failures == ["StoreDamaged"]
        (line,) = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert f"{folder}.damaged-{round_number}" in line.message
    kept = sorted(path.name for path in folder.parent.iterdir())
    assert kept == ["7", f"7.damaged-{DAMAGED_KEPT}", f"7.damaged-{DAMAGED_KEPT + 1}"]


HELD = entry(COMMITS * SPAN // 2)
UNSEEN: dict[str, Changes] = {
    "an entry is gone": {HELD: None},
    "an old value": {HELD: b"old"},
    "moved alone": {},
    "no seal": {b"\nseal": None},
    "a strange seal": {b"\nseal": b"\xc1"},
}


@pytest.mark.parametrize("hurt", UNSEEN.values(), ids=UNSEEN)
def test_seal_finds_hidden_damage(hurt: Changes) -> None:
    store = MemoryStore(NAME)
    fill_copy(lambda: store)
    store.apply(hurt, COMMITS, COMMITS + 1)
    copy, failures = copy_of(lambda: store)
    assert copy.load() == Copied()
    assert store.position() is None
    assert failures == ["StoreDamaged"]


@pytest.fixture
def in_redis(redis_server: Any) -> tuple[Callable[[], StateStore], str, Any]:
    """Return a function that opens a copy in Redis, its key, and the server."""
    name = StoreName("shop", "reorder", "raw", next(PARTITIONS))
    return lambda: RedisStore(connect(redis_server.url), name), key_of(name), redis_server


COMMANDS: dict[str, tuple[Any, ...]] = {
    "a field is gone": ("HDEL", "KEY", b"e" + HELD),
    "a position that is none": ("HSET", "KEY", "p", "12x"),
    "no hash": ("SET", "KEY", "x"),
}


@pytest.mark.redis
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_partial_redis_loss_is_found(
    in_redis: Any, command: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    new_store, key, server = in_redis
    fill_copy(new_store)
    with connect(server.url) as client:
        client.execute_command(*(key if word == "KEY" else word for word in command))
    copy, failures = copy_of(new_store)
    assert copy.load() == Copied()
    assert f"{key} is deleted" in caplog.text
    assert copy.why_unfit(100) is None
    copy.move(changes_of(1), 20)  # the copy begins anew
    copy.close()
    assert failures == ["StoreDamaged"]
    copied, failures = load_copy(new_store)
    assert (copied.position, copied.state, failures) == (20, expected(1), [])


def test_foreign_copy_is_not_used(tmp_path: Path) -> None:
    fill_copy(on_disk(tmp_path), log_id="id-0")
    copy, failures = copy_of(on_disk(tmp_path))
    assert copy.load().position == COMMITS
    why = copy.why_unfit(COMMITS)
    assert why is not None
    assert "id-0" in why
    copy.discard(why)
    copy.move(changes_of(1), 1)
    copy.close()
    assert failures == []
    assert load_copy(on_disk(tmp_path))[0] == Copied(expected(1), 1)


@pytest.mark.parametrize(
    ("stands_at", "written_at_s", "says"),
    [
        pytest.param(None, 0, None, id="empty: nothing to discard"),
        pytest.param(70, 5_000, None, id="fresh, behind the end"),
        pytest.param(100, 5_000, None, id="fresh, at the end"),
        pytest.param(101, 5_000, "ahead of the changelog's end 100", id="ahead"),
        pytest.param(70, 4_001, None, id="just younger than the tombstones"),
        pytest.param(70, 4_000, "tombstones", id="as old as the tombstones"),
        pytest.param(70, 7_000, "tombstones", id="from the future"),
    ],
)
def test_unfit_copy_is_discarded(
    monkeypatch: pytest.MonkeyPatch, stands_at: int | None, written_at_s: int, says: str | None
) -> None:
    now_s = written_at_s
    clock = SimpleNamespace(time_ns=lambda: now_s * 10**9)
    monkeypatch.setattr(room, "time", clock)
    monkeypatch.setattr(room, "TOMBSTONE_RETENTION_NS", 1_000 * 10**9)
    store = MemoryStore(NAME)
    if stands_at is not None:
        written, _ = copy_of(lambda: store)
        written.load()
        written.move({b"a": b"1"}, stands_at)
    now_s = 5_000
    copy, failures = copy_of(lambda: store)
    copy.load()
    reason = copy.why_unfit(100)
    assert (reason is None) if says is None else (reason is not None and says in reason)
    assert failures == []


class Failing:
    """A store with one method that raises an unexpected error."""

    def __init__(self, method: str) -> None:
        self._store = MemoryStore(NAME)
        self._method = method

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            raise OSError(27, "File too large")
        return self if name == "opened" else getattr(self._store, name)


@pytest.mark.parametrize("method", ["opened", "position", "items", "apply", "clear", "close"])
def test_store_errors_are_contained(method: str, caplog: pytest.LogCaptureFixture) -> None:
    store: Any = Failing(method)
    sound, _ = copy_of(lambda: store._store)
    sound.load()
    sound.move({b"a": b"1"}, 5)
    copy, failures = copy_of(lambda: store.opened)
    copy.load()
    copy.why_unfit(3)
    copy.discard("is old")
    copy.move({b"a": b"1"}, 6)
    copy.close()
    copy.close()
    assert "OSError" in failures
    assert any("File too large" in record.message for record in caplog.records)


def test_deleted_folder_does_no_harm(tmp_path: Path) -> None:
    copy, failures = copy_of(on_disk(tmp_path))
    copy.load()
    copy.move(changes_of(1), 1)
    shutil.rmtree(tmp_path / "shop")
    for position in range(2, 40):  # enough for a flush
        copy.move(changes_of(position), position)
    copy.close()
    assert failures
    fill_copy(on_disk(tmp_path))


FULL_AT_BYTES = 200_000
WRITER = """
import resource, sys
from pathlib import Path
from tests.agents.state import test_local_copy as room
vars(room.rocksdb)["WRITE_BUFFER_BYTES"] = 64 << 10
resource.setrlimit(resource.RLIMIT_FSIZE, (room.FULL_AT_BYTES, room.FULL_AT_BYTES))
copy, failures = room.copy_of(room.on_disk(Path(sys.argv[1])))
copy.load()
for position in range(1, 60):
    copy.move(room.changes_of(position), position)
copy.close()
print(*failures)
"""


def test_full_disk_does_no_harm(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: writes beyond it fail."""
    assert printed("-c", WRITER, tmp_path).split()
    copied, failures = load_copy(on_disk(tmp_path))
    assert copied.state == expected(copied.position or 0)
    assert copied.position or failures
    filled_again, _ = copy_of(on_disk(tmp_path))
    filled_again.load()
    filled_again.move(changes_of(COMMITS + 60), 100)
    filled_again.close()
    assert load_copy(on_disk(tmp_path))[0].position == 100


# -- the writer ------------------------------------------------------------------------------------


class SlowStore(MemoryStore):
    """A store that hangs in `apply` until `goes_on` is set."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.entered = threading.Event()
        self.applied: list[int] = []

    def apply(self, changes: Changes, base: int | None, position: int) -> None:
        self.entered.set()
        assert self.goes_on.wait(PATIENCE_S)
        super().apply(changes, base, position)
        self.applied.append(position)

    @property
    def state(self) -> Mapping[bytes, bytes]:
        return {key: value for key, value in self.items() if key != b"\nseal"}


def writer_of(store: SlowStore | None) -> tuple[CopyWriter, list[str]]:
    copy, failures = copy_of(lambda: store)
    copy.load()
    return CopyWriter(copy), failures


def hanging() -> tuple[SlowStore, CopyWriter, list[str]]:
    """Return a store that hangs in its first write, its writer, and the list of failures."""
    store = SlowStore()
    writer, failures = writer_of(store)
    store.goes_on.clear()
    writer.note({b"a": b"1"}, 1)
    assert store.entered.wait(PATIENCE_S)
    return store, writer, failures


async def test_repeated_change_writes_once() -> None:
    store = SlowStore()
    writer, failures = writer_of(store)
    for position in range(1, 11):
        writer.note({b"a": b"%d" % position, b"gone": b"x"}, position)
    writer.note({b"gone": None}, 11)
    await writer.close()
    assert store.applied == [11]
    assert store.state == {b"a": b"10"}
    assert failures == []


async def test_changes_are_written_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WRITE_EVERY_S", 0.01)
    store = SlowStore()
    writer, _ = writer_of(store)
    writer.note({b"a": b"1"}, 1)
    await until(lambda: store.applied == [1])
    await writer.close()


async def test_hanging_store_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "WRITE_AT_BYTES", 1)
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 1_000)

    caplog.set_level(logging.WARNING)
    store, writer, failures = hanging()
    began_s = time.monotonic()
    for position in range(2, 30):
        writer.note({b"a": bytes(100)}, position)
    assert time.monotonic() - began_s < PATIENCE_S  # The store hangs until `goes_on` is set.
    assert failures == [BEHIND]
    store.goes_on.set()
    await writer.close()
    assert store.applied == [1]  # an earlier, whole state
    assert store.state == {b"a": b"1"}
    assert len([r for r in caplog.records if "cannot keep up" in r.message]) == 1


async def test_large_change_fits_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 1_000)

    store = SlowStore()
    writer, failures = writer_of(store)
    writer.note({b"a": bytes(5_000)}, 1)
    await writer.close()
    assert (store.applied, failures) == ([1], [])


async def test_close_gives_up_hanging_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "WRITE_AT_BYTES", 1)
    monkeypatch.setattr(writing, "CLOSE_WAIT_S", 0.1)

    store, writer, failures = hanging()
    began_s = time.monotonic()
    await writer.close()
    assert time.monotonic() - began_s < PATIENCE_S
    assert failures == [BEHIND]
    store.goes_on.set()


async def test_missing_store_starts_no_thread() -> None:
    writer, failures = writer_of(None)
    threads = threading.active_count()
    writer.note({b"a": b"1"}, 1)
    assert threading.active_count() == threads
    await writer.close()
    assert failures == []
