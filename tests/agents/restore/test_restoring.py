"""Examples: changelogs that are accepted or refused, and the error texts.

If one of several concurrent requests fails, or all are cancelled, none keeps running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.restore.restoring import Restoring, run_together
from agents.state import changelog
from agents.state.changelog import (
    STATE_FORMAT,
    BareProgress,
    LogRead,
    Progress,
    StateRefused,
    encode,
)
from agents.state.local_copy import LocalCopy
from agents.state.stores.seal import StateTally
from agents.state.stores.store import StoreName
from tests.agents.records import arranged
from tests.agents.state.stores.memory import MemoryStore

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = "streams: {default: {}}\nstages: [reorder+merge]\napplication: app\n"
LOG = "app.reorder-merge.events.raw.changelog"
NOW, BEFORE = "id-now", "id-before"
OTHERS = {b"state/a": b"1", b"state/b": b"2", b"page/0": b"3"}


@dataclass
class Log:
    """A changelog at the brokers: a state that has reached an input offset, or nothing.

    `lost`: keys that it no longer holds. `more`: additional or replaced entries. `aborted`: offsets
    of aborted checkpoints.
    """

    reached: int | None
    end: int = 10
    now_ns: int = 1
    lost: Sequence[bytes] = ()
    more: Mapping[bytes, bytes] = field(default_factory=dict)
    since: int | None = None
    not_since: Sequence[bytes] = ()
    aborted: Sequence[int] = ()
    read_from: list[int | None] = field(default_factory=list)

    def read(self, position: int | None) -> LogRead:
        """Return the whole log; for simplicity, also when only the rest after a copy is read."""
        self.read_from.append(position)
        changes: dict[bytes, bytes | None] = {}
        if self.reached is not None and (position is None or position < self.end):
            changes[changelog.PROGRESS] = progress(self.reached, self.now_ns)
            changes |= OTHERS
        changes |= self.more
        lost = [*self.lost, *(self.not_since if position is not None else ())]
        return LogRead({k: v for k, v in changes.items() if k not in lost}, self.end)


def progress(reached: int, now_ns: int = 1, topic_id: str = "raw-id") -> bytes:
    """Return the encoded progress of a state with the entries `OTHERS`."""
    contract = Raw(encode(arranged(TOPOLOGY).contract(SOURCE)))
    tally = StateTally()
    tally.change(OTHERS)
    arrival = [now_ns, 2, 0]
    whole = (tally.entries, tally.digest)
    return encode(Progress(reached, arrival, contract, topic_id, STATE_FORMAT, *whole))


def copy_of(store: MemoryStore | None, log_id: str = NOW) -> LocalCopy:
    return LocalCopy("events.raw/0", lambda: store, lambda _: None, log_id)


def moved(changes: Mapping[bytes, bytes | None], position: int, log_id: str = NOW) -> MemoryStore:
    """Return the store of a copy that was given these changes."""
    store = MemoryStore(StoreName("app", "reorder+merge", "events.raw", 0))
    copy = copy_of(store, log_id)
    copy.load()
    copy.move(changes, position)
    return store


Copied = tuple[int, str, int] | tuple[int, str, int, int] | tuple[int, str, int, int, str]
"""Position and log id of a local copy, and the arguments of `progress` for its state."""


def copied(position: int, log_id: str, *reached: Any) -> MemoryStore:
    return moved({**OTHERS, changelog.PROGRESS: progress(*reached)}, position, log_id)


Find = Callable[..., int | None]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Find:
    """Return a function that finds the input offset to continue from; None for the first record."""

    def find(
        log: Log,
        committed: int | None,
        store: MemoryStore | None = None,
        *,
        embedded: bool = False,
        fence: Callable[[], Coroutine[Any, Any, None]] = lambda: asyncio.sleep(0),
    ) -> int | None:
        async def read(_: Any, where: TopicPartition, position: int | None, __: Any) -> LogRead:
            assert where == (LOG, 0)
            return log.read(position)

        async def was_aborted(
            _: Any, __: TopicPartition, since: int, source: TopicPartition, offsets: dict[Any, int]
        ) -> bool:
            assert source == SOURCE
            return offsets[SOURCE] in log.aborted

        async def offset(partition: TopicPartition) -> int | None:
            assert partition == SOURCE
            return committed

        last = None if log.since is None else BareProgress(since=log.since)
        monkeypatch.setattr(changelog, "read_changelog", read)
        monkeypatch.setattr(changelog, "last_claim", AsyncMock(return_value=last))
        monkeypatch.setattr(changelog, "was_aborted", was_aborted)
        brokers: Any = SimpleNamespace(is_embedded=embedded, read_committed=offset)
        ids = {"events.raw": "raw-id", LOG: NOW}
        restoring = Restoring(brokers, arranged(TOPOLOGY), SOURCE, ids)
        found = asyncio.run(restoring.find(copy_of(store), fence(), lambda *_: None))
        if found.progress is None:
            assert not found.state
            return None
        assert found.state.keys() == {*OTHERS, changelog.PROGRESS}
        assert found.tally.entries == len(OTHERS)
        return found.progress.next_offset

    return find


EMPTY = Log(None, end=0)
SOUND: dict[str, tuple[Log, int | None, Copied | None, int | None]] = {
    "a first start": (EMPTY, None, None, None),
    "the changelog alone": (Log(50), 50, None, 50),
    "the group was forgotten": (Log(50), None, None, 50),
    "so it was, with a copy": (Log(50), None, (10, NOW, 50), 50),
    "the group's offset was moved back": (Log(50), 7, None, 50),
    "a copy at the end": (Log(50), 50, (10, NOW, 50), 50),
    "a copy behind": (Log(50), 50, (4, NOW, 30), 50),
    "a copy from brokers without ids": (Log(50), 50, (4, "", 30), 50),
    "all made anew, and a copy left": (EMPTY, None, (99, BEFORE, 70, 1, "raw-before"), None),
    "restored under another id": (Log(50), 50, (10, BEFORE, 40), 50),
    "restored, and shorter": (Log(50), 50, (99, BEFORE, 50), 50),
    "shorter, and whole": (Log(50), 50, (99, NOW, 50), 50),
    "a copy behind in time": (Log(50, now_ns=9), 50, (4, NOW, 50), 50),
    "the group's offset was aborted": (Log(50, aborted=[60]), 60, None, 50),
    "so it was, twice": (Log(50, aborted=[60, 55]), 60, (10, NOW, 50), 50),
}


@pytest.mark.parametrize(("log", "committed", "copy", "begins_at"), SOUND.values(), ids=SOUND)
def test_sound_state_is_restored(
    found: Find, log: Log, committed: int | None, copy: Copied | None, begins_at: int | None
) -> None:
    assert found(log, committed, None if copy is None else copied(*copy)) == begins_at


def test_writes_before_fence_are_seen(found: Find) -> None:
    """A former owner's last change is decided only when the fence ends, after other requests."""
    log = Log(40, end=8)

    async def fence() -> None:
        await asyncio.sleep(0.1)
        log.reached, log.end = 50, 10

    assert found(log, 40, copied(4, NOW, 30), fence=fence) == 50
    log.reached, log.end = 40, 8
    assert found(log, 40, fence=fence) == 50


