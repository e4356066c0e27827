"""Examples: which changelog is believed, which is refused, and what the message says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

import agents.restoring as restoring_room
from agents import changelog
from agents.arrangement import arrange, topics_of
from agents.changelog import STATE_FORMAT, LogRead, Progress, StateRefused, encode
from agents.local_copy import LocalCopy
from agents.restoring import Restoring
from agents.state.memory import MemoryStore
from agents.state.store import StoreName
from topology.description import parse

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = "streams: {default: {}}\nstages: [reorder+merge]\napplication: app\n"
LOG = "app.reorder-merge.events.raw.changelog"
NOW, BEFORE = "id-now", "id-before"


@dataclass
class Log:
    """A changelog as the brokers have it: one record that says how far the state is, or none."""

    reached: int | None
    first: int = 0
    end: int = 10

    def read(self, position: int | None) -> LogRead:
        changes: dict[bytes, bytes | None] = {}
        if self.reached is not None and (position is None or position < self.end):
            changes[changelog.PROGRESS] = progress(self.reached)
        return LogRead(changes, self.first, self.end)


def arrangement() -> Any:
    topology = parse(TOPOLOGY)
    stage = topology.stages[0]
    return arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), 1))


def progress(reached: int) -> bytes:
    fingerprint = arrangement().fingerprint(SOURCE)
    return encode(Progress(reached, [1, 2], fingerprint, "raw-id", STATE_FORMAT))


def copied(position: int, log_id: str, reached: int) -> MemoryStore:
    store = MemoryStore(StoreName("app", "reorder+merge", "events.raw", 0))
    copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, log_id)
    copy.load()
    copy.move({changelog.PROGRESS: progress(reached)}, position)
    return store


class Offsets:
    """The brokers, as far as the restore asks them."""

    is_embedded = False

    def __init__(self, committed: int | None) -> None:
        self._committed = committed

    async def committed(self, group: str, partition: TopicPartition) -> int | None:
        assert (group, partition) == ("app.reorder+merge", SOURCE)
        return self._committed


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int | None]:
    """The input offset that reading would go on from; None for the first record."""

    def find(log: Log, committed: int | None, store: MemoryStore | None = None) -> int | None:
        async def read(_: Any, where: TopicPartition, position: int | None, __: Any) -> LogRead:
            assert where == (LOG, 0)
            return log.read(position)

        monkeypatch.setattr(restoring_room, "read_changelog", read)
        brokers: Any = Offsets(committed)
        ids = {"events.raw": "raw-id", LOG: NOW}
        restoring = Restoring(brokers, arrangement(), SOURCE, ids)
        copy = LocalCopy("events.raw/0", lambda: store, lambda _: None, NOW)
        state = asyncio.run(restoring.find(copy, lambda *_: None)).state
        if changelog.PROGRESS not in state:
            return None
        return restoring.progress(state).next_offset

    return find


@pytest.mark.parametrize(
    ("log", "committed", "copy", "begins_at"),
    [
        pytest.param(Log(None, end=0), None, None, None, id="a first start"),
        pytest.param(Log(50), 50, None, 50, id="the changelog alone"),
        pytest.param(Log(50), None, None, 50, id="the group was forgotten"),
        pytest.param(Log(50), 7, None, 50, id="the group's offset was moved back"),
        pytest.param(Log(50), 50, (10, NOW, 50), 50, id="a copy at the end"),
        pytest.param(Log(50), 50, (4, NOW, 30), 50, id="a copy behind"),
        pytest.param(Log(50), 50, (4, "", 30), 50, id="a copy from brokers without ids"),
        pytest.param(Log(50), 50, (10, BEFORE, 40), 50, id="restored under another id"),
        pytest.param(Log(50), 50, (99, BEFORE, 40), 50, id="restored, and shorter"),
        pytest.param(Log(50), None, (99, NOW, 70), 50, id="a copy ahead, of a forgotten group"),
        pytest.param(Log(50, first=3), 50, (10, NOW, 50), 50, id="trimmed behind the copy"),
        pytest.param(Log(None, end=0), None, (99, BEFORE, 70), None, id="all was made anew"),
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


@pytest.mark.parametrize(
    ("log", "committed", "copy", "says"),
    [
        pytest.param(Log(None, end=0), 50, None, "no state .*lost or made anew", id="lost"),
        pytest.param(
            Log(None, end=0), 50, (10, BEFORE, 50), "no state .*made anew", id="made anew"
        ),
        pytest.param(Log(None, end=0), 50, (10, NOW, 50), "has lost its end", id="emptied"),
        pytest.param(Log(40, end=8), 50, (10, NOW, 50), "ends at offset 8.* to 10", id="shorter"),
        pytest.param(Log(40, end=8), 50, (10, "", 50), "ends at offset 8", id="shorter, no ids"),
        pytest.param(Log(40), 50, None, "stands at offset 40, .*back to 40", id="behind the group"),
        pytest.param(Log(50, first=3), 50, None, "begins at offset 3", id="trimmed"),
        pytest.param(Log(50, first=3), 50, (2, NOW, 9), "begins at offset 3", id="trimmed ahead"),
    ],
)
def test_what_was_lost_is_refused_with_the_ways_out(
    found: Callable[..., int | None],
    log: Log,
    committed: int | None,
    copy: tuple[int, str, int] | None,
    says: str,
) -> None:
    store = None if copy is None else copied(*copy)
    with pytest.raises(StateRefused, match=says) as refused:
        found(log, committed, store)
    assert LOG in str(refused.value)
    assert "another `application:`" in str(refused.value)
    assert store is None or store.position() is not None  # the sound copy is still there
