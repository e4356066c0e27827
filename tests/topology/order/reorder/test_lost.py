"""Examples: a restore whose buffered records are gone from the log, or were never buffered.

Retention can delete buffered records while no worker runs. Their numbers are then missing, and are
reported as gaps; the source continues.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.events import event
from tests.laws.test_changes import Log
from topology.base.event import DATA, Event
from topology.base.outcome import Gap
from topology.config import ReorderConfig
from topology.order.reorder.by_time import ReorderByTime
from topology.order.reorder.lost import LOST, PAGE
from topology.order.reorder.operator import Reorder
from topology.state.saved import ShapeRefused

MS = 1_000_000


def reorder(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(rule="fixed", max_wait_ns=50 * MS, **settings))


def restored(before: Reorder, kept: list[Event], **settings: Any) -> Reorder:
    again = reorder(**settings)
    again.restore(before.snapshot(), kept)
    return again


def numbers(events: list[Event]) -> list[int]:
    return [event.seq for event in events if event.kind == DATA]


@pytest.mark.parametrize("kept", [[4, 5], [3, 5], [5], [3], []])
def test_records_gone_from_log_are_missing(kept: list[int]) -> None:
    before = reorder(start=0)
    before.on_batch([event(0, 0), event(3, 1), event(4, 2), event(5, 3)], 3 * MS)
    again = restored(before, [event(n, n) for n in kept], start=0)
    step = again.on_batch([event(6, 10), event(1, 11), event(2, 12)], 12 * MS)
    late = again.on_time(200 * MS)
    gone = {3, 4, 5} - set(kept)
    out = numbers(step.released) + numbers(late.released)
    assert out == [n for n in range(1, 7) if n not in gone]
    gaps = [report for report in (*step.reports, *late.reports) if isinstance(report, Gap)]
    assert {n for gap in gaps for n in range(gap.first, gap.last + 1)} == gone
    assert not list(again.iter_held())
    assert numbers(again.on_batch([event(7, 300)], 300 * MS).released) == [7]


@pytest.mark.parametrize("kept", [[7, 9], [9], []])
def test_start_hold_survives_lost_records(kept: list[int]) -> None:
    before = reorder()
    before.on_batch([event(7, 0), event(8, 1), event(9, 2)], 2 * MS)
    again = restored(before, [event(n, n - 7) for n in kept])
    step = again.on_batch([event(10, 5)], 5 * MS)
    late = again.on_time(500 * MS)
    assert numbers(step.released) + numbers(late.released) == [*kept, 10]


def test_records_unknown_to_state_are_freed() -> None:
    before = reorder(start=0)
    before.on_batch([event(0, 0), event(1, 1), event(3, 2)], 2 * MS)
    stale = [event(0, 0), event(2, 1), event(3, 2)]
    again = restored(before, stale, start=0)
    assert numbers(list(again.iter_held())) == [3]
    assert list(again.iter_held()) == stale[2:]
    assert numbers(again.on_batch([event(2, 3)], 3 * MS).released) == [2, 3]


def test_filled_number_moves_its_lost_page() -> None:
    """After the fill, part of the lost range begins in another page."""
    operator, log = reorder(start=0, max_jump=10 * PAGE), Log()
    operator.on_batch([event(0, 0), event(5 * PAGE, 1)], MS)
    operator.on_time(100 * MS)
    log.checkpoint(operator)
    operator.on_batch([event(3 * PAGE, 101)], 101 * MS)
    log.checkpoint(operator)


def test_forgotten_epoch_loses_its_pages() -> None:
    operator, log = reorder(start=0), Log()
    for epoch in range(4):
        at = 1_000 * epoch
        events = [event(0, at), event(5, at + 1)]
        for one in events:
            one.epoch = epoch
        operator.on_batch(events, (at + 1) * MS)
        log.checkpoint(operator)
        operator.on_time((at + 500) * MS)
        log.checkpoint(operator)
    epochs = {key.split("/")[1] for key in operator.snapshot() if key.startswith(LOST)}
    assert epochs == {"2", "3"}


def test_older_or_other_state_is_refused() -> None:
    older = {"now": 5, "pool": [-1, 0, [False, 0, 0, [0, 0, []]]], "buffer/s": [None, None, []]}
    by_time = ReorderByTime("default", ReorderConfig(rule="time"))
    by_time.on_batch([event(0, 0)], 0)
    mine = reorder()
    mine.on_batch([event(0, 0)], 0)
    mine_cut = {key: value for key, value in mine.snapshot().items() if key != "#shape"}
    for state in (older, by_time.snapshot(), mine_cut):
        with pytest.raises(ShapeRefused):
            reorder().restore(state, [])
    with pytest.raises(ShapeRefused):
        ReorderByTime("default", ReorderConfig(rule="time")).restore(mine.snapshot(), [])


@pytest.mark.parametrize("lacks", ["source", "epoch"])
def test_stray_lost_numbers_are_refused(lacks: str) -> None:
    """Stray numbers have a source or epoch that is not in the state."""
    before = reorder(start=0)
    before.on_batch([event(0, 0), event(5, 1)], MS)
    before.on_time(100 * MS)
    state = before.snapshot()
    reorder().restore(state, [])
    (page,) = (key for key in state if key.startswith(LOST))
    if lacks == "epoch":
        state[page.replace("/0/", "/7/", 1)] = state.pop(page)
    else:
        (lane,) = (key for key in state if key.startswith("buffer/"))
        del state[lane]
    with pytest.raises(ShapeRefused, match="lacks epoch [07] of its lost numbers"):
        reorder().restore(state, [])