async def test_failed_restore_ends_the_fence() -> None:
    fence: Any = Part()
    refuse = AsyncMock(side_effect=OSError("not said"))
    brokers: Any = SimpleNamespace(is_embedded=False, read_committed=refuse)
    restoring = Restoring(brokers, arranged(TOPOLOGY), SOURCE, {})
    with pytest.raises(OSError, match="not said"):
        await restoring.find(copy_of(None), fence.run(), lambda *_: None)
    assert fence.ended == "cancelled"


def test_unfit_copy_is_rebuilt(found: Find, caplog: pytest.LogCaptureFixture) -> None:
    """A key of the copy was deleted meanwhile, and compaction has removed its tombstone."""
    store = moved({b"state/gone": b"7", changelog.PROGRESS: progress(30)}, 4)
    assert found(Log(50), 50, store) == 50
    assert store.position() is None
    assert "do not form a complete state" in caplog.text


def test_copy_can_outlive_embedded_broker(found: Find) -> None:
    assert found(EMPTY, None, copied(99, "", 70), embedded=True) is None


def test_empty_copy_counts_as_none(found: Find) -> None:
    """A worker leaves an empty copy if it stops before there is any work."""
    store = moved({}, 0, BEFORE)
    assert found(EMPTY, None, store) is None
    assert found(Log(50), 50, store) == 50


