"""Examples: many buffered events are restored in steps, while the process still answers."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.registry.feed import SchemaFeed
from agents.restore.rebuilding import Rebuilding
from agents.stage.arrangement import Arrangement
from agents.stage.arrival import ArrivalClock
from agents.stage.lane import Lane
from agents.state.changelog import STATE, OnProgress, Progress, StateRefused, encode_changes
from agents.state.held import HeldPages
from tests.agents.records import FakeRecord, arranged
from topology.stage.stage import Stage
from topology.state.saved import SHAPES

SOURCE = TopicPartition("events.raw", 0)
TOPOLOGY = """\
streams: {default: {reorder: {max_wait: 1h, start: zero}, merge: {max_wait: 1h, idle_after: 1h}}}
stages: [reorder+merge]
"""
SOURCES = 200
EVENTS = 40_000
MS = 1_000_000


def records() -> list[FakeRecord]:
    """Return records where half of the sources lack their number 0, so REORDER buffers them.

    MERGE buffers some of the others.
    """
    return [
        FakeRecord(
            offset,
            (
                ("sourceId", b"s%d" % (offset % SOURCES)),
                ("seqNum", b"%d" % (offset // SOURCES + offset % 2)),
                ("ts", b"%d" % ((1_000 + offset // SOURCES) * MS)),
                ("epoch", b"0"),
            ),
            timestamp=2_000 + offset // 100,
        )
        for offset in range(EVENTS)
    ]


def pages_of(stage: Stage) -> HeldPages:
    return HeldPages(1 << 60, stage.ledger, stage.waiting_places)


def state_in(changes: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return the changes as the changelog stores them."""
    return {key: value for key, value in encode_changes(changes).items() if value is not None}


def rebuilding(
    arrangement: Arrangement, stage: Stage, held: HeldPages, told: OnProgress, **services: Any
) -> Rebuilding:
    around: Any = SimpleNamespace(schemas=SchemaFeed(), **services)
    into: Any = SimpleNamespace(
        source=SOURCE,
        stage=stage,
        held=held,
        progress=Progress(),
        lanes={0: Lane(0, SOURCE, arrangement.inlet(SOURCE), ArrivalClock(0))},
        reading_key_of=lambda _: None,
        place_moves={},
        restored=(7, 8),
        note_restored=told,
    )
    return Rebuilding(around, arrangement, into)


def held_state(log: list[FakeRecord]) -> tuple[dict[bytes, bytes], Stage]:
    """Return the state after the log, and the stage that it was taken from."""
    known = arranged(TOPOLOGY)
    stage, inlet, clock = known.operators(SOURCE), known.inlet(SOURCE), ArrivalClock(0)
    held = pages_of(stage)
    read = inlet.read(log, clock)
    stage.on_batch(read.events, clock.now_ns)
    held.update(read.events)
    changes = {STATE + key: value for key, value in stage.changes().items()}
    changes.update(held.changes(clock.now_ns))
    return state_in(changes), stage


@pytest.mark.parametrize("gone", [0, 3])
async def test_restore_yields_to_the_loop(gone: int) -> None:
    log = records()
    state, before = held_state(log)
    expected = {event.offset for event in before.iter_held()}
    assert len(expected) > EVENTS // 2
    lost = set(sorted(expected)[:gone])

    async def read_again(
        source: TopicPartition, offsets: Collection[int]
    ) -> AsyncIterator[tuple[list[FakeRecord], int]]:
        assert source == SOURCE
        for first in range(min(offsets), max(offsets) + 1, 1_000):
            part = [r for r in log[first : first + 1_000] if r.offset in offsets]
            yield [r for r in part if r.offset not in lost], first + 1_000

    gc.freeze()  # Garbage of other tests must not delay a step of the restore.
    told: list[tuple[int, int]] = []
    missing: list[int] = []
    gaps_s: list[float] = []

    async def breathe() -> None:
        last_s = time.thread_time()
        while True:
            await asyncio.sleep(0)
            gaps_s.append(time.thread_time() - last_s)
            last_s = time.thread_time()

    breathing = asyncio.create_task(breathe())
    await asyncio.sleep(0)

    stage = arranged(TOPOLOGY).operators(SOURCE)
    held = pages_of(stage)
    work = rebuilding(
        arranged(TOPOLOGY),
        stage,
        held,
        lambda position, end: told.append((position, end)),
        logs=SimpleNamespace(read_again=read_again),
        metrics=SimpleNamespace(count_store_error=lambda _, count: missing.append(count)),
    )
    began_s = time.thread_time()
    await work.rebuild(state)
    whole_s = time.thread_time() - began_s
    breathing.cancel()
    assert {event.offset for event in stage.iter_held()} == expected - lost
    assert len(held) == len(expected) - gone
    assert missing == ([gone] if gone else [])
    assert told == sorted(told)
    assert all(7 < position <= end for position, end in told)
    assert len(gaps_s) > 5
    assert max(gaps_s) < whole_s / 2  # CPU time, as the machine may be busy


WINDOWS = """\
streams: {default: {reorder: {max_wait: 1h}, merge: {max_wait: 1h}}}
queries: {w: {stream: default, window: tumbling 1s, aggregate: {n: count()}}}
stages: [reorder+merge+window]
"""


def refusal_of(said: Any) -> str:
    """Return the refusal of a state in which the windows' shape is described by `said`."""
    known = arranged(WINDOWS)
    operators = known.operators(SOURCE)
    read = known.inlet(SOURCE).read(records()[:10], ArrivalClock(0))
    operators.on_batch(read.events, read.events[-1].at_ns)
    changes = operators.changes()
    (key,) = [key for key in changes if key.endswith(SHAPES) and "window" in key]
    others = [shape for shape in changes[key] if shape[0] != "window"]
    changes[key] = None if said is None else [*others, said]
    state = state_in({STATE + name: value for name, value in changes.items()})
    stage = known.operators(SOURCE)
    work = rebuilding(known, stage, pages_of(stage), lambda *_: None, logs=None)
    with pytest.raises(StateRefused) as found:
        asyncio.run(work.rebuild(state))
    return str(found.value)


@pytest.mark.parametrize(
    "said",
    [
        None,
        ["another", 1, []],
        ["window", 2, []],
        ["window", 1, [["_now_ns", "text"]]],
        ["window", 1, [["gone", "int"]]],
    ],
    ids=["unreadable", "absent", "number", "kind", "field"],
)
def test_other_shape_is_refused(said: Any) -> None:
    text = refusal_of(said)
    assert "its description " in text
    assert "go on with the version that wrote it, or " in text
    assert "\n" not in text
