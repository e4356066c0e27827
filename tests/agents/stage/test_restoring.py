"""Examples: which changelog is believed, which is refused, and what the message says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.stage.arrangement import arrange, topics_of
from agents.stage.restoring import Restoring
from agents.state import changelog
from agents.state.changelog import STATE_FORMAT, Claim, LogRead, Progress, StateRefused, encode
from agents.state.local_copy import LocalCopy
from agents.state.stores.seal import StateTally
from agents.state.stores.store import StoreName
from tests.agents.state.stores.memory import MemoryStore
from topology.config import parse

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = "streams: {default: {}}\nstages: [reorder+merge]\napplication: app\n"
LOG = "app.reorder-merge.events.raw.changelog"
NOW, BEFORE = "id-now", "id-before"


OTHERS = {b"state/a": b"1", b"state/b": b"2", b"page/0": b"3"}


@dataclass
class Log:
    """A changelog as the brokers have it: a state that has come so far in the input, or nothing.
    `lost` is what it does not hold any more, `more` what it holds besides, or instead. `aborted`
    are the offsets of checkpoints that it has as aborted."""

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
        """What stands behind the copy is, for simplicity, all."""
        self.read_from.append(position)
        changes: dict[bytes, bytes | None] = {}
        if self.reached is not None and (position is None or position < self.end):
            changes[changelog.PROGRESS] = progress(self.reached, self.now_ns)
            changes |= OTHERS
        changes |= self.more
        lost = [*self.lost, *(self.not_since if position is not None else ())]
        return LogRead({k: v for k, v in changes.items() if k not in lost}, self.end)


def arrangement() -> Any:
    topology = parse(TOPOLOGY)
    stage = topology.stages[0]
    return arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))


def progress(reached: int, now_ns: int = 1, topic_id: str = "raw-id") -> bytes:
    """The progress of a state with these `OTHERS`."""
    contract = Raw(encode(arrangement().contract(SOURCE)))
    tally = StateTally()
    tally.change(OTHERS)
    arrival = [now_ns, 2, 0]
    whole = (tally.entries, tally.digest)
    return encode(Progress(reached, arrival, contract, topic_id, STATE_FORMAT, *whole))


def copied(position: int, log_id: str, reached: int, **more: Any) -> MemoryStore:
    store = MemoryStore(StoreName("app", "reorder+merge", "events.raw", 0))
    copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, log_id)
    copy.load()
    copy.move({**OTHERS, changelog.PROGRESS: progress(reached, **more)}, position)
    return store


class Offsets:
    """The brokers, as far as the restore asks them."""

    is_embedded = False

    def __init__(self, committed: int | None) -> None:
        self._committed = committed
        self.refuses = False

    async def committed(self, partition: TopicPartition) -> int | None:
        assert partition == SOURCE
        if self.refuses:
            raise OSError("not said")
        return self._committed


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int | None]:
    """The input offset that reading would go on from; None for the first record."""

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

        async def last(_: Any, __: TopicPartition) -> Claim | None:
            return None if log.since is None else Claim(since=log.since)

        monkeypatch.setattr(changelog, "read_changelog", read)

        async def was_aborted(_: Any, __: TopicPartition, since: int, next_offset: int) -> bool:
            return next_offset in log.aborted

        monkeypatch.setattr(changelog, "last_claim", last)
        monkeypatch.setattr(changelog, "was_aborted", was_aborted)
        brokers: Any = Offsets(committed)
        brokers.is_embedded = embedded
        ids = {"events.raw": "raw-id", LOG: NOW}
        restoring = Restoring(brokers, arrangement(), SOURCE, ids)
        copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, NOW)
        found = asyncio.run(restoring.find(copy, fence(), lambda *_: None))
        if found.progress is None:
            assert not found.state
            return None
        assert found.state.keys() == {*OTHERS, changelog.PROGRESS}
        assert found.tally.entries == len(OTHERS)
        return found.progress.next_offset

    return find


@pytest.mark.parametrize(
    ("log", "committed", "copy", "begins_at"),
    [
        pytest.param(Log(None, end=0), None, None, None, id="a first start"),
        pytest.param(Log(50), 50, None, 50, id="the changelog alone"),
        pytest.param(Log(50), None, None, 50, id="the group was forgotten"),
        pytest.param(Log(50), None, (10, NOW, 50), 50, id="so it was, with a copy"),
        pytest.param(Log(50), 7, None, 50, id="the group's offset was moved back"),
        pytest.param(Log(50), 50, (10, NOW, 50), 50, id="a copy at the end"),
        pytest.param(Log(50), 50, (4, NOW, 30), 50, id="a copy behind"),
        pytest.param(Log(50), 50, (4, "", 30), 50, id="a copy from brokers without ids"),
        pytest.param(Log(50), 50, (10, BEFORE, 40), 50, id="restored under another id"),
        pytest.param(Log(50), 50, (99, BEFORE, 50), 50, id="restored, and shorter"),
        pytest.param(Log(50), 50, (99, NOW, 50), 50, id="shorter, and whole"),
        pytest.param(Log(50, now_ns=9), 50, (4, NOW, 50), 50, id="a copy behind in time"),
        pytest.param(Log(50, aborted=[60]), 60, None, 50, id="the group's offset was aborted"),
        pytest.param(Log(50, aborted=[60, 55]), 60, (10, NOW, 50), 50, id="so it was, twice"),
    ],
)
def test_what_is_sound_is_built_on(
    found: Callable[..., int | None],
    log: Log,
    committed: int | None,
    copy: tuple[int, str, int] | None,
    begins_at: int | None,
) -> None:
    assert found(log, committed, None if copy is None else copied(*copy)) == begins_at


def test_what_the_former_owner_wrote_until_it_was_fenced_is_seen(
    found: Callable[..., int | None],
) -> None:
    """Its last change is decided as the fence ends, long after all else was asked."""
    log = Log(40, end=8)

    async def fence() -> None:
        await asyncio.sleep(0.1)
        log.reached, log.end = 50, 10

    assert found(log, 40, copied(4, NOW, 30), fence=fence) == 50
    log.reached, log.end = 40, 8
    assert found(log, 40, fence=fence) == 50


async def test_no_fence_goes_on_after_the_partition_was_given_up() -> None:
    ended: list[str] = []

    async def fence() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("fence")

    brokers: Any = Offsets(None)
    brokers.refuses = True
    restoring = Restoring(brokers, arrangement(), SOURCE, {})
    copy = LocalCopy("events.raw/0", lambda: None, lambda _: None, NOW)
    with pytest.raises(OSError, match="not said"):
        await restoring.find(copy, fence(), lambda *_: None)
    assert ended == ["fence"]


def test_a_copy_that_does_not_fit_is_made_anew(
    found: Callable[..., int | None], caplog: pytest.LogCaptureFixture
) -> None:
    """The changelog alone is whole. Something of the copy was deleted meanwhile, and compaction has
    taken the tombstone."""
    store = MemoryStore(StoreName("app", "reorder+merge", "events.raw", 0))
    copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, NOW)
    copy.load()
    copy.move({b"state/gone": b"7", changelog.PROGRESS: progress(30)}, 4)
    assert found(Log(50), 50, store) == 50
    assert store.position() is None
    assert "do not form a complete state" in caplog.text


def test_a_copy_of_another_input_knows_nothing_of_this_one(
    found: Callable[..., int | None],
) -> None:
    """All topics and the group were made anew, and a copy was left."""
    assert found(Log(None, end=0), None, copied(99, BEFORE, 70, topic_id="raw-before")) is None


def test_a_copy_may_outlive_the_embedded_broker(found: Callable[..., int | None]) -> None:
    assert found(Log(None, end=0), None, copied(99, "", 70), embedded=True) is None


def test_an_empty_copy_is_as_good_as_none(found: Callable[..., int | None]) -> None:
    """A worker has started, and stopped before there was anything to do."""
    store = MemoryStore(StoreName("app", "reorder+merge", "events.raw", 0))
    copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, BEFORE)
    copy.load()
    copy.move({}, 0)
    assert found(Log(None, end=0), None, store) is None
    assert found(Log(50), 50, store) == 50


@pytest.mark.parametrize(
    ("log", "committed", "copy", "says"),
    [
        pytest.param(Log(None, end=0), 50, None, "no state .*lost or recreated", id="lost"),
        pytest.param(
            Log(None, end=0), 50, (10, BEFORE, 50), "no state .*recreated", id="made anew"
        ),
        pytest.param(Log(None, end=0), 50, (10, NOW, 50), "no state .*recreated", id="emptied"),
        pytest.param(
            Log(None, end=0),
            None,
            (10, BEFORE, 50),
            "no state .*, but its local copy is at offset 50: ",
            id="made anew, of a forgotten group",
        ),
        pytest.param(
            Log(50),
            None,
            (99, BEFORE, 70),
            "is at offset 50, but its local copy is at offset 70",
            id="a copy ahead, of a forgotten group",
        ),
        pytest.param(Log(40, end=8), 50, (10, NOW, 50), "at offset 40, but the group", id="short"),
        pytest.param(Log(40, end=8), 50, (10, "", 50), "at offset 40", id="shorter, no ids"),
        pytest.param(Log(50), 50, (99, NOW, 50, 9), "lost its end", id="behind in time"),
        pytest.param(Log(40), 50, None, "is at offset 40, .*back to 40", id="behind the group"),
        pytest.param(Log(40, aborted=[45]), 50, None, "at offset 40", id="another was aborted"),
        pytest.param(Log(None, aborted=[50]), 50, None, "no state", id="the first was aborted"),
        pytest.param(
            Log(50, aborted=[60]),
            60,
            (99, BEFORE, 70),
            "is at offset 70",
            id="a copy ahead of both",
        ),
        pytest.param(
            Log(50, lost=[b"state/a"]), 50, None, "holds 2 entries.* and 3 were", id="trimmed"
        ),
        pytest.param(Log(50, lost=[b"state/a"]), None, None, "holds 2", id="trimmed, no group"),
        pytest.param(
            Log(50, lost=list(OTHERS)), 50, (10, BEFORE, 40), "holds 0", id="made anew at work"
        ),
        pytest.param(
            Log(50, more={b"state/a": b"x"}), 50, None, "3 were .*other content", id="mixed"
        ),
        pytest.param(Log(50, more={b"state/c": b"x"}), 50, None, "holds 4", id="too many"),
        pytest.param(
            Log(50, lost=[changelog.PROGRESS]),
            50,
            None,
            "not its position",
            id="without its progress",
        ),
    ],
)
def test_what_was_lost_is_refused_with_the_ways_out(
    found: Callable[..., int | None],
    log: Log,
    committed: int | None,
    copy: tuple[int, str, int] | tuple[int, str, int, int] | None,
    says: str,
) -> None:
    store = None
    if copy is not None:
        position, log_id, reached, *now_ns = copy
        store = copied(position, log_id, reached, now_ns=now_ns[0] if now_ns else 1)
    with pytest.raises(StateRefused, match=says) as refused:
        found(log, committed, store)
    assert LOG in str(refused.value)
    assert "begin anew with `application: app-2`" in str(refused.value)
    assert store is None or store.position() is not None  # the sound copy is still there


@pytest.mark.parametrize(
    ("not_since", "read_from"), [((), [4]), ([b"state/b"], [4, None])], ids=["whole", "part"]
)
def test_without_a_copy_what_was_written_again_is_not_read(
    found: Callable[..., int | None], not_since: list[bytes], read_from: list[int | None]
) -> None:
    log = Log(7, since=4, not_since=not_since)
    assert found(log, 7) == 7
    assert log.read_from == read_from