SHORT = Log(40, end=8)
LESS = Log(50, lost=[b"state/a"])
LOST: dict[str, tuple[Log, int | None, Copied | None, str]] = {
    "lost": (EMPTY, 50, None, "no state .*lost or recreated"),
    "made anew": (EMPTY, 50, (10, BEFORE, 50), "no state .*recreated"),
    "emptied": (EMPTY, 50, (10, NOW, 50), "no state .*recreated"),
    "anew, no group": (EMPTY, None, (10, BEFORE, 50), "no state .*, but its .* is at offset 50: "),
    "ahead, no group": (Log(50), None, (99, BEFORE, 70), "at offset 50, but its .* at offset 70"),
    "short": (SHORT, 50, (10, NOW, 50), "at offset 40, but the group"),
    "shorter, no ids": (SHORT, 50, (10, "", 50), "at offset 40"),
    "behind in time": (Log(50), 50, (99, NOW, 50, 9), "lost its end"),
    "behind the group": (Log(40), 50, None, "is at offset 40, .*back to 40"),
    "another was aborted": (Log(40, aborted=[45]), 50, None, "at offset 40"),
    "the first was aborted": (Log(None, aborted=[50]), 50, None, "no state"),
    "a copy ahead of both": (Log(50, aborted=[60]), 60, (99, BEFORE, 70), "is at offset 70"),
    "trimmed": (LESS, 50, None, "holds 2 entries.* and 3 were"),
    "trimmed, no group": (LESS, None, None, "holds 2"),
    "made anew at work": (Log(50, lost=list(OTHERS)), 50, (10, BEFORE, 40), "holds 0"),
    "mixed": (Log(50, more={b"state/a": b"x"}), 50, None, "3 were .*other content"),
    "too many": (Log(50, more={b"state/c": b"x"}), 50, None, "holds 4"),
    "without its progress": (Log(50, lost=[changelog.PROGRESS]), 50, None, "not its position"),
}


@pytest.mark.parametrize(("log", "committed", "copy", "says"), LOST.values(), ids=LOST)
def test_lost_state_is_refused(
    found: Find, log: Log, committed: int | None, copy: Copied | None, says: str
) -> None:
    store = None if copy is None else copied(*copy)
    with pytest.raises(StateRefused, match=says) as refused:
        found(log, committed, store)
    assert LOG in str(refused.value)
    assert "begin anew with `application: app-2`" in str(refused.value)
    assert store is None or store.position() is not None  # The sound copy is kept.


@pytest.mark.parametrize(
    ("not_since", "read_from"), [((), [4]), ([b"state/b"], [4, None])], ids=["whole", "part"]
)
def test_restore_skips_old_entries(
    found: Find, not_since: list[bytes], read_from: list[int | None]
) -> None:
    """If entries are then missing, the whole changelog is read."""
    log = Log(7, since=4, not_since=not_since)
    assert found(log, 7) == 7
    assert log.read_from == read_from


# -- concurrent requests ------------------------------------------------------------------------


class Part:
    """A task that ends when `may_end` is set, and records in `ended` how it ended."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.ended = ""

    async def run(self) -> int:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # time to release its resources
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return 1


async def failing() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def test_answers_keep_request_order() -> None:
    first, second = Part(), Part()
    asked = asyncio.create_task(run_together(first.run(), asyncio.sleep(0, 2), second.run()))
    second.may_end.set()
    first.may_end.set()
    assert await asked == [1, 2, 1]
    assert await run_together() == []


async def test_failed_request_ends_others() -> None:
    parts = [Part(), Part()]
    with pytest.raises(ValueError, match="no"):
        await run_together(parts[0].run(), failing(), parts[1].run())
    assert [part.ended for part in parts] == ["cancelled", "cancelled"]


async def test_cancellation_ends_requests() -> None:
    parts = [Part(), Part()]
    asked = asyncio.create_task(run_together(*(part.run() for part in parts)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [part.ended for part in parts] == ["cancelled", "cancelled"]
