"""Examples: a restore whose held records are gone from the log, or were never held.

Retention may take what was held while no worker ran. The numbers are missing then, and are
declared so; the source goes on.
"""

from __future__ import annotations

from typing import Any

import pytest

from topology.config.stream import ReorderConfig
from topology.model.event import DATA, Event
from topology.model.outcome import Gap
from topology.reorder.operator import Reorder

MS = 1_000_000


def event(at: int, seq: int) -> Event:
    return Event("default", "s", 0, seq, at * MS, at * MS, offset=seq)


def reorder(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(rule="fixed", max_wait_ns=50 * MS, **settings))


def restored(before: Reorder, kept: list[Event], **settings: Any) -> Reorder:
    again = reorder(**settings)
    again.restore(before.snapshot(), kept)
    return again


def numbers(events: list[Event]) -> list[int]:
    return [event.seq for event in events if event.kind == DATA]


@pytest.mark.parametrize("kept", [[4, 5], [3, 5], [5], [3], []])
def test_what_is_gone_from_the_log_is_missing_again(kept: list[int]) -> None:
    before = reorder(start=0)
    before.on_batch([event(0, 0), event(1, 3), event(2, 4), event(3, 5)], 3 * MS)
    again = restored(before, [event(n, n) for n in kept], start=0)
    step = again.on_batch([event(10, 6), event(11, 1), event(12, 2)], 12 * MS)
    late = again.on_time(200 * MS)
    gone = {3, 4, 5} - set(kept)
    out = numbers(step.released) + numbers(late.released)
    assert out == [n for n in range(1, 7) if n not in gone]
    gaps = [report for report in (*step.reports, *late.reports) if isinstance(report, Gap)]
    assert {n for gap in gaps for n in range(gap.first, gap.last + 1)} == gone
    assert not list(again.held())
    assert numbers(again.on_batch([event(300, 7)], 300 * MS).released) == [7]


@pytest.mark.parametrize("kept", [[7, 9], [9], []])
def test_a_start_hold_goes_on_with_what_is_left(kept: list[int]) -> None:
    before = reorder()
    before.on_batch([event(0, 7), event(1, 8), event(2, 9)], 2 * MS)
    again = restored(before, [event(n - 7, n) for n in kept])
    step = again.on_batch([event(5, 10)], 5 * MS)
    late = again.on_time(500 * MS)
    assert numbers(step.released) + numbers(late.released) == [*kept, 10]


def test_what_the_numbers_do_not_call_held_is_not_taken() -> None:
    before = reorder(start=0)
    before.on_batch([event(0, 0), event(1, 1), event(2, 3)], 2 * MS)
    stale = [event(0, 0), event(1, 2), event(2, 3)]
    again = restored(before, stale, start=0)
    assert numbers(list(again.held())) == [3]
    assert [e.held_by for e in stale] == [0, 0, 1]
    assert numbers(again.on_batch([event(3, 2)], 3 * MS).released) == [2, 3]
